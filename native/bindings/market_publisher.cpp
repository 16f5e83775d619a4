// MarketPublisher for Python: one call per frame.
#include "market/market_publisher.hpp"

#include <optional>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "bindings/bindings.hpp"

using namespace nb::literals;

namespace {

using tapewire::EventSource;
using tapewire::L2Book;
using tapewire::Side;
using tapewire::StreamWriter;
using tapewire::bindings::BlockRef;

// Keeps alive what the native publisher only points to.
class Publisher {
 public:
  Publisher(std::shared_ptr<StreamWriter> writer, std::optional<BlockRef> block)
      : writer_(std::move(writer)),
        block_(std::move(block)),
        native_(*writer_, block_ ? &block_->block() : nullptr) {
    if (block_ && !block_->counters->writable())
      throw nb::type_error("these counters were opened for reading");
  }

  std::uint64_t depth(std::uint32_t instrument_id, std::int64_t exchange_time, std::int64_t receive_time,
                      std::uint64_t update_id, const L2Book& book) {
    return checked(native_.depth({instrument_id, exchange_time, receive_time}, update_id, book));
  }
  std::uint64_t book_ticker(std::uint32_t instrument_id, std::int64_t exchange_time,
                            std::int64_t receive_time, std::uint64_t update_id, std::int64_t bid_price,
                            std::int64_t bid_quantity, std::int64_t ask_price, std::int64_t ask_quantity) {
    return checked(native_.book_ticker({instrument_id, exchange_time, receive_time}, update_id,
                                       {bid_price, bid_quantity}, {ask_price, ask_quantity}));
  }
  std::uint64_t trade(std::uint32_t instrument_id, std::int64_t exchange_time, std::int64_t receive_time,
                      std::uint64_t trade_id, std::uint8_t aggressor, std::int64_t price,
                      std::int64_t quantity) {
    if (aggressor > static_cast<std::uint8_t>(Side::kSell)) {
      throw nb::value_error("aggressor must be 0 (unknown), 1 (buy) or 2 (sell)");
    }
    return checked(native_.trade({instrument_id, exchange_time, receive_time}, trade_id,
                                 static_cast<Side>(aggressor), {price, quantity}));
  }
  std::uint64_t gap(std::uint32_t instrument_id, std::uint64_t expected, std::uint64_t found) {
    return checked(native_.gap(instrument_id, expected, found));
  }
  std::uint64_t end_of_input(std::int64_t event_time) { return checked(native_.end_of_input(event_time)); }

 private:
  [[nodiscard]] std::uint64_t checked(std::uint64_t seq) const {
    if (seq == 0) throw writer_->error();
    return seq;
  }

  std::shared_ptr<StreamWriter> writer_;
  std::optional<BlockRef> block_;
  tapewire::MarketPublisher native_;
};

}  // namespace

void bind_market_publisher(nb::module_& m) {
  nb::class_<Publisher>(
      m, "MarketPublisher",
      "Writes market frames to a stream and counts them in `block`.\n\n"
      "Prices in 1e-9, quantities in 10**-quantity_exponent, times in ns since 1970 (0 unknown).\n"
      "Each call returns the frame's seq; raises JournalFull.")
      .def(nb::init<std::shared_ptr<StreamWriter>, std::optional<BlockRef>>(), "writer"_a,
           "block"_a.none() = nb::none())
      .def("depth", &Publisher::depth, "instrument_id"_a, "exchange_time"_a, "receive_time"_a, "update_id"_a,
           "book"_a, "The best ten levels of each side of `book`.")
      .def("book_ticker", &Publisher::book_ticker, "instrument_id"_a, "exchange_time"_a, "receive_time"_a,
           "update_id"_a, "bid_price"_a, "bid_quantity"_a, "ask_price"_a, "ask_quantity"_a)
      .def("trade", &Publisher::trade, "instrument_id"_a, "exchange_time"_a, "receive_time"_a, "trade_id"_a,
           "aggressor"_a, "price"_a, "quantity"_a, "aggressor: 1 buy, 2 sell, 0 unknown.")
      .def("gap", &Publisher::gap, "instrument_id"_a, "expected"_a, "found"_a,
           "Updates expected .. found - 1 are missing: no valid book until the next depth with levels.")
      .def("end_of_input", &Publisher::end_of_input, "event_time"_a = 0,
           "The lifecycle frame that ends the stream's input; event_time is the last receive time, 0 if "
           "none.");
}
