// What a reader does while nothing is there: spin, yield, park, hybrid or batch.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>

#include "ipc/counters.hpp"
#include "ipc/mux.hpp"
#include "ipc/yield_guard.hpp"
#include "journal/clock.hpp"

namespace tapewire {

enum class WaitKind : std::uint8_t { kSpin, kYield, kPark, kHybrid, kBatch };

struct WaitPolicy {
  WaitKind kind = WaitKind::kYield;
  std::int64_t window_ns = 5'000'000;  // hybrid: how long it yields before it parks
  std::int64_t batch_ns = 50'000'000;  // batch: how long it sleeps between looks
};

class Waiter {
 public:
  static constexpr std::int64_t kMaxParkNs = 100'000'000;  // heartbeats and stop requests are looked at

  Waiter(WaitPolicy policy, std::shared_ptr<const Control> control, CounterBlock* block, std::uint32_t slot)
      : policy_(policy), control_(std::move(control)), block_(block), slot_(slot) {}

  // A frame was handled: the next idle period begins afresh.
  void active() noexcept { idle_since_ = 0; }

  // Waits a little. `now` is the current time, `due` when the caller must be back (INT64_MAX: never).
  void idle(const LiveMux& mux, std::int64_t now, std::int64_t due) noexcept {
    if (idle_since_ == 0) idle_since_ = now;
    switch (policy_.kind) {
      case WaitKind::kSpin:
        cpu_relax();
        return;
      case WaitKind::kYield:
        adaptive_yield(mux, now, due);
        return;
      case WaitKind::kPark:
        park(mux, now, due);
        return;
      case WaitKind::kHybrid:
        if (now - idle_since_ < policy_.window_ns)
          adaptive_yield(mux, now, due);
        else
          park(mux, now, due);
        return;
      case WaitKind::kBatch:
        sleep_until_ns(std::min(due, now + std::min(policy_.batch_ns, kMaxParkNs)));
        return;
    }
  }

 private:
  void adaptive_yield(const LiveMux& mux, std::int64_t now, std::int64_t due) noexcept {
    if (!guard_.allowed(now))
      park(mux, now, due);
    else if (!guard_.yield(now) && block_ != nullptr)
      block_->add(Counter::kSlowYields);
  }

  void park(const LiveMux& mux, std::int64_t now, std::int64_t due) noexcept {
    const std::int64_t until = std::min(due, now + kMaxParkNs);
    const auto& cursors = mux.cursors();
    if (!control_ || cursors.empty() ||
        cursors.size() > kMaxWaited) {  // nobody would wake us: look every 50 us
      sleep_until_ns(std::min(until, now + 50'000));
      return;
    }
    for (const auto& c : cursors) control_->register_wait(c->stream_id(), slot_);
    bool ready = false;
    futex_waitv words[kMaxWaited] = {};
    std::uint32_t n = 0;
    for (const auto& c : cursors) {
      auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(c->next_word()));
      ready = ready || std::atomic_ref(*word).load(std::memory_order_seq_cst) != 0;
      words[n].uaddr = reinterpret_cast<std::uint64_t>(word);  // the low half: the length, zero so far
      words[n].val = 0;
      words[n].flags = FUTEX_32;
      ++n;
    }
    if (!ready && until > now) {
      if (block_ != nullptr) block_->add(Counter::kParks);
      const timespec ts{static_cast<time_t>(until / 1'000'000'000), static_cast<long>(until % 1'000'000'000)};
      const long rc = ::syscall(SYS_futex_waitv, words, n, 0U, &ts, CLOCK_MONOTONIC);
      if (rc < 0 && errno == ENOSYS) sleep_until_ns(std::min(until, now + 50'000));  // kernel before 5.16
    }
    for (const auto& c : cursors) control_->end_wait(c->stream_id(), slot_);
  }

  static constexpr std::uint32_t kMaxWaited = 64;

  WaitPolicy policy_;
  std::shared_ptr<const Control> control_;
  CounterBlock* block_;
  std::uint32_t slot_;
  std::int64_t idle_since_ = 0;
  YieldGuard guard_;
};

}  // namespace tapewire
