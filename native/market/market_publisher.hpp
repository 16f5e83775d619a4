// Market frames from a decoder that knows instruments and books but not the journal.
#pragma once

#include <cstdint>

#include "ipc/counters.hpp"
#include "journal/clock.hpp"
#include "journal/format.hpp"
#include "journal/writer.hpp"
#include "market/l2book.hpp"

namespace tapewire {

// Where an event came from: the source's times, realtime ns, 0 unknown.
struct EventSource {
  std::uint32_t instrument_id = 0;
  std::int64_t exchange_time = 0;
  std::int64_t receive_time = 0;
};

// Writes to `writer` and counts in `block` (may be null); neither is owned. Every function returns the
// frame's seq, or 0 when the writer refused it: the writer's error() says why, and nothing was published.
class MarketPublisher {
 public:
  MarketPublisher(StreamWriter& writer, CounterBlock* block) noexcept : writer_(&writer), block_(block) {}

  [[nodiscard]] std::uint64_t depth(const EventSource& source, std::uint64_t update_id,
                                    const L2Book& book) noexcept {
    auto* frame = begin<Depth>(FrameType::kDepth, source);
    if (frame == nullptr) return 0;
    frame->update_id = update_id;
    book.fill(*frame);
    return publish(Counter::kDepths);
  }

  [[nodiscard]] std::uint64_t book_ticker(const EventSource& source, std::uint64_t update_id, Level bid,
                                          Level ask) noexcept {
    auto* frame = begin<BookTicker>(FrameType::kBookTicker, source);
    if (frame == nullptr) return 0;
    frame->update_id = update_id;
    frame->bid = bid;
    frame->ask = ask;
    return publish();
  }

  [[nodiscard]] std::uint64_t trade(const EventSource& source, std::uint64_t trade_id, Side aggressor,
                                    Level execution) noexcept {
    auto* frame = begin<Trade>(FrameType::kTrade, source);
    if (frame == nullptr) return 0;
    frame->trade_id = trade_id;
    frame->aggressor = static_cast<std::uint8_t>(aggressor);
    frame->price = execution.price;
    frame->quantity = execution.quantity;
    return publish(Counter::kTrades);
  }

  // Updates `expected` .. `found` - 1 are missing: the instrument has no book until its next Depth with levels.
  [[nodiscard]] std::uint64_t gap(std::uint32_t instrument_id, std::uint64_t expected,
                                  std::uint64_t found) noexcept {
    auto* frame = writer_->reserve<FeedGap>(FrameType::kFeedGap);
    if (frame == nullptr) return 0;
    *frame = FeedGap{instrument_id, 0, expected, found};
    return publish();
  }

  // The source has no more. event_time: the last receive time, 0 when the feed has no clock of its own.
  [[nodiscard]] std::uint64_t end_of_input(std::int64_t event_time) noexcept {
    auto* frame = writer_->reserve<Lifecycle>(FrameType::kLifecycle);
    if (frame == nullptr) return 0;
    *frame = Lifecycle{static_cast<std::uint8_t>(LifecycleKind::kEndOfInput), {}, event_time};
    return publish();
  }

 private:
  // An abandoned reserve() leaves its bytes behind: every byte is written, the reserved ones with zero.
  template <class Payload>
  [[nodiscard]] Payload* begin(FrameType type, const EventSource& source) noexcept {
    auto* frame = writer_->reserve<Payload>(type);
    if (frame == nullptr) return nullptr;
    *frame = Payload{};
    frame->exchange_time = source.exchange_time;
    frame->receive_time = source.receive_time;
    frame->instrument_id = source.instrument_id;
    return frame;
  }

  std::uint64_t publish() noexcept {
    const std::int64_t now = monotonic_ns();
    const std::uint64_t seq = writer_->commit_at(now, {});
    if (block_ != nullptr) {
      const auto stamp = static_cast<std::uint64_t>(now);
      if (block_->get(Counter::kFirstEventNs) == 0) block_->set(Counter::kFirstEventNs, stamp);
      block_->set(Counter::kLastEventNs, stamp);
      block_->add(Counter::kFramesOut);
    }
    return seq;
  }
  std::uint64_t publish(Counter kind) noexcept {
    const std::uint64_t seq = publish();
    if (block_ != nullptr) block_->add(kind);
    return seq;
  }

  StreamWriter* writer_;
  CounterBlock* block_;
};

}  // namespace tapewire
