// The synthetic feed: a seeded random walk of a 10-level book, constant or Poisson arrivals.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ipc/lockstep.hpp"
#include "market/instrument.hpp"

namespace tapewire {

// SplitMix64 (Steele, Lea, Flood 2014).
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}
  [[nodiscard]] std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // Uniform in (0, 1].
  [[nodiscard]] double unit() noexcept { return (static_cast<double>(next() >> 11) + 1.0) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

struct FeedConfig {
  std::uint64_t events = 0;  // 0: until stopped
  std::int64_t interval_ns = 300'000;
  bool poisson = false;
  bool paced = true;  // false: as fast as it goes
  std::uint64_t seed = 42;
  std::int64_t linger_ns = 10'000;
  std::int64_t spin_window_ns = 100'000;
  std::int64_t start_price = 100'000'000'000;
  std::int64_t spread_ticks = 1;
  std::int64_t realtime_offset_ns = 0;  // realtime − monotonic of the run
};

class SyntheticFeed {
 public:
  SyntheticFeed(const std::vector<Instrument>& instruments, const FeedConfig& config)
      : config_(config), random_(config.seed) {
    for (const auto& i : instruments) {
      const std::int64_t ticks = start_ticks(config.start_price, i.tick);
      books_.push_back({i, ticks, ticks, 0});
    }
  }

  // Whether every price and quantity of the walk fits: it stays within a third of where it begins.
  [[nodiscard]] static bool fits(const Instrument& i, std::int64_t start_price,
                                 std::int64_t spread_ticks) noexcept {
    const int128 ticks = start_ticks(start_price, i.tick);
    return narrow((ticks + ticks / 3 + spread_ticks + kDepthLevels) * i.tick) && narrow(int128{160} * i.lot);
  }

  // Publishes until the events are out or a stop is asked for.
  LoopResult run(const LoopContext& context, StreamWriter& writer, const Lockstep* lockstep) noexcept {
    CounterBlock& block = context.block();
    block.set(Counter::kState, static_cast<std::uint64_t>(ProcessState::kRunning));
    LoopResult result;
    std::int64_t due = monotonic_ns() + kLeadNs;
    for (std::uint64_t n = 0; config_.events == 0 || n < config_.events; ++n) {
      auto* d = writer.reserve<Depth>(FrameType::kDepth);
      if (d == nullptr) {
        result.end = LoopEnd::kWriterFailed;
        result.error = writer.error();
        return result;
      }
      fill(books_[n % books_.size()], n, due, *d);
      if (config_.paced) {
        if (!wait_until(context, due, block)) return result;
      } else if ((n & 255U) == 0) {
        block.set(Counter::kHeartbeatNs, static_cast<std::uint64_t>(monotonic_ns()));
        if (context.stop() != StopRequest::kNone) return result;
      }
      const std::int64_t now = monotonic_ns();
      writer.commit_at(now, {});
      block.add(Counter::kDepths);
      block.add(Counter::kFramesOut);
      if (n == 0) block.set(Counter::kFirstEventNs, static_cast<std::uint64_t>(now));
      block.set(Counter::kLastEventNs, static_cast<std::uint64_t>(now));
      ++result.frames;
      if (lockstep != nullptr && !lockstep->wait()) return result;
      if (!config_.paced) continue;
      linger(now + config_.linger_ns);
      due += gap();
      // Behind by more than an event: the schedule moves, it does not burst.
      if (const std::int64_t late = monotonic_ns(); due < late) {
        block.add(Counter::kLate);
        due = late;
      }
    }
    return result;
  }

 private:
  struct Walk {
    Instrument instrument;
    std::int64_t bid_ticks;
    std::int64_t start_ticks;
    std::uint64_t updates;
  };
  static constexpr std::int64_t kLeadNs = 1'000'000;

  // High enough that no level falls to zero.
  [[nodiscard]] static std::int64_t start_ticks(std::int64_t price, std::int64_t tick) noexcept {
    return std::max<std::int64_t>(price / tick, kDepthLevels * 20);
  }

  void fill(Walk& w, std::uint64_t n, std::int64_t due, Depth& d) noexcept {
    const std::uint64_t r = random_.next();
    const auto step = static_cast<std::int64_t>(r & 3U);
    w.bid_ticks += step == 0 ? -1 : step == 1 ? 1 : 0;
    // Kept within a third of where it began, so that it runs for ever.
    w.bid_ticks = std::max(w.bid_ticks, w.start_ticks - w.start_ticks / 3);
    w.bid_ticks = std::min(w.bid_ticks, w.start_ticks + w.start_ticks / 3);
    d.exchange_time = due + config_.realtime_offset_ns;
    d.receive_time = d.exchange_time;
    d.update_id = n + 1;
    d.instrument_id = w.instrument.id;
    d.bid_count = kDepthLevels;
    d.ask_count = kDepthLevels;
    for (std::uint32_t i = 0; i < kDepthLevels; ++i) {
      const auto q = static_cast<std::int64_t>(1 + ((r >> (8 + 4 * i)) & 15U));
      const auto level = static_cast<std::int64_t>(i);
      d.bids[i] = {(w.bid_ticks - level) * w.instrument.tick, q * 10 * w.instrument.lot};
      d.asks[i] = {(w.bid_ticks + config_.spread_ticks + level) * w.instrument.tick,
                   (17 - q) * 10 * w.instrument.lot};
    }
    ++w.updates;
  }
  // Off the event's path: the draw is made while waiting.
  [[nodiscard]] std::int64_t gap() noexcept {
    if (!config_.poisson) return config_.interval_ns;
    return static_cast<std::int64_t>(-std::log(random_.unit()) * static_cast<double>(config_.interval_ns));
  }
  // Sleeps, then yields through the last window; beside a CPU-bound neighbour it sleeps to the end, since a
  // sleeper that is due takes the CPU back and a yielding one does not. False: a stop was asked for.
  [[nodiscard]] bool wait_until(const LoopContext& context, std::int64_t due, CounterBlock& block) noexcept {
    for (;;) {
      if (context.stop() != StopRequest::kNone) return false;
      const std::int64_t now = monotonic_ns();
      block.set(Counter::kHeartbeatNs, static_cast<std::uint64_t>(now));
      const std::int64_t wake = guard_.allowed(now) ? due - config_.spin_window_ns : due;
      if (now >= wake) break;
      sleep_until_ns(std::min(wake, now + Waiter::kMaxParkNs));
    }
    for (std::int64_t now = monotonic_ns(); now < due; now = monotonic_ns()) {
      if (!guard_.allowed(now))
        sleep_until_ns(due);
      else if (!guard_.yield(now))
        block.add(Counter::kSlowYields);
    }
    return true;
  }
  // Yields for a moment after publishing, before it sleeps: a gateway on the same CPU gets it at
  // once and again and again, without paying for our way into sleep.
  void linger(std::int64_t until) noexcept {
    for (std::int64_t now = monotonic_ns(); now < until && guard_.allowed(now); now = monotonic_ns())
      if (!guard_.yield(now)) return;
  }

  YieldGuard guard_;
  FeedConfig config_;
  SplitMix64 random_;
  std::vector<Walk> books_;
};

}  // namespace tapewire
