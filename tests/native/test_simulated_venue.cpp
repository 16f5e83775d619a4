// The simulated venue against a plain model of its rules, and each rule by name.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "market/simulated_venue.hpp"
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

constexpr std::uint16_t kMarketStream = 1;
constexpr std::uint16_t kStrategyA = 5;
constexpr std::uint16_t kStrategyB = 6;
constexpr std::uint64_t id_of(std::uint16_t strategy, std::uint64_t count) {
  return static_cast<std::uint64_t>(strategy) << 48 | count;
}

// Prices in 1e-9, so a price of 100 is 100 * kOne; quantities in 10^-9.
constexpr std::int64_t kOne = 1'000'000'000;
constexpr std::int64_t kTick = kOne / 100;
constexpr std::int64_t kLot = kOne / 1000;

std::vector<Instrument> instruments() {
  return {{1, kTick, kLot, -100'000, 400'000, 9}, {2, kTick, 10, 0, 1'000'000'000, 2}};
}

// One answer, report or fill, as far as the rules say what is in it.
struct Answer {
  bool is_fill = false;
  std::uint64_t order_id = 0;
  std::uint32_t instrument_id = 0;
  int side = 0;
  int status = 0;     // of a report
  int reason = 0;     // of a report
  int liquidity = 0;  // of a fill
  std::int64_t price = 0;
  std::int64_t quantity = 0;
  std::int64_t filled = 0;
  std::int64_t leaves = 0;
  std::int64_t fee = 0;
  std::uint64_t request_id = 0;
  int action = 0;
  std::uint64_t book_seq = 0;
  bool operator==(const Answer&) const = default;
};
void print(const char* who, const Answer& a) {
  std::fprintf(
      stderr,
      "  %s: %s order %llx side %d status %d reason %d liquidity %d price %lld quantity %lld filled %lld "
      "leaves %lld fee %lld request %llu action %d book %llu\n",
      who, a.is_fill ? "fill" : "report", static_cast<unsigned long long>(a.order_id), a.side, a.status,
      a.reason, a.liquidity, static_cast<long long>(a.price), static_cast<long long>(a.quantity),
      static_cast<long long>(a.filled), static_cast<long long>(a.leaves), static_cast<long long>(a.fee),
      static_cast<unsigned long long>(a.request_id), a.action, static_cast<unsigned long long>(a.book_seq));
}

// The venue with a stream to answer into, and what it answered.
class Bench {
 public:
  explicit Bench(std::uint32_t max_open_orders)
      : writer_(open_writer(scratch_.path(), {}, 16 * kSmallPage, "td", 2)),
        cursor_(open_cursor(scratch_.path(), {}, "td")),
        sink_(*writer_, nullptr),
        venue_(instruments(), max_open_orders) {}

  std::vector<Answer> order(const OrderInput& o, std::uint16_t strategy) {
    begin(strategy, FrameType::kOrderInput);
    switch (static_cast<OrderAction>(o.action)) {
      case OrderAction::kNew:
        venue_.insert(o, strategy, sink_);
        break;
      case OrderAction::kReplace:
        venue_.replace(o, sink_);
        break;
      case OrderAction::kCancel:
        venue_.cancel(o, sink_);
        break;
    }
    return answers();
  }
  std::vector<Answer> depth(const Depth& d) {
    begin(kMarketStream, FrameType::kDepth);
    venue_.poll(d, kMarketStream, cause_.seq, sink_);
    return answers();
  }
  std::vector<Answer> cancel_all(std::uint16_t strategy) {
    begin(kStrategyA, FrameType::kLifecycle);
    venue_.cancel_all(strategy, Reason::kStrategyFailed, sink_);
    return answers();
  }
  [[nodiscard]] const SimulatedVenue& venue() const { return venue_; }
  [[nodiscard]] std::uint64_t last_cause() const { return cause_.seq; }

 private:
  void begin(std::uint16_t stream, FrameType type) {
    ++cause_.seq;
    cause_.stream_id = stream;
    cause_.type = static_cast<std::uint16_t>(type);
    sink_.begin(cause_);
  }
  std::vector<Answer> answers() {
    CHECK(!sink_.failed());
    std::vector<Answer> all;
    while (const FrameHeader* f = cursor_->peek()) {
      CHECK_EQ(f->cause_seq, cause_.seq);
      CHECK_EQ(f->cause_stream, cause_.stream_id);
      CHECK_EQ(f->root_type, cause_.type);
      const auto* payload = reinterpret_cast<const std::byte*>(f) + kHeaderBytes;
      Answer a;
      if (f->type == static_cast<std::uint16_t>(FrameType::kFill)) {
        const auto& x = *reinterpret_cast<const Fill*>(payload);
        CHECK_EQ(x.exec_id, ++exec_id_);
        a = {true,       x.order_id, x.instrument_id, x.side, 0, 0, x.liquidity, x.price,
             x.quantity, x.filled,   x.leaves,        x.fee,  0, 0, x.book_seq};
      } else {
        const auto& r = *reinterpret_cast<const OrderReport*>(payload);
        for (const auto z : r.reserved) CHECK_EQ(z, 0);
        a = {false,      r.order_id, r.instrument_id, r.side, r.status,     r.reason, 0,         r.price,
             r.quantity, r.filled,   r.leaves,        0,      r.request_id, r.action, r.book_seq};
      }
      all.push_back(a);
      cursor_->advance();
    }
    CHECK(!cursor_->failed());
    return all;
  }

  Scratch scratch_;
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<Cursor> cursor_;
  AnswerSink sink_;
  SimulatedVenue venue_;
  FrameHeader cause_{};
  std::uint64_t exec_id_ = 0;
};

// ---- the model: lists and maps, no links, no hash, no indices ---------------------------------

class Model {
 public:
  explicit Model(std::size_t max_open_orders) : capacity_(max_open_orders) {}

  std::vector<Answer> order(const OrderInput& o, std::uint16_t strategy) {
    out_.clear();
    switch (static_cast<OrderAction>(o.action)) {
      case OrderAction::kNew:
        insert(o, strategy);
        break;
      case OrderAction::kReplace:
        replace(o);
        break;
      case OrderAction::kCancel:
        cancel(o);
        break;
    }
    return out_;
  }
  std::vector<Answer> depth(const Depth& d, std::uint64_t seq) {
    out_.clear();
    if (d.instrument_id != 1 && d.instrument_id != 2) return out_;
    Book& b = books_[d.instrument_id];
    b.seq = seq;
    // A level without a price or a quantity is no market.
    auto touch = [](int count, const Level& best) {
      return count > 0 && best.price > 0 && best.quantity > 0 ? std::optional(best) : std::nullopt;
    };
    b.touch[1] = touch(d.bid_count, d.bids[0]);
    b.touch[2] = touch(d.ask_count, d.asks[0]);
    for (const int side : {1, 2}) {
      // Best price first, then the one that has waited longest.
      std::vector<Order*> queue;
      for (auto& [id, order] : open_)
        if (order.side == side && order.instrument == d.instrument_id) queue.push_back(&order);
      std::sort(queue.begin(), queue.end(), [&](const Order* x, const Order* y) {
        if (x->price != y->price) return side == 1 ? x->price > y->price : x->price < y->price;
        return x->since < y->since;
      });
      for (Order* order : queue) {
        const std::int64_t takes = available(*order);
        if (takes > 0) fill(*order, order->price, takes, Liquidity::kMaker);
      }
    }
    std::erase_if(open_, [](const auto& entry) { return entry.second.filled == entry.second.quantity; });
    return out_;
  }
  std::vector<Answer> cancel_all(std::uint16_t strategy) {
    out_.clear();
    for (auto& [id, order] : open_)
      if (id >> 48 == strategy) report(order, ReportStatus::kCancelled, Reason::kStrategyFailed, 0);
    std::erase_if(open_, [&](const auto& entry) { return entry.first >> 48 == strategy; });
    return out_;
  }
  [[nodiscard]] std::size_t open_orders() const { return open_.size(); }

 private:
  struct Order {
    std::uint64_t id = 0;
    std::uint32_t instrument = 0;
    int side = 0;
    std::int64_t price = 0;
    std::int64_t quantity = 0;
    std::int64_t filled = 0;
    std::uint64_t since = 0;
  };
  struct Book {
    std::map<int, std::optional<Level>> touch;  // by side; the quantity is what we have left of it
    std::uint64_t seq = 0;
  };

  static const Instrument* find(std::uint32_t id) {
    static const auto all = instruments();
    for (const auto& i : all)
      if (i.id == id) return &all[i.id - 1];
    return nullptr;
  }
  static bool fits(const Instrument& i, std::int64_t price, std::int64_t quantity) {
    const long double value = static_cast<long double>(price) * static_cast<long double>(quantity) /
                              static_cast<long double>(power_of_ten(i.quantity_exponent));
    return value < 9.22e18L;
  }
  // What the other side of the book still has for this order.
  std::int64_t available(const Order& o, bool market = false) {
    const auto& touch = books_[o.instrument].touch[3 - o.side];
    if (!touch) return 0;
    const bool reaches = market || (o.side == 1 ? o.price >= touch->price : o.price <= touch->price);
    return reaches ? std::min(touch->quantity, o.quantity - o.filled) : 0;
  }
  void fill(Order& o, std::int64_t price, std::int64_t quantity, Liquidity liquidity) {
    o.filled += quantity;
    books_[o.instrument].touch[3 - o.side]->quantity -= quantity;
    const Instrument& i = *find(o.instrument);
    const std::int64_t rate = liquidity == Liquidity::kMaker ? i.maker_fee : i.taker_fee;
    // To the nearest 1e-9, halves away from zero, of values that a long double holds exactly here.
    auto nearest = [](long double v) { return static_cast<std::int64_t>(v < 0 ? v - 0.5L : v + 0.5L); };
    const std::int64_t notional_value =
        nearest(static_cast<long double>(price) * static_cast<long double>(quantity) /
                static_cast<long double>(power_of_ten(i.quantity_exponent)));
    const std::int64_t fee_value =
        nearest(static_cast<long double>(notional_value) * static_cast<long double>(rate) / 1e9L);
    out_.push_back({true, o.id, o.instrument, o.side, 0, 0, static_cast<int>(liquidity), price, quantity,
                    o.filled, o.quantity - o.filled, fee_value, 0, 0, books_[o.instrument].seq});
  }
  void report(const Order& o, ReportStatus status, Reason reason, std::int64_t leaves,
              const OrderInput* request = nullptr) {
    out_.push_back({false, o.id, o.instrument, o.side, static_cast<int>(status), static_cast<int>(reason), 0,
                    o.price, o.quantity, o.filled, leaves, 0, request ? request->request_id : 0,
                    request ? request->action : 0,
                    find(o.instrument) != nullptr ? books_[o.instrument].seq : 0});
  }
  void refuse(const OrderInput& o, Reason reason, ReportStatus status = ReportStatus::kRejected) {
    report(Order{o.order_id, o.instrument_id, o.side, o.price, o.quantity, 0, 0}, status, reason, 0, &o);
  }
  static Reason values(const Instrument& i, const OrderInput& o, bool market) {
    if (o.quantity <= 0) return Reason::kBadQuantity;
    if (o.quantity % i.lot != 0) return Reason::kOffLot;
    if (market) return o.price == 0 ? Reason::kNone : Reason::kBadPrice;
    if (o.price <= 0) return Reason::kBadPrice;
    if (o.price % i.tick != 0) return Reason::kOffTick;
    return fits(i, o.price, o.quantity) ? Reason::kNone : Reason::kOverflow;
  }
  void insert(const OrderInput& o, std::uint16_t strategy) {
    const Instrument* i = find(o.instrument_id);
    if (i == nullptr) return refuse(o, Reason::kUnknownInstrument);
    const bool market = o.order_type == 2;
    if ((o.side != 1 && o.side != 2) || (!market && o.order_type != 1) ||
        (o.time_in_force != 1 && o.time_in_force != 3 && o.time_in_force != 4))
      return refuse(o, Reason::kUnsupported);
    if (const Reason r = values(*i, o, market); r != Reason::kNone) return refuse(o, r);
    if (o.order_id >> 48 != strategy) return refuse(o, Reason::kUnknownOrder);
    if (o.order_id <= highest_[strategy]) return refuse(o, Reason::kDuplicateOrder);
    highest_[strategy] = o.order_id;
    const auto& touch = books_[o.instrument_id].touch[3 - o.side];
    if (market && !touch) return refuse(o, Reason::kNoMarket);
    if (market && !fits(*i, touch->price, o.quantity)) return refuse(o, Reason::kOverflow);
    const bool may_rest = !market && o.time_in_force == 1;
    if (may_rest && open_.size() == capacity_) return refuse(o, Reason::kCapacity);
    Order order{o.order_id, o.instrument_id, o.side, o.price, o.quantity, 0, ++clock_};
    const std::int64_t takes = available(order, market);
    if (o.time_in_force == 4 && takes < o.quantity)
      return refuse(o, Reason::kNotFillable, ReportStatus::kExpired);
    report(order, ReportStatus::kAccepted, Reason::kNone, o.quantity, &o);
    if (takes > 0) fill(order, touch->price, takes, Liquidity::kTaker);
    if (order.filled == order.quantity) return;
    if (market || o.time_in_force != 1) return report(order, ReportStatus::kExpired, Reason::kNotFillable, 0);
    open_[o.order_id] = order;
  }
  Reason gone(const OrderInput& o) {
    return o.order_id != 0 && o.order_id <= highest_[static_cast<std::uint16_t>(o.order_id >> 48)]
               ? Reason::kOrderDone
               : Reason::kUnknownOrder;
  }
  void replace(const OrderInput& o) {
    const auto at = open_.find(o.order_id);
    if (at == open_.end()) return refuse(o, gone(o));
    Order& order = at->second;
    Reason r = values(*find(order.instrument), o, false);
    if (r == Reason::kNone && o.instrument_id != order.instrument) r = Reason::kUnknownInstrument;
    if (r != Reason::kNone) {
      report(order, ReportStatus::kRejected, r, order.quantity - order.filled, &o);
      out_.back().instrument_id = o.instrument_id;
      out_.back().book_seq = find(o.instrument_id) != nullptr ? books_[o.instrument_id].seq : 0;
      return;
    }
    const bool keeps_place = o.price == order.price && o.quantity <= order.quantity;
    order.price = o.price;
    order.quantity = std::max(o.quantity, order.filled);
    report(order, ReportStatus::kReplaced, Reason::kNone, order.quantity - order.filled, &o);
    if (!keeps_place && order.filled < order.quantity) {
      order.since = ++clock_;
      const std::int64_t takes = available(order);
      if (takes > 0)
        fill(order, books_[order.instrument].touch[3 - order.side]->price, takes, Liquidity::kTaker);
    }
    if (order.filled == order.quantity) open_.erase(at);
  }
  void cancel(const OrderInput& o) {
    const auto at = open_.find(o.order_id);
    if (at == open_.end()) return refuse(o, gone(o));
    report(at->second, ReportStatus::kCancelled, Reason::kRequested, 0, &o);
    out_.back().instrument_id = o.instrument_id;
    out_.back().book_seq = find(o.instrument_id) != nullptr ? books_[o.instrument_id].seq : 0;
    open_.erase(at);
  }

  std::size_t capacity_;
  std::map<std::uint64_t, Order> open_;
  std::map<std::uint32_t, Book> books_;
  std::map<std::uint16_t, std::uint64_t> highest_;
  std::uint64_t clock_ = 0;
  std::vector<Answer> out_;
};

// ---- random requests and books ----------------------------------------------------------------

struct Counts {
  std::uint64_t requests = 0;
  std::uint64_t depths = 0;
  std::uint64_t fills = 0;
  std::map<int, std::uint64_t> reasons;
};

Depth make_depth(std::uint32_t instrument, std::optional<Level> bid, std::optional<Level> ask) {
  Depth d{};
  d.instrument_id = instrument;
  d.bid_count = bid ? 1 : 0;
  d.ask_count = ask ? 1 : 0;
  if (bid) d.bids[0] = *bid;
  if (ask) d.asks[0] = *ask;
  return d;
}

void compare(std::uint64_t round, std::uint32_t capacity, std::uint64_t steps, Counts& counts) {
  std::mt19937_64 random(seed() + round);
  auto upto = [&](std::uint64_t n) { return random() % n; };
  Bench bench(capacity);
  Model model(capacity);
  std::map<std::uint16_t, std::uint64_t> used;
  std::uint64_t request = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::vector<Answer> got;
    std::vector<Answer> want;
    if (upto(4) == 0) {
      auto level = [&](std::int64_t ticks) -> std::optional<Level> {
        if (upto(12) == 0) return std::nullopt;
        const std::int64_t price = upto(100) == 0 ? 0 : 100 * kOne + ticks * kTick;
        return Level{price, (static_cast<std::int64_t>(upto(30)) - (upto(50) == 0 ? 30 : 0)) * kLot};
      };
      const auto middle = static_cast<std::int64_t>(upto(7)) - 3;
      const auto instrument = static_cast<std::uint32_t>(upto(16) == 0 ? upto(5) : 1 + upto(2));
      const Depth d =
          make_depth(instrument, level(middle - 1), level(middle + static_cast<std::int64_t>(upto(2))));
      got = bench.depth(d);
      want = model.depth(d, bench.last_cause());
      ++counts.depths;
    } else if (upto(500) == 0) {
      const std::uint16_t strategy = upto(2) == 0 ? kStrategyA : kStrategyB;
      got = bench.cancel_all(strategy);
      want = model.cancel_all(strategy);
      // Which of them first is nobody's business.
      auto by_id = [](const Answer& x, const Answer& y) { return x.order_id < y.order_id; };
      std::sort(got.begin(), got.end(), by_id);
      std::sort(want.begin(), want.end(), by_id);
    } else {
      const std::uint16_t strategy = upto(2) == 0 ? kStrategyA : kStrategyB;
      OrderInput o{};
      const auto kind = upto(10);
      o.action = static_cast<std::uint8_t>(
          kind < 6 ? OrderAction::kNew : (kind < 8 ? OrderAction::kReplace : OrderAction::kCancel));
      const std::uint64_t count = used[strategy];
      o.order_id = o.action == 1 && upto(20) != 0
                       ? id_of(strategy, ++used[strategy])
                       : id_of(upto(20) == 0 ? kStrategyB : strategy, upto(count + 3));
      o.instrument_id = static_cast<std::uint32_t>(upto(40) == 0 ? upto(5) : 1 + upto(2));
      o.side = static_cast<std::uint8_t>(upto(100) == 0 ? upto(4) : 1 + upto(2));
      o.order_type = static_cast<std::uint8_t>(upto(100) == 0 ? upto(4) : (upto(5) == 0 ? 2 : 1));
      o.time_in_force =
          static_cast<std::uint8_t>(upto(100) == 0 ? upto(6) : (upto(2) == 0 ? 1 : (upto(2) == 0 ? 3 : 4)));
      o.price = o.order_type == 2 && upto(20) != 0
                    ? 0
                    : 100 * kOne + (static_cast<std::int64_t>(upto(11)) - 5) * kTick;
      if (upto(60) == 0) o.price += static_cast<std::int64_t>(upto(3)) - 1;
      if (upto(200) == 0) o.price = static_cast<std::int64_t>(upto(3)) - 1;
      if (upto(200) == 0) o.price = INT64_MAX / kTick * kTick;
      o.quantity = static_cast<std::int64_t>(1 + upto(20)) * kLot;
      if (upto(60) == 0) o.quantity += static_cast<std::int64_t>(upto(3)) - 1;
      if (upto(200) == 0) o.quantity = static_cast<std::int64_t>(upto(3)) - 1;
      if (upto(200) == 0) o.quantity = INT64_MAX / kLot * kLot;
      o.request_id = ++request;
      got = bench.order(o, strategy);
      want = model.order(o, strategy);
      ++counts.requests;
      const auto answered =
          std::count_if(got.begin(), got.end(), [&](const Answer& a) { return a.request_id == request; });
      CHECK_EQ(answered, 1);  // one direct answer to every request
    }
    for (const auto& a : got) {
      if (a.is_fill)
        ++counts.fills;
      else
        ++counts.reasons[a.reason];
    }
    if (!(got == want)) {
      std::fprintf(stderr, "seed %llu step %llu:\n", static_cast<unsigned long long>(seed() + round),
                   static_cast<unsigned long long>(step));
      for (const auto& a : got) print("venue", a);
      for (const auto& a : want) print("model", a);
    }
    CHECK(got == want);
    CHECK_EQ(bench.venue().open_orders(), model.open_orders());
  }
}

// ---- the rules by name ------------------------------------------------------------------------

OrderInput limit(std::uint64_t id, Side side, std::int64_t ticks, std::int64_t lots,
                 TimeInForce tif = TimeInForce::kGtc) {
  OrderInput o{};
  o.order_id = id;
  o.instrument_id = 1;
  o.action = 1;
  o.side = static_cast<std::uint8_t>(side);
  o.order_type = 1;
  o.time_in_force = static_cast<std::uint8_t>(tif);
  o.price = 100 * kOne + ticks * kTick;
  o.quantity = lots * kLot;
  o.request_id = id;
  return o;
}
Depth touches(std::int64_t bid_lots, std::int64_t ask_lots, std::int64_t bid_ticks = -1,
              std::int64_t ask_ticks = 1) {
  return make_depth(1, Level{100 * kOne + bid_ticks * kTick, bid_lots * kLot},
                    Level{100 * kOne + ask_ticks * kTick, ask_lots * kLot});
}
std::int64_t filled(const std::vector<Answer>& answers) {
  std::int64_t lots = 0;
  for (const auto& a : answers)
    if (a.is_fill) lots += a.quantity / kLot;
  return lots;
}

void a_touch_is_taken_once_per_depth() {
  Bench b(100);
  (void)b.depth(touches(5, 5));
  CHECK_EQ(filled(b.order(limit(id_of(kStrategyA, 1), Side::kBuy, 1, 3, TimeInForce::kIoc), kStrategyA)), 3);
  CHECK_EQ(filled(b.order(limit(id_of(kStrategyA, 2), Side::kBuy, 1, 3, TimeInForce::kIoc), kStrategyA)), 2);
  CHECK_EQ(filled(b.order(limit(id_of(kStrategyB, 1), Side::kBuy, 1, 3, TimeInForce::kIoc), kStrategyB)), 0);
  // The bid is untouched by what was taken of the ask.
  CHECK_EQ(filled(b.order(limit(id_of(kStrategyB, 2), Side::kSell, -1, 9, TimeInForce::kIoc), kStrategyB)),
           5);
  (void)b.depth(touches(5, 5));
  CHECK_EQ(filled(b.order(limit(id_of(kStrategyB, 3), Side::kBuy, 1, 9, TimeInForce::kIoc), kStrategyB)), 5);
}

void price_then_time() {
  Bench b(100);
  (void)b.depth(touches(5, 5));
  const std::int64_t ticks[] = {-3, -2, -2, -4, -2};
  for (std::uint64_t i = 0; i < 5; ++i)
    (void)b.order(limit(id_of(kStrategyA, i + 1), Side::kBuy, ticks[i], 2), kStrategyA);
  // A smaller quantity keeps its place, a larger one or another price goes to the end.
  OrderInput smaller = limit(id_of(kStrategyA, 2), Side::kBuy, -2, 1);
  smaller.action = 2;
  OrderInput larger = limit(id_of(kStrategyA, 3), Side::kBuy, -2, 3);
  larger.action = 2;
  CHECK_EQ(b.order(smaller, kStrategyA)[0].status, static_cast<int>(ReportStatus::kReplaced));
  CHECK_EQ(b.order(larger, kStrategyA)[0].status, static_cast<int>(ReportStatus::kReplaced));
  std::vector<std::uint64_t> order;
  for (int i = 0; i < 10; ++i)
    for (const auto& a : b.depth(touches(5, 1, -5, -4)))
      if (a.leaves == 0) order.push_back(a.order_id & 0xFF);
  CHECK(order == (std::vector<std::uint64_t>{2, 5, 3, 1, 4}));
  CHECK_EQ(b.venue().open_orders(), 0U);
}

void resting_orders_fill_at_their_own_price() {
  Bench b(100);
  (void)b.depth(touches(5, 5));
  (void)b.order(limit(id_of(kStrategyA, 1), Side::kSell, 3, 4), kStrategyA);
  const auto answers = b.depth(touches(9, 5, 6, 7));
  CHECK_EQ(answers.size(), 1U);
  CHECK(answers[0].price == 100 * kOne + 3 * kTick && answers[0].quantity == 4 * kLot);
  CHECK_EQ(answers[0].liquidity, static_cast<int>(Liquidity::kMaker));
  CHECK(answers[0].fee < 0);  // maker rebate of this instrument
}

void nothing_rests_but_gtc_limits() {
  Bench b(100);
  (void)b.depth(touches(5, 5));
  std::uint64_t n = 0;
  auto send = [&](std::uint8_t type, TimeInForce tif, std::int64_t lots) {
    OrderInput o = limit(id_of(kStrategyA, ++n), Side::kBuy, 1, lots, tif);
    o.order_type = type;
    if (type == 2) o.price = 0;
    return b.order(o, kStrategyA);
  };
  const auto fok = send(1, TimeInForce::kFok, 6);
  CHECK(fok.size() == 1 && fok[0].status == static_cast<int>(ReportStatus::kExpired) && fok[0].action == 1);
  CHECK_EQ(filled(send(1, TimeInForce::kFok, 2)), 2);
  const auto ioc = send(1, TimeInForce::kIoc, 5);
  CHECK(ioc.size() == 3 && ioc[1].quantity == 3 * kLot &&
        ioc[2].status == static_cast<int>(ReportStatus::kExpired));
  CHECK_EQ(ioc[2].reason, static_cast<int>(Reason::kNotFillable));
  (void)b.depth(touches(5, 5));
  const auto market = send(2, TimeInForce::kGtc, 8);
  CHECK(market.size() == 3 && filled(market) == 5 &&
        market[2].status == static_cast<int>(ReportStatus::kExpired));
  CHECK_EQ(b.venue().open_orders(), 0U);
  (void)b.depth(make_depth(1, Level{kOne, kLot}, std::nullopt));
  CHECK_EQ(send(2, TimeInForce::kIoc, 1)[0].reason, static_cast<int>(Reason::kNoMarket));
}

void ids_are_known_for_ever() {
  Bench b(2);
  (void)b.depth(touches(5, 5));
  const OrderInput first = limit(id_of(kStrategyA, 7), Side::kBuy, -3, 1);
  CHECK_EQ(b.order(first, kStrategyA)[0].reason, 0);
  CHECK_EQ(b.order(first, kStrategyA)[0].reason, static_cast<int>(Reason::kDuplicateOrder));
  OrderInput cancel = first;
  cancel.action = 3;
  CHECK_EQ(b.order(cancel, kStrategyA)[0].status, static_cast<int>(ReportStatus::kCancelled));
  CHECK_EQ(b.order(cancel, kStrategyA)[0].reason, static_cast<int>(Reason::kOrderDone));
  CHECK_EQ(b.order(first, kStrategyA)[0].reason, static_cast<int>(Reason::kDuplicateOrder));
  cancel.order_id = id_of(kStrategyA, 8);
  CHECK_EQ(b.order(cancel, kStrategyA)[0].reason, static_cast<int>(Reason::kUnknownOrder));
  CHECK_EQ(b.order(limit(id_of(kStrategyB, 9), Side::kBuy, -3, 1), kStrategyA)[0].reason,
           static_cast<int>(Reason::kUnknownOrder));
  (void)b.order(limit(id_of(kStrategyA, 10), Side::kBuy, -3, 1), kStrategyA);
  (void)b.order(limit(id_of(kStrategyA, 11), Side::kBuy, -3, 1), kStrategyA);
  CHECK_EQ(b.order(limit(id_of(kStrategyA, 12), Side::kBuy, -3, 1), kStrategyA)[0].reason,
           static_cast<int>(Reason::kCapacity));
  OrderInput never_rests = limit(id_of(kStrategyA, 13), Side::kBuy, 1, 1);
  never_rests.time_in_force = static_cast<std::uint8_t>(TimeInForce::kIoc);
  CHECK_EQ(b.order(never_rests, kStrategyA)[0].status, static_cast<int>(ReportStatus::kAccepted));
}

void replacing_to_what_is_filled_completes() {
  Bench b(2);
  (void)b.depth(touches(5, 2));
  const auto answers = b.order(limit(id_of(kStrategyA, 1), Side::kBuy, 1, 6), kStrategyA);
  CHECK(answers.size() == 2 && answers[1].leaves == 4 * kLot);
  OrderInput replace = limit(id_of(kStrategyA, 1), Side::kBuy, 1, 1);
  replace.action = 2;
  const auto replaced = b.order(replace, kStrategyA);
  CHECK(replaced.size() == 1 && replaced[0].leaves == 0 && replaced[0].filled == 2 * kLot);
  CHECK_EQ(b.venue().open_orders(), 0U);
}

}  // namespace

int main() {
  a_touch_is_taken_once_per_depth();
  price_then_time();
  resting_orders_fill_at_their_own_price();
  nothing_rests_but_gtc_limits();
  ids_are_known_for_ever();
  replacing_to_what_is_filled_completes();
  Counts counts;
  const std::uint64_t rounds = (kSanitized ? 8 : 40) * stress_factor();
  for (std::uint64_t round = 0; round < rounds; ++round)
    compare(round, round % 2 == 0 ? 6 : 200, 5'000, counts);
  std::printf("venue: %llu requests, %llu depths, %llu fills, every answer as the model's; reasons met:",
              static_cast<unsigned long long>(counts.requests),
              static_cast<unsigned long long>(counts.depths), static_cast<unsigned long long>(counts.fills));
  for (const auto& [reason, n] : counts.reasons)
    std::printf(" %d×%llu", reason, static_cast<unsigned long long>(n));
  std::printf("\n");
  for (const Reason r : {Reason::kUnknownInstrument, Reason::kOffTick, Reason::kOffLot, Reason::kBadQuantity,
                         Reason::kBadPrice, Reason::kNoMarket, Reason::kUnknownOrder, Reason::kDuplicateOrder,
                         Reason::kOrderDone, Reason::kCapacity, Reason::kOverflow, Reason::kUnsupported,
                         Reason::kStrategyFailed, Reason::kRequested, Reason::kNotFillable})
    CHECK(counts.reasons[static_cast<int>(r)] > 0);
}
