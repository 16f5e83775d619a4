// A venue simulated at the touch of a recorded or synthetic book.
//
// Model: an incoming order trades at the opposite touch of the last Depth, for at most the quantity
// displayed there less what we took since that Depth. A resting order fills at its own price when the
// opposite touch reaches it, bounded the same way, in price-time priority. We do not move the market.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "market/instrument.hpp"
#include "market/order_pool.hpp"
#include "market/venue.hpp"

namespace tapewire {

class SimulatedVenue final : public Venue {
 public:
  SimulatedVenue(const std::vector<Instrument>& instruments, std::uint32_t max_open_orders)
      : instruments_(instruments), books_(instruments_.size()), pool_(max_open_orders) {}

  void insert(const OrderInput& o, std::uint16_t strategy_stream, AnswerSink& sink) noexcept override {
    const Reason refused = check_new(o, strategy_stream);
    if (refused != Reason::kNone) return answer(o, ReportStatus::kRejected, refused, {}, sink);
    const Instrument& instrument = *instruments_.find(o.instrument_id);
    Book& book = books_[o.instrument_id];
    const auto side = static_cast<Side>(o.side);
    const bool market = o.order_type == static_cast<std::uint8_t>(OrderType::kMarket);
    const auto tif = static_cast<TimeInForce>(o.time_in_force);
    Touch& opposite = side == Side::kBuy ? book.ask : book.bid;
    const std::int64_t takes =
        market || reaches(side, o.price, opposite) ? std::min(o.quantity, opposite.available) : 0;
    if (tif == TimeInForce::kFok && takes < o.quantity)
      return answer(o, ReportStatus::kExpired, Reason::kNotFillable, {}, sink);
    OpenOrder order;
    order.order_id = o.order_id;
    order.price = o.price;
    order.quantity = o.quantity;
    order.instrument_id = o.instrument_id;
    order.strategy_stream = strategy_stream;
    order.side = side;
    answer(o, ReportStatus::kAccepted, Reason::kNone, order, sink);
    if (takes > 0) {
      opposite.available -= takes;
      order.filled += takes;
      fill(order, instrument, opposite.price, takes, Liquidity::kTaker, book, sink);
    }
    if (order.leaves() == 0) return;
    if (market || tif != TimeInForce::kGtc) {
      unsolicited(order, ReportStatus::kExpired, Reason::kNotFillable, sink);
      return;
    }
    const std::uint32_t node = pool_.add(o.order_id);
    OpenOrder& resting = pool_[node];
    resting = order;
    resting.used = true;
    link(book, node);
  }

  void replace(const OrderInput& o, AnswerSink& sink) noexcept override {
    const std::uint32_t node = pool_.find(o.order_id);
    if (node == kNoNode) return answer(o, ReportStatus::kRejected, unknown_or_done(o), {}, sink);
    OpenOrder& order = pool_[node];
    const Instrument& instrument = *instruments_.find(order.instrument_id);
    const Reason refused = check_values(instrument, o.price, o.quantity, false);
    if (refused != Reason::kNone || o.instrument_id != order.instrument_id)
      return answer(o, ReportStatus::kRejected,
                    refused != Reason::kNone ? refused : Reason::kUnknownInstrument, order, sink);
    Book& book = books_[order.instrument_id];
    const bool keeps_place = o.price == order.price && o.quantity <= order.quantity;
    if (!keeps_place) unlink(book, node);
    order.price = o.price;
    order.quantity = std::max(o.quantity, order.filled);  // to what is filled already: complete
    answer(o, ReportStatus::kReplaced, Reason::kNone, order, sink);
    if (order.leaves() == 0) {
      if (keeps_place) unlink(book, node);
      pool_.remove(node);
      return;
    }
    if (keeps_place) return;
    Touch& opposite = order.side == Side::kBuy ? book.ask : book.bid;
    if (reaches(order.side, order.price, opposite)) {
      const std::int64_t takes = std::min(order.leaves(), opposite.available);
      opposite.available -= takes;
      order.filled += takes;
      if (takes > 0) fill(order, instrument, opposite.price, takes, Liquidity::kTaker, book, sink);
      if (order.leaves() == 0) {
        pool_.remove(node);
        return;
      }
    }
    link(book, node);
  }

  void cancel(const OrderInput& o, AnswerSink& sink) noexcept override {
    const std::uint32_t node = pool_.find(o.order_id);
    if (node == kNoNode) return answer(o, ReportStatus::kRejected, unknown_or_done(o), {}, sink);
    const OpenOrder order = pool_[node];
    unlink(books_[order.instrument_id], node);
    pool_.remove(node);
    answer(o, ReportStatus::kCancelled, Reason::kRequested, order, sink);
  }

  void poll(const Depth& d, std::uint16_t stream, std::uint64_t seq, AnswerSink& sink) noexcept override {
    const Instrument* instrument = instruments_.find(d.instrument_id);
    if (instrument == nullptr) return;
    Book& book = books_[d.instrument_id];
    book.stream = stream;
    book.seq = seq;
    book.bid = touch(d.bid_count, d.bids[0]);
    book.ask = touch(d.ask_count, d.asks[0]);
    match_resting(book, Side::kBuy, *instrument, sink);
    match_resting(book, Side::kSell, *instrument, sink);
  }

  void cancel_all(std::uint16_t strategy_stream, Reason reason, AnswerSink& sink) noexcept override {
    for (std::uint32_t i = 0; i < pool_.capacity(); ++i) {
      if (!pool_[i].used || pool_[i].strategy_stream != strategy_stream) continue;
      const OpenOrder order = pool_[i];
      unlink(books_[order.instrument_id], i);
      pool_.remove(i);
      unsolicited(order, ReportStatus::kCancelled, reason, sink);
    }
  }
  [[nodiscard]] std::uint32_t open_orders() const noexcept override { return pool_.size(); }

 private:
  struct Touch {
    std::int64_t price = 0;
    std::int64_t available = 0;  // displayed, less what we took since that Depth
  };
  struct Book {
    Touch bid;
    Touch ask;
    std::uint64_t seq = 0;  // book_ref
    std::uint16_t stream = 0;
    std::uint32_t best_buy = kNoNode;
    std::uint32_t best_sell = kNoNode;
  };

  // A level that cannot be, from a feed of the user's own, is no market.
  [[nodiscard]] static Touch touch(std::uint16_t count, const Level& best) noexcept {
    return count > 0 && best.price > 0 && best.quantity > 0 ? Touch{best.price, best.quantity} : Touch{};
  }
  [[nodiscard]] static bool reaches(Side side, std::int64_t price, const Touch& opposite) noexcept {
    if (opposite.price == 0) return false;
    return side == Side::kBuy ? price >= opposite.price : price <= opposite.price;
  }

  [[nodiscard]] Reason check_values(const Instrument& i, std::int64_t price, std::int64_t quantity,
                                    bool market) const noexcept {
    if (quantity <= 0) return Reason::kBadQuantity;
    if (quantity % i.lot != 0) return Reason::kOffLot;
    if (market) return price == 0 ? Reason::kNone : Reason::kBadPrice;
    if (price <= 0) return Reason::kBadPrice;
    if (price % i.tick != 0) return Reason::kOffTick;
    return notional(i, price, quantity) ? Reason::kNone : Reason::kOverflow;
  }
  [[nodiscard]] Reason check_new(const OrderInput& o, std::uint16_t strategy_stream) noexcept {
    const Instrument* i = instruments_.find(o.instrument_id);
    if (i == nullptr) return Reason::kUnknownInstrument;
    if (o.side != static_cast<std::uint8_t>(Side::kBuy) && o.side != static_cast<std::uint8_t>(Side::kSell))
      return Reason::kUnsupported;
    const bool market = o.order_type == static_cast<std::uint8_t>(OrderType::kMarket);
    if (!market && o.order_type != static_cast<std::uint8_t>(OrderType::kLimit)) return Reason::kUnsupported;
    const auto tif = static_cast<TimeInForce>(o.time_in_force);
    if (tif != TimeInForce::kGtc && tif != TimeInForce::kIoc && tif != TimeInForce::kFok)
      return Reason::kUnsupported;
    const Reason values = check_values(*i, o.price, o.quantity, market);
    if (values != Reason::kNone) return values;
    // Ids of one strategy only grow, so the highest seen tells a repeated one.
    if ((o.order_id >> 48) != strategy_stream) return Reason::kUnknownOrder;
    std::uint64_t& highest = highest_id_[strategy_stream % kMaxStreams];
    if (o.order_id <= highest) return Reason::kDuplicateOrder;
    highest = o.order_id;
    const Book& book = books_[o.instrument_id];
    if (market) {
      const Touch& opposite = o.side == static_cast<std::uint8_t>(Side::kBuy) ? book.ask : book.bid;
      if (opposite.price == 0) return Reason::kNoMarket;
      if (!notional(*i, opposite.price, o.quantity)) return Reason::kOverflow;
    }
    // What never rests needs no place.
    return pool_.full() && !market && tif == TimeInForce::kGtc ? Reason::kCapacity : Reason::kNone;
  }
  [[nodiscard]] Reason unknown_or_done(const OrderInput& o) const noexcept {
    return o.order_id != 0 && o.order_id <= highest_id_[(o.order_id >> 48) % kMaxStreams]
               ? Reason::kOrderDone
               : Reason::kUnknownOrder;
  }

  void match_resting(Book& book, Side side, const Instrument& instrument, AnswerSink& sink) noexcept {
    Touch& opposite = side == Side::kBuy ? book.ask : book.bid;
    std::uint32_t node = side == Side::kBuy ? book.best_buy : book.best_sell;
    while (node != kNoNode && opposite.available > 0 && reaches(side, pool_[node].price, opposite)) {
      OpenOrder& order = pool_[node];
      const std::uint32_t next = order.next;
      const std::int64_t takes = std::min(order.leaves(), opposite.available);
      opposite.available -= takes;
      order.filled += takes;
      fill(order, instrument, order.price, takes, Liquidity::kMaker, book, sink);
      if (order.leaves() == 0) {
        unlink(book, node);
        pool_.remove(node);
      }
      node = next;
    }
  }

  void link(Book& book, std::uint32_t node) noexcept {
    OpenOrder& order = pool_[node];
    std::uint32_t& head = order.side == Side::kBuy ? book.best_buy : book.best_sell;
    std::uint32_t before = kNoNode;
    std::uint32_t at = head;
    while (at != kNoNode &&
           (order.side == Side::kBuy ? pool_[at].price >= order.price : pool_[at].price <= order.price)) {
      before = at;
      at = pool_[at].next;
    }
    order.previous = before;
    order.next = at;
    if (before == kNoNode)
      head = node;
    else
      pool_[before].next = node;
    if (at != kNoNode) pool_[at].previous = node;
  }
  void unlink(Book& book, std::uint32_t node) noexcept {
    OpenOrder& order = pool_[node];
    std::uint32_t& head = order.side == Side::kBuy ? book.best_buy : book.best_sell;
    if (order.previous == kNoNode)
      head = order.next;
    else
      pool_[order.previous].next = order.next;
    if (order.next != kNoNode) pool_[order.next].previous = order.previous;
    order.previous = kNoNode;
    order.next = kNoNode;
  }

  // The direct answer to a request. `order` is empty when the request never became one.
  void answer(const OrderInput& o, ReportStatus status, Reason reason, const OpenOrder& order,
              AnswerSink& sink) noexcept {
    OrderReport r{};
    r.order_id = o.order_id;
    r.instrument_id = o.instrument_id;
    r.status = static_cast<std::uint8_t>(status);
    r.side = order.order_id != 0 ? static_cast<std::uint8_t>(order.side) : o.side;
    r.reason = static_cast<std::uint16_t>(reason);
    r.price = order.order_id != 0 ? order.price : o.price;
    r.quantity = order.order_id != 0 ? order.quantity : o.quantity;
    r.filled = order.filled;
    r.leaves = status == ReportStatus::kCancelled ? 0 : order.leaves();
    r.request_id = o.request_id;
    r.action = o.action;
    set_book(r);
    sink.report(r);
  }
  void unsolicited(const OpenOrder& order, ReportStatus status, Reason reason, AnswerSink& sink) noexcept {
    OrderReport r{};
    r.order_id = order.order_id;
    r.instrument_id = order.instrument_id;
    r.status = static_cast<std::uint8_t>(status);
    r.side = static_cast<std::uint8_t>(order.side);
    r.reason = static_cast<std::uint16_t>(reason);
    r.price = order.price;
    r.quantity = order.quantity;
    r.filled = order.filled;
    set_book(r);
    sink.report(r);
  }
  void set_book(OrderReport& r) const noexcept {
    if (r.instrument_id >= books_.size()) return;
    r.book_stream = books_[r.instrument_id].stream;
    r.book_seq = books_[r.instrument_id].seq;
  }
  void fill(const OpenOrder& order, const Instrument& instrument, std::int64_t price, std::int64_t quantity,
            Liquidity liquidity, const Book& book, AnswerSink& sink) noexcept {
    Fill f{};
    f.order_id = order.order_id;
    f.exec_id = ++last_exec_id_;
    f.instrument_id = order.instrument_id;
    f.side = static_cast<std::uint8_t>(order.side);
    f.liquidity = static_cast<std::uint8_t>(liquidity);
    f.price = price;
    f.quantity = quantity;
    f.filled = order.filled;
    f.leaves = order.leaves();
    // The touch is at or better than the checked limit for a buy; a sell at a far better touch could
    // overflow, which a saturated fee reports rather than hides.
    const auto value = notional(instrument, price, quantity);
    f.fee = fee(value.value_or(std::numeric_limits<std::int64_t>::max()),
                liquidity == Liquidity::kMaker ? instrument.maker_fee : instrument.taker_fee);
    f.book_stream = book.stream;
    f.book_seq = book.seq;
    sink.fill(f);
  }

  InstrumentTable instruments_;
  std::vector<Book> books_;
  OrderPool pool_;
  std::array<std::uint64_t, kMaxStreams> highest_id_{};
  std::uint64_t last_exec_id_ = 0;
};

}  // namespace tapewire
