// Lockstep: a feed that waits until everyone downstream is at rest before it publishes the next event,
// so that two runs over the same input give the same orders, fills and positions.
#pragma once

#include <sched.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ipc/loop.hpp"

namespace tapewire {

class Lockstep {
 public:
  // One per process that must be at rest: its slot, and for each stream it reads the slot of the
  // stream's producer.
  struct Consumer {
    std::uint32_t slot = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> streams;  // (stream id, producer slot)
  };

  Lockstep(LoopContext context, std::vector<Consumer> consumers)
      : context_(std::move(context)), consumers_(std::move(consumers)) {}

  // True: all have consumed all there is, ours included. False: a stop was asked for.
  [[nodiscard]] bool wait() const noexcept {
    for (std::uint32_t n = 0;; ++n) {
      // Every quantity only grows: two equal, balanced looks in a row mean that nothing moved
      // between them, so there was an instant with nothing in flight.
      const std::uint64_t first = balanced();
      if (first != 0 && balanced() == first) return true;
      if ((n & 63U) == 63U && context_.stop() != StopRequest::kNone) return false;
      ::sched_yield();
      if ((n & 1023U) == 1023U)
        context_.block().set(Counter::kHeartbeatNs, static_cast<std::uint64_t>(monotonic_ns()));
    }
  }

 private:
  // A run that goes on without one of its strategies does not wait for it: it will never catch up.
  [[nodiscard]] bool has_left(std::uint32_t slot) const noexcept {
    const auto state = static_cast<ProcessState>(context_.counters->block(slot).get(Counter::kState));
    return state == ProcessState::kDone || state == ProcessState::kFailed || context_.control->failed(slot);
  }
  // 0: somebody is behind. Else 1 + the sum of all seqs looked at.
  [[nodiscard]] std::uint64_t balanced() const noexcept {
    std::uint64_t sum = 1;
    for (const auto& c : consumers_) {
      if (has_left(c.slot)) continue;
      const CounterBlock& block = context_.counters->block(c.slot);
      for (const auto& [stream, producer] : c.streams) {
        const std::uint64_t consumed = block.get_consumed(stream);
        const std::uint64_t written = context_.counters->block(producer).get(Counter::kLastSeq);
        if (consumed != written) return 0;
        sum += written;
      }
    }
    return sum;
  }

  LoopContext context_;
  std::vector<Consumer> consumers_;
};

}  // namespace tapewire
