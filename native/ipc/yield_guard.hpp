// Tells a yielding loop when yielding is a mistake.
//
// A yield that takes over 500 us gave the CPU to somebody who does not give it back soon. Once in a while that
// is a daemon, which has gone when the CPU comes back. Again and again it is a CPU-bound neighbour: then the loop
// shall block instead (a wake-up takes the CPU back at once), for a time that doubles up to a second.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "journal/clock.hpp"

namespace tapewire {

class YieldGuard {
 public:
  static constexpr std::int64_t kSlowYieldNs = 500'000;
  static constexpr std::int64_t kFirstBackoffNs = 2'500'000;
  static constexpr std::int64_t kLongestBackoffNs = 1'000'000'000;
  // Two slow yields closer than this, or than twice the back-off in force, are one neighbour.
  static constexpr std::int64_t kSameNeighbourNs = 10'000'000;

  [[nodiscard]] bool allowed(std::int64_t now) const noexcept { return now >= blocked_until_; }

  // Yields; `now` is the time before it. False: it was slow.
  bool yield(std::int64_t now) noexcept {
    ::sched_yield();
    return note(now, monotonic_ns());
  }
  // What a yield from `before` to `after` means.
  bool note(std::int64_t before, std::int64_t after) noexcept {
    if (after - before <= kSlowYieldNs) return true;
    const bool again = after - last_slow_ < std::max(kSameNeighbourNs, 2 * backoff_);
    backoff_ = again ? std::clamp(2 * backoff_, kFirstBackoffNs, kLongestBackoffNs) : 0;
    last_slow_ = after;
    blocked_until_ = after + backoff_;
    return false;
  }
  [[nodiscard]] std::int64_t backoff_ns() const noexcept { return backoff_; }

 private:
  std::int64_t blocked_until_ = 0;
  std::int64_t last_slow_ = -kLongestBackoffNs;
  std::int64_t backoff_ = 0;
};

}  // namespace tapewire
