// FROZEN. The floor that every published latency is divided by: the least code that relays
// market data -> strategy -> trade gateway between three processes over shared memory. Changing
// it makes older figures incomparable; a better floor gets a new file and a new name.
//
// It moves the same bytes per hop as the journal (the frame sizes below), on the same pins, and
// stamps CLOCK_MONOTONIC at the same event boundaries, each right before its release store. It has
// no sequence check, CRC, cause, root, page, recorder or risk check, and its publisher does not
// linger (unless asked to, for a second figure). Waiting is `sched_yield` in a loop. Each process faults
// in what it touches beforehand.
//
// One file, made by relay_floor_create:
//
//   0            4096                     (OS page aligned)        (OS page aligned)
//   +------------+------------------------+------------------------+------------------------+
//   | RelayHead  | depths, 408 B each     | orders, 96 B each      | reports, 128 B each    |
//   +------------+------------------------+------------------------+------------------------+
//
// Every slot starts with a commit word (0 = nothing yet) and holds its stamp at byte 16 and, so that
// the caller can check that nothing was lost or mixed up, its number (from 1) at byte 8.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace tapewire::bench {

inline constexpr std::uint64_t kFloorDepthBytes = 408;   // 56 header + 352 Depth
inline constexpr std::uint64_t kFloorOrderBytes = 96;    // 56 header + 40 OrderInput
inline constexpr std::uint64_t kFloorReportBytes = 128;  // 56 header + 72 OrderReport
inline constexpr std::uint64_t kFloorHeadBytes = 4096;
inline constexpr std::uint64_t kFloorPriceOffset = 88;   // bids[0].price of a Depth frame
inline constexpr std::uint64_t kFloorAskOffset = 248;    // asks[0].price
inline constexpr std::int64_t kFloorWindowNs = 100'000;  // yields, not sleeps, this long before due
inline constexpr std::uint32_t kFloorProcesses = 3;

struct RelayPlan {
  std::uint64_t events;      // Depth frames
  std::uint64_t every;       // one order on each `every`-th of them
  std::int64_t interval_ns;  // mean time between two of them
  bool poisson;              // exponential gaps instead of constant ones
  std::uint64_t seed;
  std::int64_t linger_ns;   // 0 is the floor; else md yields this long after publishing, as the runtime does
  std::int64_t timeout_ns;  // for one wait: a dead peer must not hang the bench
};

struct RelayLayout {
  std::uint64_t orders;  // how many
  std::uint64_t depth_offset;
  std::uint64_t order_offset;
  std::uint64_t report_offset;
  std::uint64_t bytes;
};

struct RelayHead {
  std::uint64_t events;
  std::uint64_t every;
  std::uint64_t ready;  // processes that are pre-faulted and about to poll
};
static_assert(sizeof(RelayHead) <= kFloorHeadBytes);

[[nodiscard]] inline RelayLayout relay_layout(std::uint64_t events, std::uint64_t every) {
  if (events == 0 || every == 0 || events > 100'000'000) {
    throw std::invalid_argument("relay floor: events must be 1 .. 100,000,000 and every at least 1");
  }
  const auto up = [](std::uint64_t bytes) { return (bytes + 4095) & ~std::uint64_t{4095}; };
  RelayLayout layout{};
  layout.orders = events / every;
  layout.depth_offset = kFloorHeadBytes;
  layout.order_offset = up(layout.depth_offset + events * kFloorDepthBytes);
  layout.report_offset = up(layout.order_offset + layout.orders * kFloorOrderBytes);
  layout.bytes = up(layout.report_offset + layout.orders * kFloorReportBytes);
  return layout;
}

[[nodiscard]] inline std::int64_t relay_clock() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

[[noreturn]] inline void relay_fail(const std::string& what, const std::string& path) {
  throw std::runtime_error("relay floor: " + what + " " + path + ": " + std::strerror(errno));
}

// The mapping of one process.
class RelayMap {
 public:
  explicit RelayMap(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) relay_fail("cannot open", path);
    struct stat status{};
    if (::fstat(fd, &status) != 0 || status.st_size < static_cast<off_t>(kFloorHeadBytes)) {
      ::close(fd);
      throw std::runtime_error("relay floor: " + path + " is not a relay file");
    }
    bytes_ = static_cast<std::uint64_t>(status.st_size);
    void* base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (base == MAP_FAILED) relay_fail("cannot map", path);
    base_ = static_cast<std::byte*>(base);
  }
  RelayMap(const RelayMap&) = delete;
  RelayMap& operator=(const RelayMap&) = delete;
  ~RelayMap() { ::munmap(base_, bytes_); }

  [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return base_ + offset; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] RelayHead* head() const noexcept { return reinterpret_cast<RelayHead*>(base_); }

  // Faults in [from, to), both multiples of an OS page, so that no hop pays for a first touch.
  void populate(std::uint64_t from, std::uint64_t to, bool write) const {
    if (from >= to) return;
#if defined(MADV_POPULATE_WRITE) && defined(MADV_POPULATE_READ)
    const int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    if (::madvise(base_ + from, to - from, advice) == 0) return;
#endif
    for (std::uint64_t at = from; at < to; at += 4096) {  // kernels before 5.14
      auto& word = *reinterpret_cast<std::uint64_t*>(base_ + at);
      if (write) {
        std::atomic_ref<std::uint64_t>(word).fetch_add(0, std::memory_order_relaxed);
      } else {
        (void)std::atomic_ref<std::uint64_t>(word).load(std::memory_order_relaxed);
      }
    }
  }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

[[nodiscard]] inline std::atomic_ref<std::uint64_t> relay_word(std::byte* slot) noexcept {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(slot));
}

// Copies the frame but for its first 24 bytes, writes number and stamp, then the one release store.
template <std::uint64_t kBytes>
inline void relay_publish(std::byte* slot, const std::byte* frame, std::uint64_t number) noexcept {
  std::memcpy(slot + 24, frame + 24, kBytes - 24);
  std::memcpy(slot + 8, &number, 8);
  const std::int64_t stamp = relay_clock();
  std::memcpy(slot + 16, &stamp, 8);
  relay_word(slot).store(kBytes, std::memory_order_release);
}

// Yields until `word` is at least `wanted`.
inline void relay_await(std::atomic_ref<std::uint64_t> word, std::uint64_t wanted, std::int64_t timeout_ns) {
  std::int64_t deadline = 0;
  for (std::uint32_t tries = 1; word.load(std::memory_order_acquire) < wanted; ++tries) {
    ::sched_yield();
    if ((tries & 0xffff) == 0) {  // rarely: the clock is no part of the floor's wait
      const std::int64_t now = relay_clock();
      if (deadline == 0) deadline = now + timeout_ns;
      if (now > deadline) throw std::runtime_error("relay floor: a peer stopped, nothing came in time");
    }
  }
}

inline void relay_create(const std::string& path, std::uint64_t events, std::uint64_t every) {
  const RelayLayout layout = relay_layout(events, every);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) relay_fail("cannot create", path);
  const int failed = ::posix_fallocate(fd, 0, static_cast<off_t>(layout.bytes));
  ::close(fd);
  if (failed != 0) {
    ::unlink(path.c_str());
    errno = failed;
    relay_fail("no room for", path);
  }
  RelayMap map(path);
  map.head()->events = events;
  map.head()->every = every;
}

[[nodiscard]] inline RelayLayout relay_join(const RelayMap& map, const RelayPlan& plan) {
  const RelayLayout layout = relay_layout(plan.events, plan.every);
  if (map.head()->events != plan.events || map.head()->every != plan.every || map.bytes() != layout.bytes) {
    throw std::runtime_error("relay floor: the relay file was made for another plan");
  }
  return layout;
}

inline void relay_start(const RelayMap& map, const RelayPlan& plan) {
  std::atomic_ref<std::uint64_t> ready(map.head()->ready);
  ready.fetch_add(1, std::memory_order_acq_rel);
  relay_await(ready, kFloorProcesses, plan.timeout_ns);
}

// Due times relative to the start.
[[nodiscard]] inline std::vector<std::int64_t> relay_schedule(const RelayPlan& plan) {
  std::vector<std::int64_t> due(plan.events);
  std::uint64_t state = plan.seed;
  double at = 0;
  for (std::uint64_t i = 0; i < plan.events; ++i) {
    if (!plan.poisson) {
      due[i] = static_cast<std::int64_t>(i + 1) * plan.interval_ns;
      continue;
    }
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);  // SplitMix64
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    const double uniform = (static_cast<double>(z >> 11) + 0.5) * 0x1.0p-53;
    at -= std::log(uniform) * static_cast<double>(plan.interval_ns);
    due[i] = static_cast<std::int64_t>(at);
  }
  return due;
}

inline void relay_market_data(const std::string& path, const RelayPlan& plan) {
  const RelayMap map(path);
  const RelayLayout layout = relay_join(map, plan);
  map.populate(0, layout.order_offset, true);
  const std::vector<std::int64_t> schedule = relay_schedule(plan);
  alignas(64) std::byte frame[kFloorDepthBytes]{};
  relay_start(map, plan);
  const std::int64_t start = relay_clock() + 10'000'000;
  std::byte* slot = map.at(layout.depth_offset);
  for (std::uint64_t i = 0; i < plan.events; ++i, slot += kFloorDepthBytes) {
    const std::int64_t due = start + schedule[i];
    const std::int64_t wake = due - kFloorWindowNs;
    if (wake > relay_clock()) {
      const timespec until{static_cast<time_t>(wake / 1'000'000'000),
                           static_cast<long>(wake % 1'000'000'000)};
      while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
      }
    }
    const std::int64_t bid = 100'000'000'000 + static_cast<std::int64_t>(i % 7) * 10'000'000;
    const std::int64_t ask = bid + 10'000'000;
    std::memcpy(frame + kFloorPriceOffset, &bid, 8);
    std::memcpy(frame + kFloorAskOffset, &ask, 8);
    while (relay_clock() < due) ::sched_yield();
    relay_publish<kFloorDepthBytes>(slot, frame, i + 1);
    if (plan.linger_ns > 0) {
      const std::int64_t until = relay_clock() + plan.linger_ns;
      while (relay_clock() < until) ::sched_yield();
    }
  }
}

inline void relay_strategy(const std::string& path, const RelayPlan& plan) {
  const RelayMap map(path);
  const RelayLayout layout = relay_join(map, plan);
  map.populate(0, layout.order_offset, false);
  map.populate(layout.order_offset, layout.report_offset, true);
  alignas(64) std::byte frame[kFloorOrderBytes]{};
  relay_start(map, plan);
  std::byte* depth = map.at(layout.depth_offset);
  std::byte* order = map.at(layout.order_offset);
  std::uint64_t orders = 0;
  std::uint64_t since = 0;
  for (std::uint64_t i = 0; i < plan.events; ++i, depth += kFloorDepthBytes) {
    relay_await(relay_word(depth), 1, plan.timeout_ns);
    if (++since < plan.every) continue;
    since = 0;
    const std::uint64_t side = orders & 1;  // buys at the displayed bid, sells at the displayed ask
    std::memcpy(frame + 72, depth + (side == 0 ? kFloorPriceOffset : kFloorAskOffset), 8);
    relay_publish<kFloorOrderBytes>(order, frame, ++orders);
    order += kFloorOrderBytes;
  }
}

inline void relay_trade_gateway(const std::string& path, const RelayPlan& plan) {
  const RelayMap map(path);
  const RelayLayout layout = relay_join(map, plan);
  map.populate(layout.order_offset, layout.report_offset, false);
  map.populate(layout.report_offset, layout.bytes, true);
  alignas(64) std::byte frame[kFloorReportBytes]{};
  relay_start(map, plan);
  std::byte* order = map.at(layout.order_offset);
  std::byte* report = map.at(layout.report_offset);
  for (std::uint64_t i = 0; i < layout.orders; ++i) {
    relay_await(relay_word(order), 1, plan.timeout_ns);
    std::memcpy(frame + 72, order + 72, 8);
    relay_publish<kFloorReportBytes>(report, frame, i + 1);
    order += kFloorOrderBytes;
    report += kFloorReportBytes;
  }
}

}  // namespace tapewire::bench
