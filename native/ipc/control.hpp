// The control file of a run: who waits for which stream, who shall stop, who has failed.
//
//   0        header, 64 bytes: magic, version
//   64       one 64-byte line per stream id (0 .. 63): waiters, a bit per process slot in the low half, in
//            the high half a count of registrations
//   4160     one 64-byte line per process slot (0 .. 31): stop, failed
//
// A bit and not a count: master clears the bit of a process that died while it waited.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ipc/shared_file.hpp"

namespace tapewire {

inline constexpr std::uint32_t kMaxProcesses = 32;  // bits in half a word

enum class StopRequest : std::uint32_t { kNone = 0, kDrain = 1, kNow = 2 };

class Control {
 public:
  static Control create(const std::string& path) {
    return Control(SharedFile::create(path, kBytes, [](std::byte* base) {
      const Header h{kControlMagic, kFormatVersion, 0};
      std::memcpy(base, &h, sizeof h);
    }));
  }
  static Control open(const std::string& path) {
    Control c(SharedFile::open(path, true));
    const auto& h = *reinterpret_cast<const Header*>(c.file_.base());
    if (c.file_.bytes() != kBytes || h.magic != kControlMagic || h.version != kFormatVersion)
      throw JournalError(ErrorKind::kVersion, path + ": not a control file of this version", path);
    return c;
  }

  [[nodiscard]] std::atomic_ref<std::uint64_t> waiters(std::uint32_t stream) const noexcept {
    return std::atomic_ref<std::uint64_t>(streams()[stream % kMaxStreams].waiters);
  }
  // Who waits, of a value of waiters(). Its high half makes two registrations of one process different.
  [[nodiscard]] static constexpr std::uint32_t waiting(std::uint64_t waiters_value) noexcept {
    return static_cast<std::uint32_t>(waiters_value);
  }
  void register_wait(std::uint32_t stream, std::uint32_t slot) const noexcept {
    waiters(stream).fetch_add(1ULL << 32, std::memory_order_seq_cst);
    waiters(stream).fetch_or(1ULL << (slot % kMaxProcesses), std::memory_order_seq_cst);
  }
  void end_wait(std::uint32_t stream, std::uint32_t slot) const noexcept {
    waiters(stream).fetch_and(~(1ULL << (slot % kMaxProcesses)), std::memory_order_seq_cst);
  }
  void request_stop(std::uint32_t slot, StopRequest how) const noexcept {
    std::atomic_ref(processes()[slot % kMaxProcesses].stop)
        .store(static_cast<std::uint32_t>(how), std::memory_order_release);
  }
  [[nodiscard]] StopRequest stop_requested(std::uint32_t slot) const noexcept {
    return static_cast<StopRequest>(
        std::atomic_ref(processes()[slot % kMaxProcesses].stop).load(std::memory_order_acquire));
  }
  void mark_failed(std::uint32_t slot, bool failed) const noexcept {
    std::atomic_ref(processes()[slot % kMaxProcesses].failed)
        .store(failed ? 1U : 0U, std::memory_order_release);
  }
  [[nodiscard]] bool failed(std::uint32_t slot) const noexcept {
    return std::atomic_ref(processes()[slot % kMaxProcesses].failed).load(std::memory_order_acquire) != 0;
  }
  // A dead process waits for nothing.
  void clear_waits(std::uint32_t slot) const noexcept {
    for (std::uint32_t s = 0; s < kMaxStreams; ++s) end_wait(s, slot);
  }

 private:
  struct Header {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t reserved;
  };
  struct alignas(64) StreamLine {
    std::uint64_t waiters;  // low half: a bit per process slot; high half: registrations so far
  };
  struct alignas(64) ProcessLine {
    std::uint32_t stop;
    std::uint32_t failed;
  };
  static_assert(sizeof(StreamLine) == 64 && sizeof(ProcessLine) == 64);
  static constexpr std::uint64_t kControlMagic = 0x314C5254'57504154ULL;  // "TAPWTRL1"
  static constexpr std::size_t kBytes = 64 + 64 * kMaxStreams + 64 * kMaxProcesses;

  explicit Control(SharedFile file) : file_(std::move(file)) {}
  [[nodiscard]] StreamLine* streams() const noexcept {
    return reinterpret_cast<StreamLine*>(file_.base() + 64);
  }
  [[nodiscard]] ProcessLine* processes() const noexcept {
    return reinterpret_cast<ProcessLine*>(file_.base() + 64 + 64 * kMaxStreams);
  }

  SharedFile file_;
};

}  // namespace tapewire
