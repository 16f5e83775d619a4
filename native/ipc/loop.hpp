// The loop of every event-driven process: take a frame, dispatch it, account for it, wait.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/consumption.hpp"
#include "ipc/mux.hpp"
#include "ipc/stop_signal.hpp"
#include "ipc/waiter.hpp"

namespace tapewire {

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// What a process holds once it has joined: its slot in the shared files, its inputs, its policy.
struct LoopContext {
  std::shared_ptr<const Control> control;
  std::shared_ptr<Counters> counters;
  std::uint32_t slot = 0;
  WaitPolicy wait;
  // Which slot writes a stream, as (stream id, slot): for the backlog.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> producers;

  [[nodiscard]] CounterBlock& block() const noexcept { return counters->block(slot); }
  [[nodiscard]] StopRequest stop() const noexcept {
    const auto requested = control->stop_requested(slot);
    return requested == StopRequest::kNone && stop_signalled() ? StopRequest::kDrain : requested;
  }
  // Frames that were written for this process and not consumed; notes the largest.
  void sample_backlog(const LiveMux& mux) const noexcept {
    std::uint64_t backlog = 0;
    for (const auto& c : mux.cursors()) {
      for (const auto& [stream, producer] : producers) {
        if (stream != c->stream_id()) continue;
        const std::uint64_t written = counters->block(producer).get(Counter::kLastSeq);
        if (written >= c->next_seq()) backlog += written - c->next_seq() + 1;
      }
    }
    if (backlog > block().get(Counter::kMaxBacklog)) block().set(Counter::kMaxBacklog, backlog);
  }
};

enum class LoopEnd : std::uint8_t { kStopped, kReaderFailed, kWriterFailed, kHandlerFailed };

struct LoopResult {
  LoopEnd end = LoopEnd::kStopped;
  std::optional<JournalError> error;
  std::uint64_t frames = 0;
};

// Handler:  bool on_frame(const FrameHeader&)   false ends the loop (kHandlerFailed or kWriterFailed)
//           bool on_idle(int64 now)             timers and the like; false as above
//           int64 due() const                   when it must be called again, kNever
//           const JournalError* error() const   why it returned false, null: not a journal error
template <class Handler>
LoopResult run_loop(const LoopContext& context, LiveMux& mux, ConsumptionRecord& record, Handler& handler) {
  CounterBlock& block = context.block();
  Waiter waiter(context.wait, context.control, &block, context.slot);
  LoopResult result;
  auto failed = [&](LoopEnd end, const JournalError* error) {
    result.end = end;
    if (error != nullptr) result.error = *error;
    (void)record.flush();  // the first error is the one to tell
    return result;
  };
  block.set(Counter::kState, static_cast<std::uint64_t>(ProcessState::kRunning));
  std::uint32_t since_heartbeat = 0;
  for (;;) {
    Cursor* cursor = mux.poll();
    if (cursor != nullptr) {
      const FrameHeader& f = *cursor->peek();
      const std::uint64_t seq = f.seq;
      const std::uint32_t stream = f.stream_id;
      if (!handler.on_frame(f))
        return failed(handler.error() ? LoopEnd::kWriterFailed : LoopEnd::kHandlerFailed, handler.error());
      cursor->advance();
      record.note(stream, seq);
      block.add(Counter::kFramesIn);
      block.set_consumed(stream, seq);
      ++result.frames;
      waiter.active();
      if (++since_heartbeat < 1024) [[likely]]
        continue;
    }
    const bool busy = cursor != nullptr;
    since_heartbeat = 0;
    if (busy) context.sample_backlog(mux);
    // Also while others go on: a process that runs on without one of its inputs decides on half the truth.
    if (const Cursor* bad = mux.failed(); bad != nullptr)
      return failed(LoopEnd::kReaderFailed, &bad->error());
    if (record.pending() && !record.flush()) return failed(LoopEnd::kWriterFailed, &record.writer()->error());
    const std::int64_t now = monotonic_ns();
    block.set(Counter::kHeartbeatNs, static_cast<std::uint64_t>(now));
    if (!handler.on_idle(now))
      return failed(handler.error() ? LoopEnd::kWriterFailed : LoopEnd::kHandlerFailed, handler.error());
    if (const auto stop = context.stop();
        stop != StopRequest::kNone && (!busy || stop == StopRequest::kNow)) {
      // "Drain": once more, for what was published before the stop was asked for.
      if (stop == StopRequest::kNow || mux.poll() == nullptr) {
        if (!record.flush()) return failed(LoopEnd::kWriterFailed, &record.writer()->error());
        return result;
      }
      continue;
    }
    if (!busy) waiter.idle(mux, now, handler.due());
  }
}

}  // namespace tapewire
