// Native loops of `tapewire bench journal`: what an append, an append that rolls and a merged read
// cost, next to the least code that moves the same bytes.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "journal/clock.hpp"
#include "journal/crc32c.hpp"
#include "journal/directory.hpp"
#include "journal/format.hpp"
#include "journal/merge.hpp"
#include "journal/page.hpp"
#include "journal/page_helper.hpp"
#include "journal/writer.hpp"

namespace tapewire::bench {

// The cause and root of every frame written here: all fields in use, as on the event path.
[[nodiscard]] inline Origin bench_origin() noexcept {
  Origin origin;
  origin.cause_seq = 7;
  origin.root_seq = 5;
  origin.cause_stream = 2;
  origin.root_stream = 1;
  origin.root_type = static_cast<std::uint16_t>(FrameType::kDepth);
  return origin;
}

[[nodiscard]] inline StreamIdentity bench_identity(std::uint32_t number, std::uint64_t page_bytes) {
  StreamIdentity identity;
  identity.name = "s" + std::to_string(number);
  identity.stream_id = number;
  identity.run_id = 1;
  identity.page_bytes = page_bytes;
  return identity;
}

// Removes pages the writer has left, off the measured thread: a bench would fill the memory otherwise.
class PageSweeper {
 public:
  PageSweeper(std::string dir, std::vector<int> cpus)
      : dir_(std::move(dir)), thread_([this, cpus = std::move(cpus)] { run(cpus); }) {}
  PageSweeper(const PageSweeper&) = delete;
  PageSweeper& operator=(const PageSweeper&) = delete;
  ~PageSweeper() {
    stop_.store(true, std::memory_order_release);
    thread_.join();
  }
  void passed(std::uint64_t page) noexcept { passed_.store(page, std::memory_order_relaxed); }

 private:
  void run(const std::vector<int>& cpus) {
    if (!cpus.empty()) {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
      ::sched_setaffinity(0, sizeof set, &set);
    }
    std::uint64_t next = 1;
    while (!stop_.load(std::memory_order_acquire)) {
      for (; next + 2 < passed_.load(std::memory_order_relaxed); ++next) {
        ::unlink((dir_ + "/" + page_name(next)).c_str());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::string dir_;
  std::atomic<std::uint64_t> passed_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses all of the above
};

// Where the append floor writes: as much memory of the same kind as the writer walks through.
class FloorMemory {
 public:
  explicit FloorMemory(std::size_t bytes) : bytes_(bytes) {
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("bench journal: no memory for the floor");
    base_ = static_cast<std::byte*>(base);
    for (std::size_t i = 0; i < bytes; i += 4096) base_[i] = std::byte{1};
  }
  FloorMemory(const FloorMemory&) = delete;
  FloorMemory& operator=(const FloorMemory&) = delete;
  ~FloorMemory() { ::munmap(base_, bytes_); }
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept { return base_ + offset; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_;
};

struct AppendCost {  // nanoseconds per operation, one value per chunk, in the order they were taken
  std::vector<double> append_ns;
  std::vector<double> floor_ns;               // the frame's bytes: copied, summed, stamped, published
  std::vector<double> floor_payload_only_ns;  // the payload's bytes only
};

// FROZEN. The append floor: clock, copy, CRC32C and one release store of `bytes` bytes.
inline void floor_append(std::byte* slot, const std::byte* frame, std::size_t bytes) noexcept {
  const std::int64_t stamp = monotonic_ns();
  std::memcpy(slot + 8, frame + 8, bytes - 8);
  std::memcpy(slot + 16, &stamp, 8);
  const std::uint64_t word = (static_cast<std::uint64_t>(crc32c(slot + 8, bytes - 8)) << 32) | bytes;
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(slot)).store(word, std::memory_order_release);
}

template <class Operation>
[[nodiscard]] double chunk_ns(std::uint32_t operations, Operation&& operation) {
  const std::int64_t start = monotonic_ns();
  for (std::uint32_t i = 0; i < operations; ++i) operation();
  return static_cast<double>(monotonic_ns() - start) / operations;
}

// The floor's loop over its memory, wrapping around.
class FloorCursor {
 public:
  FloorCursor(const FloorMemory& memory, std::size_t bytes) : memory_(memory), frame_(bytes), bytes_(bytes) {}
  void operator()() noexcept {
    if (at_ + bytes_ > memory_.bytes()) at_ = 0;
    floor_append(memory_.at(at_), frame_.data(), bytes_);
    at_ += bytes_;
  }

 private:
  const FloorMemory& memory_;
  std::vector<std::byte> frame_;
  std::size_t bytes_;
  std::size_t at_ = 0;
};

[[nodiscard]] inline AppendCost measure_append(const std::string& journal_dir, std::uint32_t chunks,
                                               std::uint32_t chunk_operations, std::uint32_t payload_bytes,
                                               std::uint64_t page_bytes,
                                               const std::vector<int>& helper_cpus) {
  WriterOptions options;
  options.helper = std::make_shared<PageHelper>(helper_cpus);
  StreamWriter writer(journal_dir, bench_identity(1, page_bytes), options);
  PageSweeper sweeper(writer.directory(), helper_cpus);
  const FloorMemory memory(4 * page_bytes);
  FloorCursor floor(memory, padded(kHeaderBytes + payload_bytes));
  FloorCursor payload_only(memory, padded(payload_bytes));
  const std::vector<std::byte> payload(payload_bytes, std::byte{0x5a});
  const Origin origin = bench_origin();
  const auto append = [&] {
    if (writer.append(FrameType::kUser, payload.data(), payload_bytes, origin) == 0) throw writer.error();
  };
  AppendCost cost;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    cost.append_ns.push_back(chunk_ns(chunk_operations, append));
    cost.floor_ns.push_back(chunk_ns(chunk_operations, floor));
    cost.floor_payload_only_ns.push_back(chunk_ns(chunk_operations, payload_only));
    sweeper.passed(writer.page_number());
  }
  return cost;
}

struct RollCost {
  std::vector<std::int64_t> roll_ns;  // the appends that rolled
  std::int64_t append_p50_ns = 0;     // of all appends
  std::int64_t append_p99_ns = 0;
  std::int64_t append_p999_ns = 0;
  std::int64_t append_max_ns = 0;
  std::uint64_t frames = 0;
  std::uint64_t roll_waits = 0;  // rolls that found the next page not ready
  std::uint64_t late = 0;        // paced: appends that began a whole interval or more after they were due
  std::int64_t elapsed_ns = 0;
};

// Appends until `rolls` pages were left, each append timed; `interval_ns` 0 is as fast as it goes.
[[nodiscard]] inline RollCost measure_rolls(const std::string& journal_dir, std::uint32_t rolls,
                                            std::int64_t interval_ns, std::uint32_t payload_bytes,
                                            std::uint64_t page_bytes, const std::vector<int>& helper_cpus) {
  WriterOptions options;
  options.helper = std::make_shared<PageHelper>(helper_cpus);
  StreamWriter writer(journal_dir, bench_identity(1, page_bytes), options);
  PageSweeper sweeper(writer.directory(), helper_cpus);
  const std::vector<std::byte> payload(payload_bytes, std::byte{0x5a});
  const Origin origin = bench_origin();
  RollCost cost;
  std::vector<std::uint32_t> all;  // touched beforehand: no page fault of ours inside a timed append
  const std::uint64_t frames_per_page = page_bytes / padded(kHeaderBytes + payload_bytes);
  all.resize((rolls + 1) * frames_per_page, 1);
  all.clear();
  std::uint64_t seen = 0;
  const std::int64_t start = monotonic_ns();
  std::int64_t due = start;
  while (seen < rolls) {
    std::int64_t before = monotonic_ns();
    if (interval_ns > 0) {
      due += interval_ns;
      if (before - due >= interval_ns) ++cost.late;
      while (before < due) before = monotonic_ns();
    }
    if (writer.append(FrameType::kUser, payload.data(), payload_bytes, origin) == 0) throw writer.error();
    const std::int64_t taken = monotonic_ns() - before;
    all.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>(taken, UINT32_MAX)));
    cost.append_max_ns = std::max(cost.append_max_ns, taken);
    if (writer.page_rolls() != seen) [[unlikely]] {
      seen = writer.page_rolls();
      cost.roll_ns.push_back(taken);
      sweeper.passed(writer.page_number());
    }
  }
  cost.elapsed_ns = monotonic_ns() - start;
  cost.frames = all.size();
  cost.roll_waits = writer.roll_waits();
  const auto rank = [&all](std::uint64_t numerator, std::uint64_t denominator) -> std::int64_t {
    const auto at = static_cast<std::ptrdiff_t>((all.size() * numerator + denominator - 1) / denominator) - 1;
    std::nth_element(all.begin(), all.begin() + at, all.end());
    return all[static_cast<std::size_t>(at)];
  };
  cost.append_p50_ns = rank(50, 100);
  cost.append_p99_ns = rank(99, 100);
  cost.append_p999_ns = rank(999, 1000);
  return cost;
}

// Writes `frames` frames over `streams` streams, each to one drawn at random, so that a merge cannot
// be predicted. The first 8 payload bytes count the stream's frames from 1. Returns the sum of seqs.
[[nodiscard]] inline std::uint64_t write_streams(const std::string& journal_dir, std::uint32_t streams,
                                                 std::uint64_t frames, FrameType type,
                                                 std::uint32_t payload_bytes, std::uint64_t page_bytes) {
  if (streams == 0 || streams >= kMaxStreams || payload_bytes < 8) {
    throw std::invalid_argument("bench journal: 1 to 63 streams and a payload of at least 8 bytes");
  }
  std::vector<std::unique_ptr<StreamWriter>> writers;
  for (std::uint32_t i = 1; i <= streams; ++i) {
    writers.push_back(
        std::make_unique<StreamWriter>(journal_dir, bench_identity(i, page_bytes), WriterOptions{}));
  }
  std::vector<std::byte> payload(payload_bytes, std::byte{0});
  const Origin origin = bench_origin();
  std::uint64_t state = 42;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < frames; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX generator
    StreamWriter& writer = *writers[(state >> 33) % streams];
    const std::uint64_t number = writer.last_seq() + 1;
    std::memcpy(payload.data(), &number, 8);
    if (writer.append(type, payload.data(), payload_bytes, origin) == 0) throw writer.error();
    sum += number;
  }
  return sum;
}

struct ReadCost {
  std::int64_t elapsed_ns = 0;
  std::uint64_t frames = 0;
  std::uint64_t seq_sum = 0;
};

[[nodiscard]] inline ReadCost measure_merged_read(const std::string& journal_dir, std::uint32_t streams,
                                                  bool verify) {
  std::vector<std::unique_ptr<Cursor>> cursors;
  for (std::uint32_t i = 1; i <= streams; ++i) {
    CursorOptions options;
    options.verify = verify;
    cursors.push_back(std::make_unique<Cursor>(PageSource("s" + std::to_string(i), {journal_dir}), options));
  }
  MergedReader reader(std::move(cursors));
  ReadCost cost;
  const std::int64_t start = monotonic_ns();
  while (const FrameHeader* frame = reader.peek()) {
    cost.seq_sum += frame->seq;
    ++cost.frames;
    reader.advance();
  }
  cost.elapsed_ns = monotonic_ns() - start;
  if (const Cursor* failed = reader.failed()) throw failed->error();
  return cost;
}

// FROZEN. The merge floor: length and time of each stream's next frame in plain memory, the smallest
// time by linear scan. No pages, CRC, seq or epoch.
[[nodiscard]] inline ReadCost measure_merge_floor(const std::string& journal_dir, std::uint32_t streams) {
  std::vector<std::vector<std::byte>> flat(streams);
  for (std::uint32_t i = 0; i < streams; ++i) {
    Cursor cursor(PageSource("s" + std::to_string(i + 1), {journal_dir}), CursorOptions{});
    while (const FrameHeader* frame = cursor.peek()) {
      const auto* bytes = reinterpret_cast<const std::byte*>(frame);
      flat[i].insert(flat[i].end(), bytes, bytes + frame->length);
      cursor.advance();
    }
    if (cursor.failed()) throw cursor.error();
  }
  struct Head {
    const std::byte* at;
    const std::byte* end;
    std::int64_t time;
  };
  const auto load = [](Head& head) {
    head.time = INT64_MAX;
    if (head.at < head.end) std::memcpy(&head.time, head.at + offsetof(FrameHeader, gen_time), 8);
  };
  std::vector<Head> heads;
  for (const auto& bytes : flat) {
    heads.push_back({bytes.data(), bytes.data() + bytes.size(), 0});
    load(heads.back());
  }
  ReadCost cost;
  const std::int64_t start = monotonic_ns();
  for (;;) {
    Head* first = heads.data();
    for (std::uint32_t i = 1; i < streams; ++i) {
      if (heads[i].time < first->time) first = &heads[i];
    }
    if (first->time == INT64_MAX) break;
    std::uint32_t length = 0;
    std::uint64_t seq = 0;
    std::memcpy(&length, first->at, 4);
    std::memcpy(&seq, first->at + offsetof(FrameHeader, seq), 8);
    cost.seq_sum += seq;
    ++cost.frames;
    first->at += length;
    load(*first);
  }
  cost.elapsed_ns = monotonic_ns() - start;
  return cost;
}

}  // namespace tapewire::bench
