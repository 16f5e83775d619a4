// The benchmark's strategy: on every n-th Depth it alternates side and takes the displayed best price
// of that side (buys at the best ask, sells at the best bid) with one limit order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "ipc/loop.hpp"
#include "market/instrument.hpp"

namespace tapewire {

struct AlternatingConfig {
  std::uint64_t every = 5;
  std::int64_t lots = 1;
  std::uint64_t throttle_per_s = 0;  // 0: none
  std::int64_t max_position = 0;     // in quantity units, worst case with open orders; 0: none
};

class AlternatingStrategy {
 public:
  AlternatingStrategy(const std::vector<Instrument>& instruments, const AlternatingConfig& config,
                      StreamWriter& writer, LoopContext context)
      : config_(config),
        instruments_(instruments),
        state_(instruments_.size()),
        writer_(writer),
        context_(std::move(context)),
        tokens_(static_cast<std::int64_t>(config.throttle_per_s) * kTokenNs) {}

  bool on_frame(const FrameHeader& f) noexcept {
    switch (static_cast<FrameType>(f.type)) {
      case FrameType::kDepth:
        if (const auto* d = payload_of<Depth>(f)) return on_depth(*d, f);
        break;
      case FrameType::kFill:
        if (const auto* fill = payload_of<Fill>(f)) return on_fill(*fill);
        break;
      case FrameType::kOrderReport:
        if (const auto* r = payload_of<OrderReport>(f)) return on_report(*r);
        break;
      default:
        return true;
    }
    context_.block().add(Counter::kDropped);
    return true;
  }
  bool on_idle(std::int64_t) noexcept { return true; }
  [[nodiscard]] std::int64_t due() const noexcept { return kNever; }
  [[nodiscard]] const JournalError* error() const noexcept {
    return writer_.has_error() ? &writer_.error() : nullptr;
  }

 private:
  // Tokens in units of order-nanoseconds, so that refilling is one multiplication.
  static constexpr std::int64_t kTokenNs = 1'000'000'000;
  struct State {  // sums of any number of 64-bit quantities
    int128 position = 0;
    int128 open_buys = 0;
    int128 open_sells = 0;
  };

  bool on_depth(const Depth& d, const FrameHeader& f) noexcept {
    context_.block().add(Counter::kDepths);
    if (++depths_ % config_.every != 0) return true;
    const Instrument* instrument = instruments_.find(d.instrument_id);
    if (instrument == nullptr || d.bid_count == 0 || d.ask_count == 0) return true;
    buy_next_ = !buy_next_;
    const bool buy = buy_next_;
    OrderInput o{};
    o.order_id = (static_cast<std::uint64_t>(writer_.stream_id()) << 48) | ++orders_;
    o.instrument_id = d.instrument_id;
    o.action = static_cast<std::uint8_t>(OrderAction::kNew);
    o.side = static_cast<std::uint8_t>(buy ? Side::kBuy : Side::kSell);
    o.order_type = static_cast<std::uint8_t>(OrderType::kLimit);
    o.time_in_force = static_cast<std::uint8_t>(TimeInForce::kGtc);
    o.price = buy ? d.asks[0].price : d.bids[0].price;
    o.quantity = config_.lots * instrument->lot;
    o.request_id = ++requests_;
    const Reason refused = refuse(o, f.gen_time);
    if (refused != Reason::kNone) return report_refused(o, refused, f);
    auto* p = writer_.reserve<OrderInput>(FrameType::kOrderInput);
    if (p == nullptr) return false;
    *p = o;
    writer_.commit(Origin::caused_by(f));
    State& s = state_[o.instrument_id];
    (buy ? s.open_buys : s.open_sells) += o.quantity;
    context_.block().add(Counter::kOrders);
    context_.block().add(Counter::kFramesOut);
    return true;
  }

  [[nodiscard]] Reason refuse(const OrderInput& o, std::int64_t now) noexcept {
    if (config_.max_position > 0) {
      const State& s = state_[o.instrument_id];
      const int128 worst = o.side == static_cast<std::uint8_t>(Side::kBuy)
                               ? s.position + s.open_buys + o.quantity
                               : -(s.position - s.open_sells - o.quantity);
      if (worst > config_.max_position) return Reason::kMaxPosition;
    }
    if (config_.throttle_per_s > 0) {
      const auto rate = static_cast<std::int64_t>(config_.throttle_per_s);
      const std::int64_t elapsed = std::clamp<std::int64_t>(now - refilled_at_, 0, kTokenNs);
      refilled_at_ = now;
      tokens_ = std::min(rate * kTokenNs, tokens_ + elapsed * rate);
      if (tokens_ < kTokenNs) return Reason::kThrottled;
      tokens_ -= kTokenNs;
    }
    return Reason::kNone;
  }
  bool report_refused(const OrderInput& o, Reason reason, const FrameHeader& f) noexcept {
    auto* r = writer_.reserve<OrderReport>(FrameType::kOrderReport);
    if (r == nullptr) return false;
    *r = OrderReport{};
    r->order_id = o.order_id;
    r->instrument_id = o.instrument_id;
    r->status = static_cast<std::uint8_t>(ReportStatus::kRejected);
    r->side = o.side;
    r->reason = static_cast<std::uint16_t>(reason);
    r->price = o.price;
    r->quantity = o.quantity;
    r->request_id = o.request_id;
    r->action = o.action;
    writer_.commit(Origin::caused_by(f));
    context_.block().add(Counter::kRefused);
    context_.block().add(Counter::kFramesOut);
    return true;
  }
  bool on_fill(const Fill& f) noexcept {
    if ((f.order_id >> 48) != writer_.stream_id() || f.instrument_id >= state_.size()) return true;
    State& s = state_[f.instrument_id];
    const bool buy = f.side == static_cast<std::uint8_t>(Side::kBuy);
    s.position += buy ? f.quantity : -f.quantity;
    (buy ? s.open_buys : s.open_sells) -= f.quantity;
    context_.block().add(Counter::kFills);
    return true;
  }
  bool on_report(const OrderReport& r) noexcept {
    if ((r.order_id >> 48) != writer_.stream_id() || r.instrument_id >= state_.size()) return true;
    context_.block().add(Counter::kReports);
    const auto status = static_cast<ReportStatus>(r.status);
    if (status == ReportStatus::kRejected) context_.block().add(Counter::kRejects);
    if (status == ReportStatus::kAccepted || status == ReportStatus::kReplaced) return true;
    // Only new orders are sent, so any other answer ends the order: what was left is no longer open.
    State& s = state_[r.instrument_id];
    (r.side == static_cast<std::uint8_t>(Side::kBuy) ? s.open_buys : s.open_sells) -= r.quantity - r.filled;
    return true;
  }

  AlternatingConfig config_;
  InstrumentTable instruments_;
  std::vector<State> state_;
  StreamWriter& writer_;
  LoopContext context_;
  std::uint64_t depths_ = 0;
  std::uint64_t orders_ = 0;
  std::uint64_t requests_ = 0;
  bool buy_next_ = false;
  std::int64_t tokens_;
  std::int64_t refilled_at_ = 0;
};

}  // namespace tapewire
