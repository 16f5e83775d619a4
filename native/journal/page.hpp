// Page files: naming, mapping, preparing, and the checks of a page header.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "journal/clock.hpp"
#include "journal/crc32c.hpp"
#include "journal/error.hpp"
#include "journal/format.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace tapewire {

inline constexpr std::uint64_t kMinPageBytes = 64 * 1024;
inline constexpr std::uint64_t kMaxPageBytes = 1ULL << 30;
inline constexpr std::size_t kPopulateSlice = 256 * 1024;

[[nodiscard]] inline std::string page_name(std::uint64_t number) {
  char buf[32];
  std::snprintf(buf, sizeof buf, "%08llu.page", static_cast<unsigned long long>(number));
  return buf;
}

struct StreamIdentity {
  std::string name;
  std::uint32_t stream_id = 0;
  std::uint64_t run_id = 0;
  std::uint32_t epoch = 1;
  std::uint64_t page_bytes = 16ULL << 20;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& o) noexcept {
    if (this != &o) {
      reset();
      fd_ = std::exchange(o.fd_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { reset(); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  void reset() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// One mapped page. Shared by whoever still points into it; unmapped with the last of them.
class Mapping {
 public:
  Mapping(std::byte* base, std::size_t bytes) noexcept : base_(base), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(base_, bytes_); }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const PageHeader& header() const noexcept {
    return *reinterpret_cast<const PageHeader*>(base_);
  }

  // A forked child must not write a stream as well: without the mapping it ends at its first touch, where it
  // would have ruined the record for everybody. (Starting another program is not affected.)
  void keep_from_children() const noexcept { ::madvise(base_, bytes_, MADV_DONTFORK); }

  // Pre-faults in slices, so that no other thread waits long for the address space lock.
  void populate(bool write) const noexcept {
    for (std::size_t at = 0; at < bytes_; at += kPopulateSlice) {
      const std::size_t n = std::min(kPopulateSlice, bytes_ - at);
      if (::madvise(base_ + at, n, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) {
        touch(at, n, write);  // kernels before 5.14
      }
    }
  }

 private:
  void touch(std::size_t at, std::size_t n, bool write) const noexcept {
    for (std::size_t i = at; i < at + n; i += 4096) {
      auto* p = reinterpret_cast<unsigned char*>(base_ + i);
      std::atomic_ref<unsigned char> byte(*p);
      const unsigned char v = byte.load(std::memory_order_relaxed);
      if (write)
        byte.fetch_or(0, std::memory_order_relaxed);
      else
        asm volatile("" ::"r"(v));
    }
  }

  std::byte* base_;
  std::size_t bytes_;
};
using MappingPtr = std::shared_ptr<const Mapping>;

[[nodiscard]] inline std::uint64_t load_word(const std::byte* at) noexcept {
  // Pages are mapped read-only by readers; a load does not write, so the cast is sound.
  auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

inline std::uint32_t static_header_crc(const PageHeader& h) noexcept {
  return crc32c(&h, offsetof(PageHeader, static_crc));
}
inline std::uint64_t start_word_of(const PageHeader& h) noexcept {
  const auto* from = reinterpret_cast<const std::byte*>(&h) + offsetof(PageHeader, first_seq);
  return 1ULL | (static_cast<std::uint64_t>(
                     crc32c(from, offsetof(PageHeader, start_word) - offsetof(PageHeader, first_seq)))
                 << 32);
}

enum class PageState { kPrepared, kStarted };

// Checks a page header against its file. Throws what a reader must be told; returns whether the
// writer has entered this page. `expected_number` 0 accepts any.
inline PageState check_page_header(const std::byte* base, std::uint64_t file_bytes, const std::string& path,
                                   std::uint64_t expected_number) {
  const auto& h = *reinterpret_cast<const PageHeader*>(base);
  auto fail = [&](ErrorKind kind, const std::string& what) {
    JournalError e(kind, path + ": " + what, path);
    e.page = expected_number;
    throw e;
  };
  if (file_bytes < kPageHeaderBytes || h.magic != kMagic)
    fail(ErrorKind::kNotAJournal,
         "not a tapewire journal page (no magic); nothing was changed; check the path");
  if (h.version != kFormatVersion)
    fail(ErrorKind::kVersion, "journal format version " + std::to_string(h.version) +
                                  ", this tapewire reads version " + std::to_string(kFormatVersion) +
                                  "; read it with the tapewire that wrote it");
  if (h.static_crc != static_header_crc(h)) fail(ErrorKind::kCorrupt, "page header fails its CRC");
  if (h.reserved0 != 0 || h.reserved1 != 0) fail(ErrorKind::kCorrupt, "page header padding is not zero");
  if (h.header_bytes != kPageHeaderBytes || h.page_bytes < kMinPageBytes || h.page_bytes > kMaxPageBytes ||
      h.page_bytes % kFrameAlign != 0 || h.stream_id == 0 || h.stream_id >= kMaxStreams)
    fail(ErrorKind::kCorrupt, "page header holds impossible sizes or stream id");
  if (expected_number != 0 && h.page_number != expected_number)
    fail(ErrorKind::kCorrupt, "holds page " + std::to_string(h.page_number) + ", its name says " +
                                  std::to_string(expected_number));
  const std::uint64_t start = load_word(base + offsetof(PageHeader, start_word));
  if (start == 0) return PageState::kPrepared;
  if (start != start_word_of(h) || h.reserved2 != 0 || h.first_seq == 0)
    fail(ErrorKind::kCorrupt, "page start record fails its CRC");
  return PageState::kStarted;
}

// Maps a page for reading. A shorter file (cut off) is mapped as far as it goes. Null: no such file.
inline std::shared_ptr<Mapping> map_page_for_reading(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return nullptr;
    throw JournalError(ErrorKind::kSystem, path + ": cannot open: " + std::strerror(errno), path);
  }
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0)
    throw JournalError(ErrorKind::kSystem, path + ": cannot stat: " + std::strerror(errno), path);
  const auto bytes = static_cast<std::size_t>(st.st_size);
  if (bytes < kPageHeaderBytes)
    throw JournalError(
        ErrorKind::kNotAJournal,
        path + ": not a tapewire journal page (" + std::to_string(bytes) + " bytes, a header has 128)", path);
  void* p = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED)
    throw JournalError(ErrorKind::kSystem, path + ": cannot map: " + std::strerror(errno), path);
  return std::make_shared<Mapping>(static_cast<std::byte*>(p), bytes);
}

inline void make_directories(const std::string& dir) {
  for (std::size_t i = 1; i <= dir.size(); ++i) {
    if (i != dir.size() && dir[i] != '/') continue;
    if (::mkdir(dir.substr(0, i).c_str(), 0755) != 0 && errno != EEXIST) {
      const int err = errno;
      const auto kind = err == ENOSPC ? ErrorKind::kFull : ErrorKind::kSystem;
      throw JournalError(kind, dir + ": cannot create: " + std::strerror(err), dir);
    }
  }
}

// Builds page `number` under a temporary name, pre-faulted for writing, then renames it: a page that
// has its name is complete. Space is allocated first, so that a full file system is an error here and
// never a SIGBUS at the first store.
inline std::shared_ptr<Mapping> prepare_page(const std::string& dir, const StreamIdentity& id,
                                             std::uint64_t number) {
  const std::string path = dir + "/" + page_name(number);
  const std::string temporary = dir + "/." + page_name(number) + ".tmp";
  auto fail = [&](const char* what, int err) {
    ::unlink(temporary.c_str());
    if (err == ENOSPC || err == EDQUOT || err == EFBIG) {
      JournalError e(ErrorKind::kFull,
                     path + ": no space for the next page, " + std::to_string(id.page_bytes) +
                         " bytes needed; free space there or set run.page_bytes lower",
                     path);
      e.bytes_needed = id.page_bytes;
      e.page = number;
      throw e;
    }
    throw JournalError(ErrorKind::kSystem, temporary + ": " + what + ": " + std::strerror(err), path);
  };
  ::unlink(temporary.c_str());  // left by a writer killed half-way
  FileDescriptor fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid()) fail("cannot create", errno);
  if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(id.page_bytes)) != 0) fail("cannot allocate", errno);
  void* p = ::mmap(nullptr, id.page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (p == MAP_FAILED) fail("cannot map", errno);
  auto mapping = std::make_shared<Mapping>(static_cast<std::byte*>(p), id.page_bytes);
  mapping->keep_from_children();
  mapping->populate(true);
  PageHeader h{};
  h.magic = kMagic;
  h.version = kFormatVersion;
  h.header_bytes = kPageHeaderBytes;
  h.page_bytes = id.page_bytes;
  h.page_number = number;
  h.stream_id = id.stream_id;
  h.run_id = id.run_id;
  std::memcpy(h.stream_name, id.name.data(), std::min(id.name.size(), sizeof h.stream_name));
  h.static_crc = static_header_crc(h);
  std::memcpy(mapping->base(), &h, sizeof h);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot rename", errno);
  return mapping;
}

}  // namespace tapewire
