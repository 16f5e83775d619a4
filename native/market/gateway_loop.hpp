// The trade gateway's handler: orders and market data in, the venue's answers out.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "ipc/loop.hpp"
#include "market/venue.hpp"

namespace tapewire {

class GatewayHandler {
 public:
  // `strategies`: (slot, stream) of each, to cancel the orders of one that failed.
  GatewayHandler(Venue& venue, StreamWriter& writer, LoopContext context,
                 std::vector<std::pair<std::uint32_t, std::uint32_t>> strategies)
      : venue_(venue),
        context_(std::move(context)),
        sink_(writer, &context_.block()),
        strategies_(std::move(strategies)),
        cancelled_(strategies_.size(), false) {}

  bool on_frame(const FrameHeader& f) noexcept {
    switch (static_cast<FrameType>(f.type)) {
      case FrameType::kDepth: {
        const auto* depth = payload_of<Depth>(f);
        if (depth == nullptr) return drop();
        recent_[f.seq % recent_.size()] = {f.seq, f.gen_time, f.stream_id};
        sink_.begin(f);
        venue_.poll(*depth, f.stream_id, f.seq, sink_);
        break;
      }
      case FrameType::kOrderInput: {
        const auto* order = payload_of<OrderInput>(f);
        if (order == nullptr) return drop();
        sink_.begin(f);
        dispatch(*order, f);
        break;
      }
      default:
        break;  // nothing a venue answers
    }
    return !sink_.failed();
  }
  bool on_idle(std::int64_t) noexcept {
    CounterBlock& block = context_.block();
    block.set(Counter::kOpenOrders, venue_.open_orders());
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
      if (!context_.control->failed(strategies_[i].first)) {
        cancelled_[i] = false;
        continue;
      }
      if (cancelled_[i]) continue;
      cancelled_[i] = true;
      sink_.begin_unsolicited();
      venue_.cancel_all(static_cast<std::uint16_t>(strategies_[i].second), Reason::kStrategyFailed, sink_);
    }
    return !sink_.failed();
  }
  [[nodiscard]] std::int64_t due() const noexcept { return kNever; }
  [[nodiscard]] const JournalError* error() const noexcept {
    return sink_.failed() ? &sink_.error() : nullptr;
  }

 private:
  struct Seen {
    std::uint64_t seq = 0;
    std::int64_t time = 0;
    std::uint16_t stream = 0;
  };

  void dispatch(const OrderInput& o, const FrameHeader& f) noexcept {
    CounterBlock& block = context_.block();
    block.add(Counter::kOrders);
    const auto action = static_cast<OrderAction>(o.action);
    // An id names its strategy: nobody replaces or cancels the orders of another.
    if (action != OrderAction::kNew && (o.order_id >> 48) != f.stream_id)
      return reject(o, Reason::kUnknownOrder);
    switch (action) {
      case OrderAction::kNew:
        venue_.insert(o, f.stream_id, sink_);
        // What a failed strategy wrote before it died and we read only now is cancelled, too.
        for (std::size_t i = 0; i < strategies_.size(); ++i)
          if (strategies_[i].second == f.stream_id) cancelled_[i] = false;
        break;
      case OrderAction::kReplace:
        venue_.replace(o, sink_);
        break;
      case OrderAction::kCancel:
        venue_.cancel(o, sink_);
        break;
      default:
        reject(o, Reason::kUnsupported);
        break;
    }
    const Seen& root = recent_[f.root_seq % recent_.size()];
    if (root.seq == f.root_seq && root.stream == f.root_stream && root.seq != 0)
      block.record_latency(sink_.last_time() - root.time);  // for the live display alone
  }
  void reject(const OrderInput& o, Reason reason) noexcept {
    OrderReport r{};
    r.order_id = o.order_id;
    r.instrument_id = o.instrument_id;
    r.status = static_cast<std::uint8_t>(ReportStatus::kRejected);
    r.reason = static_cast<std::uint16_t>(reason);
    r.request_id = o.request_id;
    r.action = o.action;
    sink_.report(r);
  }
  bool drop() noexcept {
    context_.block().add(Counter::kDropped);
    return true;
  }

  Venue& venue_;
  LoopContext context_;
  AnswerSink sink_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> strategies_;
  std::vector<bool> cancelled_;
  std::array<Seen, 1024> recent_{};
};

}  // namespace tapewire
