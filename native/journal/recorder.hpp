// Copies the committed bytes of live pages into the run directory, syncs them, and publishes how far
// the record is durable. Off the hot path: it only reads what the writers published.
//
// Watermark file, two 64-byte slots at offsets 0 and 512 written in turn, so that a torn write leaves
// the other:  magic u64 | generation u64 | page u64 | offset u64 | seq u64 | durable u64 | 0 | crc u64
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "journal/cursor.hpp"

namespace tapewire {

struct Watermark {
  std::uint64_t magic = 0;
  std::uint64_t generation = 0;
  std::uint64_t page = 0;
  std::uint64_t offset = 0;  // first byte of that page that is not recorded
  std::uint64_t seq = 0;     // last recorded frame
  std::uint64_t synced = 0;  // 1: those bytes were synced before this was written
  std::uint64_t reserved = 0;
  std::uint64_t crc = 0;

  static constexpr std::uint64_t kWatermarkMagic = 0x314B524D'57504154ULL;  // "TAPWMRK1"
  [[nodiscard]] std::uint64_t compute_crc() const noexcept { return crc32c(this, offsetof(Watermark, crc)); }
};
static_assert(sizeof(Watermark) == 64);

[[nodiscard]] inline std::optional<Watermark> read_watermark(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::optional<Watermark> best;
  if (!fd.valid()) return best;
  for (const off_t at : {off_t{0}, off_t{512}}) {
    Watermark w;
    if (::pread(fd.get(), &w, sizeof w, at) != static_cast<ssize_t>(sizeof w)) continue;
    if (w.magic != Watermark::kWatermarkMagic || w.crc != w.compute_crc()) continue;
    if (!best || w.generation > best->generation) best = w;
  }
  return best;
}

class StreamRecorder {
 public:
  StreamRecorder(const std::string& live_dir, const std::string& run_dir, std::string stream, bool sync)
      : source_(stream, {live_dir}), target_(run_dir + "/" + stream), sync_(sync) {
    make_directories(target_);
    if (const auto w = read_watermark(target_ + "/watermark")) {
      mark_ = *w;
      page_ = w->page;
      offset_ = w->offset;
    }
  }

  // Copies what was committed since; returns the bytes copied.
  std::uint64_t step() {
    std::uint64_t copied = 0;
    for (;;) {
      if (page_done_) next_page();
      if (!mapping_ && !open_page()) break;
      const std::byte* base = mapping_->base();
      std::uint64_t end = offset_;
      bool page_end = false;
      std::uint64_t seq = mark_.seq;
      Finding damage = Finding::kNone;
      while (end + 8 <= mapping_->bytes()) {
        const std::uint64_t word = load_word(base + end);
        if (word == 0) break;
        damage = check_frame(base, end, word, mapping_->bytes(), mapping_->header().page_bytes, false);
        if (damage != Finding::kNone) break;  // the frames in front of it are good, and recorded
        const auto& frame = *reinterpret_cast<const FrameHeader*>(base + end);
        end += frame.length;
        if (frame.type == static_cast<std::uint16_t>(FrameType::kPageEnd)) {
          page_end = true;
          break;
        }
        seq = frame.seq;
      }
      if (end > offset_) {
        write_all(base + offset_, end - offset_, offset_);
        copied += end - offset_;
        offset_ = end;
        mark_.seq = seq;
        dirty_ = true;
      }
      if (damage != Finding::kNone) stop_at(damage);
      page_done_ = page_end;
      if (!page_done_) break;
    }
    return copied;
  }

  // Syncs (when the run asks for it) and publishes the watermark.
  void flush() { publish(page_, offset_); }

  [[nodiscard]] const Watermark& watermark() const noexcept { return mark_; }

 private:
  // The mark names the next page: a recorder that continues from it need not find this page's end again.
  void next_page() {
    publish(page_ + 1, 0);
    mapping_.reset();
    out_.reset();
    ++page_;
    offset_ = 0;
    page_done_ = false;
  }
  void publish(std::uint64_t page, std::uint64_t offset) {
    if (!dirty_) return;
    if (sync_ && ::fdatasync(out_.get()) != 0) fail("cannot sync", errno);
    // Kept only once written: a failed write is tried again in the same slot, never in the good one.
    Watermark next = mark_;
    next.magic = Watermark::kWatermarkMagic;
    ++next.generation;
    next.page = page;
    next.offset = offset;
    next.synced = sync_ ? 1 : 0;
    next.crc = next.compute_crc();
    if (!mark_file_.valid()) {
      mark_file_ =
          FileDescriptor(::open((target_ + "/watermark").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
      if (!mark_file_.valid()) fail("cannot create the watermark", errno);
      sync_directory();
    }
    const auto at = static_cast<off_t>((next.generation % 2) * 512);
    if (::pwrite(mark_file_.get(), &next, sizeof next, at) != static_cast<ssize_t>(sizeof next))
      fail("cannot write the watermark", errno, sizeof next);
    if (sync_ && ::fdatasync(mark_file_.get()) != 0) fail("cannot sync the watermark", errno);
    mark_ = next;
    dirty_ = false;
  }
  bool open_page() {
    if (page_ == 0) {
      const auto pages = source_.pages();
      if (pages.empty()) return false;
      page_ = pages.front();
    }
    auto opened = source_.open(page_);
    if (!opened.mapping || opened.state != PageState::kStarted) return false;
    const std::string path = target_ + "/" + page_name(page_);
    out_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!out_.valid()) fail("cannot create a page", errno);
    // Sparse to its full size: what is not recorded reads as zero, "nothing yet".
    if (::ftruncate(out_.get(), static_cast<off_t>(opened.mapping->header().page_bytes)) != 0)
      fail("cannot size a page", errno);
    sync_directory();
    if (offset_ < kPageHeaderBytes) {
      write_all(opened.mapping->base(), kPageHeaderBytes, 0);
      offset_ = kPageHeaderBytes;
      dirty_ = true;
    }
    mapping_ = std::move(opened.mapping);
    path_ = std::move(opened.path);
    return true;
  }
  [[noreturn]] void stop_at(Finding damage) {
    flush();
    JournalError e(ErrorKind::kCorrupt,
                   path_ + ": " + finding_text(damage) + " at offset " + std::to_string(offset_) +
                       "; recording of this stream stops there",
                   path_);
    e.page = page_;
    e.offset = offset_;
    throw e;
  }
  // A file that was synced is found again only when its name was, too.
  void sync_directory() {
    if (!sync_) return;
    const FileDescriptor d(::open(target_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!d.valid() || ::fsync(d.get()) != 0) fail("cannot sync the directory", errno);
  }
  void write_all(const std::byte* from, std::uint64_t n, std::uint64_t at) {
    while (n > 0) {
      const auto w = ::pwrite(out_.get(), from, n, static_cast<off_t>(at));
      if (w < 0) {
        if (errno == EINTR) continue;
        fail("cannot write a page", errno, n);
      }
      from += w;
      n -= static_cast<std::uint64_t>(w);
      at += static_cast<std::uint64_t>(w);
    }
  }
  [[noreturn]] void fail(const char* what, int err, std::uint64_t bytes = 0) {
    if (err == ENOSPC || err == EDQUOT) {
      JournalError e(ErrorKind::kFull,
                     target_ + ": no space left in the run directory" +
                         (bytes != 0 ? ", " + std::to_string(bytes) + " bytes needed" : std::string()) +
                         "; free space there",
                     target_);
      e.bytes_needed = bytes;
      throw e;
    }
    throw JournalError(ErrorKind::kSystem, target_ + ": " + what + ": " + std::strerror(err), target_);
  }

  PageSource source_;
  std::string target_;
  bool sync_;
  bool dirty_ = false;
  bool page_done_ = false;  // its end is copied, its mark is not yet published
  Watermark mark_;
  std::uint64_t page_ = 0;
  std::uint64_t offset_ = 0;
  std::shared_ptr<Mapping> mapping_;
  std::string path_;
  FileDescriptor out_;
  FileDescriptor mark_file_;
};

}  // namespace tapewire
