// The events a strategy is given. Numbers are ints in their units; *_decimal properties are exact.
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/event.hpp"

namespace tapewire::bindings {
namespace {

nb::object decimal(std::int64_t value, std::uint32_t exponent) {
  return nb::module_::import_("decimal").attr("Decimal")(value).attr("scaleb")(-static_cast<int>(exponent));
}

std::vector<LevelView> levels(const Level* from, std::uint16_t count, std::uint32_t exponent) {
  std::vector<LevelView> out;
  for (std::uint16_t i = 0; i < count && i < kDepthLevels; ++i)
    out.push_back({from[i].price, from[i].quantity, exponent});
  return out;
}

template <class Payload>
nb::class_<Event<Payload>> event_class(nb::module_& m, const char* name, const char* doc) {
  using E = Event<Payload>;
  return nb::class_<E>(m, name, doc)
      .def_prop_ro(
          "seq", [](const E& e) { return e.header.seq; }, "Sequence number of the frame in its stream.")
      .def_prop_ro("stream_id", [](const E& e) { return e.header.stream_id; })
      .def_prop_ro(
          "gen_time", [](const E& e) { return e.header.gen_time; }, "CLOCK_MONOTONIC ns at publication.")
      .def_prop_ro("instrument_id", [](const E& e) { return e.payload.instrument_id; });
}

#define TAPEWIRE_FIELD(member) #member, [](const E& e) { return e.payload.member; }
#define TAPEWIRE_PRICE(member)                                                 \
  #member "_decimal", [](const E& e) { return decimal(e.payload.member, 9); }, \
      nb::sig("def " #member "_decimal(self) -> decimal.Decimal")
#define TAPEWIRE_QUANTITY(member)                                                                \
  #member "_decimal", [](const E& e) { return decimal(e.payload.member, e.quantity_exponent); }, \
      nb::sig("def " #member "_decimal(self) -> decimal.Decimal")

void bind_market_events(nb::module_& m) {
  {
    using E = LevelView;
    nb::class_<E>(m, "Level", "Price (1e-9) and quantity of one level.")
        .def_ro("price", &E::price)
        .def_ro("quantity", &E::quantity)
        .def_prop_ro(
            "price_decimal", [](const E& e) { return decimal(e.price, 9); },
            nb::sig("def price_decimal(self) -> decimal.Decimal"))
        .def_prop_ro(
            "quantity_decimal", [](const E& e) { return decimal(e.quantity, e.quantity_exponent); },
            nb::sig("def quantity_decimal(self) -> decimal.Decimal"))
        .def("__repr__", [](const E& e) {
          return "Level(price=" + nb::cast<std::string>(nb::str(decimal(e.price, 9))) +
                 ", quantity=" + nb::cast<std::string>(nb::str(decimal(e.quantity, e.quantity_exponent))) +
                 ")";
        });
  }
  {
    using E = Event<Depth>;
    event_class<Depth>(m, "Depth", "A book of up to 10 levels a side, best first.")
        .def_prop_ro(TAPEWIRE_FIELD(exchange_time))
        .def_prop_ro(TAPEWIRE_FIELD(receive_time))
        .def_prop_ro(TAPEWIRE_FIELD(update_id))
        .def_prop_ro(TAPEWIRE_FIELD(bid_count))
        .def_prop_ro(TAPEWIRE_FIELD(ask_count))
        .def_prop_ro(
            "best_bid",
            [](const E& e) {
              return LevelView{e.payload.bids[0].price, e.payload.bids[0].quantity, e.quantity_exponent};
            },
            "The highest bid; price 0 when the side is empty (bid_count 0).")
        .def_prop_ro(
            "best_ask",
            [](const E& e) {
              return LevelView{e.payload.asks[0].price, e.payload.asks[0].quantity, e.quantity_exponent};
            },
            "The lowest ask; price 0 when the side is empty (ask_count 0).")
        .def_prop_ro(
            "bid_price", [](const E& e) { return e.payload.bids[0].price; },
            "best_bid.price, without a Level.")
        .def_prop_ro("bid_quantity", [](const E& e) { return e.payload.bids[0].quantity; })
        .def_prop_ro(
            "ask_price", [](const E& e) { return e.payload.asks[0].price; },
            "best_ask.price, without a Level.")
        .def_prop_ro("ask_quantity", [](const E& e) { return e.payload.asks[0].quantity; })
        .def_prop_ro(
            "bids",
            [](const E& e) { return levels(e.payload.bids, e.payload.bid_count, e.quantity_exponent); })
        .def_prop_ro("asks", [](const E& e) {
          return levels(e.payload.asks, e.payload.ask_count, e.quantity_exponent);
        });
  }
  {
    using E = Event<BookTicker>;
    event_class<BookTicker>(m, "BookTicker", "Best bid and ask of an instrument.")
        .def_prop_ro(TAPEWIRE_FIELD(exchange_time))
        .def_prop_ro(TAPEWIRE_FIELD(receive_time))
        .def_prop_ro(TAPEWIRE_FIELD(update_id))
        .def_prop_ro("best_bid",
                     [](const E& e) {
                       return LevelView{e.payload.bid.price, e.payload.bid.quantity, e.quantity_exponent};
                     })
        .def_prop_ro("best_ask", [](const E& e) {
          return LevelView{e.payload.ask.price, e.payload.ask.quantity, e.quantity_exponent};
        });
  }
  {
    using E = Event<Trade>;
    event_class<Trade>(m, "Trade", "A public trade.")
        .def_prop_ro(TAPEWIRE_FIELD(exchange_time))
        .def_prop_ro(TAPEWIRE_FIELD(receive_time))
        .def_prop_ro(TAPEWIRE_FIELD(trade_id))
        .def_prop_ro(TAPEWIRE_FIELD(aggressor))
        .def_prop_ro(TAPEWIRE_FIELD(price))
        .def_prop_ro(TAPEWIRE_FIELD(quantity))
        .def_prop_ro(TAPEWIRE_PRICE(price))
        .def_prop_ro(TAPEWIRE_QUANTITY(quantity));
  }
}

void bind_order_events(nb::module_& m) {
  {
    using E = Event<OrderInput>;
    event_class<OrderInput>(m, "OrderInput", "A request of a strategy.")
        .def_prop_ro(TAPEWIRE_FIELD(order_id))
        .def_prop_ro(TAPEWIRE_FIELD(action))
        .def_prop_ro(TAPEWIRE_FIELD(side))
        .def_prop_ro(TAPEWIRE_FIELD(order_type))
        .def_prop_ro(TAPEWIRE_FIELD(time_in_force))
        .def_prop_ro(TAPEWIRE_FIELD(price))
        .def_prop_ro(TAPEWIRE_FIELD(quantity))
        .def_prop_ro(TAPEWIRE_FIELD(request_id));
  }
  {
    using E = Event<OrderReport>;
    event_class<OrderReport>(m, "OrderReport", "An answer about an order.")
        .def_prop_ro(TAPEWIRE_FIELD(order_id))
        .def_prop_ro(TAPEWIRE_FIELD(status))
        .def_prop_ro(TAPEWIRE_FIELD(side))
        .def_prop_ro(TAPEWIRE_FIELD(reason))
        .def_prop_ro(TAPEWIRE_FIELD(price))
        .def_prop_ro(TAPEWIRE_FIELD(quantity))
        .def_prop_ro(TAPEWIRE_FIELD(filled))
        .def_prop_ro(TAPEWIRE_FIELD(leaves))
        .def_prop_ro(TAPEWIRE_FIELD(request_id))
        .def_prop_ro(TAPEWIRE_FIELD(action))
        .def_prop_ro(
            "book_ref",
            [](const E& e) -> nb::object {
              if (e.payload.book_stream == 0) return nb::none();
              return nb::make_tuple(e.payload.book_stream, e.payload.book_seq);
            },
            nb::sig("def book_ref(self) -> tuple[int, int] | None"),
            "(stream id, seq) of the Depth this answer was computed from.")
        .def_prop_ro(TAPEWIRE_PRICE(price))
        .def_prop_ro(TAPEWIRE_QUANTITY(quantity))
        .def_prop_ro(TAPEWIRE_QUANTITY(filled))
        .def_prop_ro(TAPEWIRE_QUANTITY(leaves));
  }
  {
    using E = Event<Fill>;
    event_class<Fill>(m, "Fill", "One execution.")
        .def_prop_ro(TAPEWIRE_FIELD(order_id))
        .def_prop_ro(TAPEWIRE_FIELD(exec_id))
        .def_prop_ro(TAPEWIRE_FIELD(side))
        .def_prop_ro(TAPEWIRE_FIELD(liquidity))
        .def_prop_ro(TAPEWIRE_FIELD(price))
        .def_prop_ro(TAPEWIRE_FIELD(quantity))
        .def_prop_ro(TAPEWIRE_FIELD(filled))
        .def_prop_ro(TAPEWIRE_FIELD(leaves))
        .def_prop_ro(TAPEWIRE_FIELD(fee))
        .def_prop_ro(
            "book_ref",
            [](const E& e) -> nb::object {
              if (e.payload.book_stream == 0) return nb::none();
              return nb::make_tuple(e.payload.book_stream, e.payload.book_seq);
            },
            nb::sig("def book_ref(self) -> tuple[int, int] | None"))
        .def_prop_ro(TAPEWIRE_PRICE(price))
        .def_prop_ro(TAPEWIRE_PRICE(fee))
        .def_prop_ro(TAPEWIRE_QUANTITY(quantity))
        .def_prop_ro(TAPEWIRE_QUANTITY(filled))
        .def_prop_ro(TAPEWIRE_QUANTITY(leaves));
  }
  {
    using E = Event<Timer>;
    nb::class_<E>(m, "Timer", "A timer of set_timer that is due.")
        .def_prop_ro("seq", [](const E& e) { return e.header.seq; })
        .def_prop_ro("stream_id", [](const E& e) { return e.header.stream_id; })
        .def_prop_ro("gen_time", [](const E& e) { return e.header.gen_time; })
        .def_prop_ro(TAPEWIRE_FIELD(timer_id))
        .def_prop_ro(TAPEWIRE_FIELD(due_time))
        .def_prop_ro(TAPEWIRE_FIELD(fire_time));
  }
}

#undef TAPEWIRE_FIELD
#undef TAPEWIRE_PRICE
#undef TAPEWIRE_QUANTITY

}  // namespace
}  // namespace tapewire::bindings

void bind_events(nb::module_& m) {
  tapewire::bindings::bind_market_events(m);
  tapewire::bindings::bind_order_events(m);
}
