// The counters file of a run: one block per process, written by that process alone, readable by any
// tool without disturbing anyone.
//
//   0     header, 64 bytes: magic, version, processes, block bytes
//   64    blocks: name (32 bytes) | 48 counters | consumed seq per stream (64) | latency buckets (64)
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ipc/control.hpp"
#include "ipc/shared_file.hpp"

namespace tapewire {

enum class Counter : std::uint32_t {
  kPid,
  kState,
  kHeartbeatNs,
  kStartedNs,
  kFramesIn,
  kFramesOut,
  kDepths,
  kTrades,
  kOrders,
  kReports,
  kFills,
  kRejects,
  kRefused,
  kOpenOrders,
  kLastSeq,
  kLatencyLastNs,
  kLatencyMaxNs,
  kLatencyCount,
  kParks,
  kWakes,
  kPageRolls,
  kRollWaits,
  kSlowYields,
  kTimers,
  kErrors,
  kDropped,
  kLate,
  kFirstEventNs,
  kLastEventNs,
  kMaxBacklog,
  kCount,
};
inline constexpr std::array<const char*, static_cast<std::size_t>(Counter::kCount)> kCounterNames = {
    "pid",     "state",       "heartbeat_ns", "started_ns",      "frames_in",      "frames_out",
    "depths",  "trades",      "orders",       "reports",         "fills",          "rejects",
    "refused", "open_orders", "last_seq",     "latency_last_ns", "latency_max_ns", "latency_count",
    "parks",   "wakes",       "page_rolls",   "roll_waits",      "slow_yields",    "timers",
    "errors",  "dropped",     "late",         "first_event_ns",  "last_event_ns",  "max_backlog"};

enum class ProcessState : std::uint64_t {
  kEmpty = 0,
  kStarting = 1,
  kReady = 2,
  kRunning = 3,
  kStopping = 4,
  kDone = 5,
  kFailed = 6,
};

struct alignas(64) CounterBlock {
  char name[32];
  std::uint64_t reserved[4];
  std::uint64_t values[48];
  std::uint64_t consumed[kMaxStreams];
  std::uint64_t latency_buckets[64];

  void set(Counter c, std::uint64_t v) noexcept { at(c).store(v, std::memory_order_relaxed); }
  // One writer: a plain load and store, no locked instruction.
  void add(Counter c, std::uint64_t n = 1) noexcept {
    auto ref = at(c);
    ref.store(ref.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t get(Counter c) const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(values[static_cast<std::size_t>(c)]))
        .load(std::memory_order_relaxed);
  }
  // Published with release after everything that this frame caused was written.
  void set_consumed(std::uint32_t stream, std::uint64_t seq) noexcept {
    std::atomic_ref(consumed[stream % kMaxStreams]).store(seq, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t get_consumed(std::uint32_t stream) const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(consumed[stream % kMaxStreams]))
        .load(std::memory_order_acquire);
  }
  void record_latency(std::int64_t ns) noexcept {
    const auto v = static_cast<std::uint64_t>(ns < 0 ? 0 : ns);
    set(Counter::kLatencyLastNs, v);
    if (v > get(Counter::kLatencyMaxNs)) set(Counter::kLatencyMaxNs, v);
    add(Counter::kLatencyCount);
    auto& bucket = latency_buckets[bucket_of(v)];
    bucket = bucket + 1;
  }
  // Two buckets per power of two: index 2*log2(v) + the next lower bit.
  [[nodiscard]] static std::size_t bucket_of(std::uint64_t v) noexcept {
    if (v < 2) return 0;
    const auto log2 = static_cast<std::size_t>(std::bit_width(v)) - 1;
    return std::min<std::size_t>(63, 2 * log2 + ((v >> (log2 - 1)) & 1U));
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> at(Counter c) noexcept {
    return std::atomic_ref(values[static_cast<std::size_t>(c)]);
  }
};
static_assert(sizeof(CounterBlock) == 1472 && static_cast<std::size_t>(Counter::kCount) <= 48);

class Counters {
 public:
  static Counters create(const std::string& path, const std::vector<std::string>& names) {
    if (names.size() > kMaxProcesses)
      throw JournalError(ErrorKind::kSystem, path + ": at most 32 processes in one run", path);
    return Counters(SharedFile::create(path, 64 + names.size() * sizeof(CounterBlock), [&](std::byte* base) {
      const Header h{kCountersMagic, kFormatVersion, static_cast<std::uint32_t>(names.size()),
                     sizeof(CounterBlock)};
      std::memcpy(base, &h, sizeof h);
      for (std::size_t i = 0; i < names.size(); ++i) {
        auto* block = reinterpret_cast<CounterBlock*>(base + 64) + i;
        std::memcpy(block->name, names[i].data(), std::min(names[i].size(), sizeof block->name - 1));
      }
    }));
  }
  static Counters open(const std::string& path, bool writable) {
    Counters c(SharedFile::open(path, writable));
    const auto& h = c.header();
    if (c.file_.bytes() < 64 || h.magic != kCountersMagic || h.version != kFormatVersion ||
        h.block_bytes != sizeof(CounterBlock) || c.file_.bytes() != 64 + h.processes * sizeof(CounterBlock))
      throw JournalError(ErrorKind::kVersion, path + ": not a counters file of this version", path);
    return c;
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return header().processes; }
  [[nodiscard]] bool writable() const noexcept { return file_.writable(); }
  [[nodiscard]] CounterBlock& block(std::uint32_t i) const noexcept {
    return reinterpret_cast<CounterBlock*>(file_.base() + 64)[i < size() ? i : 0];
  }

 private:
  struct Header {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t processes;
    std::uint64_t block_bytes;
  };
  static constexpr std::uint64_t kCountersMagic = 0x31544E43'57504154ULL;  // "TAPWCNT1"

  explicit Counters(SharedFile file) : file_(std::move(file)) {}
  [[nodiscard]] const Header& header() const noexcept {
    return *reinterpret_cast<const Header*>(file_.base());
  }

  SharedFile file_;
};

}  // namespace tapewire
