// A reader of one stream: follows the pages, live or recorded, frame by frame.
//
// peek() shows the next frame, advance() moves past it. A page is mapped read-only and populated off
// the hot path by the page helper, which keeps the next one ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "journal/directory.hpp"
#include "journal/page.hpp"
#include "journal/page_helper.hpp"
#include "journal/scan.hpp"

namespace tapewire {

// Where the pages of a stream are: the first directory that has a page wins (live before recorded).
class PageSource {
 public:
  PageSource(std::string stream, std::vector<std::string> directories)
      : stream_(std::move(stream)), directories_(std::move(directories)) {}
  [[nodiscard]] const std::string& stream() const noexcept { return stream_; }

  [[nodiscard]] std::vector<std::uint64_t> pages() const {
    std::vector<std::uint64_t> all;
    for (const auto& d : directories_) {
      const auto some = list_pages(d + "/" + stream_);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  struct Opened {
    std::shared_ptr<Mapping> mapping;
    std::string path;
    PageState state = PageState::kPrepared;
  };
  // Throws when the page is there and is not what it should be.
  [[nodiscard]] Opened open(std::uint64_t number) const {
    for (const auto& d : directories_) {
      Opened o;
      o.path = d + "/" + stream_ + "/" + page_name(number);
      o.mapping = map_page_for_reading(o.path);
      if (!o.mapping) continue;
      o.state = check_page_header(o.mapping->base(), o.mapping->bytes(), o.path, number);
      return o;
    }
    return {};
  }

 private:
  std::string stream_;
  std::vector<std::string> directories_;
};

struct CursorOptions {
  bool verify = true;    // check every frame's CRC, padding and stream
  bool populate = true;  // pre-fault the mapping of a page when it is opened
  std::shared_ptr<PageHelper> helper;
};

class Cursor final : private PageHelper::Client {
 public:
  // Begins at the first page. Throws StreamNotFound when there is none yet.
  Cursor(PageSource source, CursorOptions options)
      : source_(std::move(source)), options_(std::move(options)) {
    const auto pages = source_.pages();
    if (pages.empty())
      throw JournalError(
          ErrorKind::kStreamNotFound,
          "stream '" + source_.stream() + "' has no pages yet; `tapewire journal ls` lists what there is");
    first_page_ = pages.front();
    enter(source_.open(first_page_), first_page_);
    // Earlier pages were removed: the first frame asked for says so, unless a seek comes before it.
    if (started_) next_seq_ = 1;
    if (options_.helper) {
      options_.helper->attach(*this);
      request_next();
    }
  }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  ~Cursor() override {
    if (options_.helper) options_.helper->detach(*this);
  }

  // The next frame, or null: nothing yet, the end, or an error (failed() tells).
  [[nodiscard]] const FrameHeader* peek() noexcept {
    for (;;) {
      if (checked_at_ == offset_) return reinterpret_cast<const FrameHeader*>(base_ + offset_);
      if (offset_ + 8 > limit_) [[unlikely]] {
        if (!error_) corrupt(Finding::kTruncated);
        return nullptr;
      }
      const std::uint64_t word = load_word(base_ + offset_);
      if (word == 0) {
        if (limit_ < page_bytes_ && !error_) [[unlikely]]
          corrupt(Finding::kTruncated);
        return nullptr;
      }
      if (!accept(word)) [[unlikely]]
        return nullptr;
      const auto& f = *reinterpret_cast<const FrameHeader*>(base_ + offset_);
      if (f.type != static_cast<std::uint16_t>(FrameType::kPageEnd)) [[likely]] {
        checked_at_ = offset_;
        return &f;
      }
      if (!next_page()) return nullptr;
    }
  }

  // Moves past the frame that peek() returned.
  void advance() noexcept {
    if (checked_at_ != offset_) return;
    const auto& f = *reinterpret_cast<const FrameHeader*>(base_ + offset_);
    ++next_seq_;
    offset_ += f.length;
    checked_at_ = 0;
  }

  // For a reader at its end, off the hot path: a page beyond the zero word it stands at holds frames, so
  // the rest of this page is lost. True: peek() has something new to say.
  bool look_beyond() noexcept {
    if (error_ || offset_ + 8 > limit_ || load_word(base_ + offset_) != 0) return false;
    try {
      for (const auto n : source_.pages()) {
        if (n <= page_number_) continue;
        auto later = source_.open(n);
        if (!later.mapping || later.state != PageState::kStarted ||
            later.mapping->bytes() < kPageHeaderBytes + 8 ||
            load_word(later.mapping->base() + kPageHeaderBytes) == 0)
          continue;
        if (load_word(base_ + offset_) != 0) return true;  // it was the writer, rolling just now
        const std::uint64_t first = later.mapping->header().first_seq;
        if (first != next_seq_)
          gap(next_seq_ - 1, first);
        else
          jump(std::move(later), n);
        return true;
      }
    } catch (const JournalError& e) {
      error_ = e;
    } catch (const std::exception& e) {
      error_ = JournalError(ErrorKind::kSystem, source_.stream() + ": " + e.what());
    }
    return failed();
  }

  [[nodiscard]] bool failed() const noexcept { return error_.has_value(); }
  [[nodiscard]] const JournalError& error() const noexcept { return *error_; }
  [[nodiscard]] std::uint64_t next_seq() const noexcept { return next_seq_; }
  [[nodiscard]] std::uint32_t stream_id() const noexcept { return page_->header().stream_id; }
  [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] const std::string& stream() const noexcept { return source_.stream(); }
  [[nodiscard]] const std::shared_ptr<Mapping>& mapping() const noexcept { return page_; }
  [[nodiscard]] const PageSource& source() const noexcept { return source_; }
  // Where the next frame's commit word will appear (for a futex).
  [[nodiscard]] const std::byte* next_word() const noexcept { return base_ + offset_; }

  // The first frame with seq >= `seq`. Binary search over page headers, then within the page.
  void seek_seq(std::uint64_t seq) {
    seek_page([&](const PageHeader& h) { return h.first_seq <= seq; });
    while (const FrameHeader* f = peek()) {
      if (f->seq >= seq) return;
      advance();
    }
    if (error_) throw *error_;
  }
  // The first frame with gen_time >= `time_ns` (of the epochs as they lie).
  void seek_time(std::int64_t time_ns) {
    seek_page([&](const PageHeader& h) { return h.first_time <= time_ns; });
    while (const FrameHeader* f = peek()) {
      if (f->gen_time >= time_ns) return;
      advance();
    }
    if (error_) throw *error_;
  }

 private:
  enum class Ahead : std::uint32_t { kIdle, kRequested, kWorking, kReady };

  bool accept(std::uint64_t word) noexcept {
    if (!started_) [[unlikely]] {  // opened before its writer entered it
      started_ = true;
      epoch_ = page_->header().epoch;
      next_seq_ = page_->header().first_seq;
    }
    const Finding finding = check_frame(base_, offset_, word, limit_, page_bytes_, options_.verify);
    if (finding != Finding::kNone) {
      corrupt(finding);
      return false;
    }
    const auto& f = *reinterpret_cast<const FrameHeader*>(base_ + offset_);
    if (f.seq != next_seq_) [[unlikely]] {
      if (offset_ == kPageHeaderBytes && f.seq == page_->header().first_seq && f.seq > next_seq_)
        gap(next_seq_ - 1, f.seq);
      else
        corrupt(Finding::kBadSeq);
      return false;
    }
    if (options_.verify && f.stream_id != page_->header().stream_id) {
      corrupt(Finding::kBadStream);
      return false;
    }
    return true;
  }

  bool next_page() noexcept {
    if (error_) return false;
    try {
      const std::uint64_t number = page_number_ + 1;
      PageSource::Opened opened;
      if (take_prepared(opened) && opened.state == PageState::kPrepared)  // the writer has entered it since
        opened.state =
            check_page_header(opened.mapping->base(), opened.mapping->bytes(), opened.path, number);
      // Not mapped ahead, or mapped and then made anew by a writer that took over.
      if (!opened.mapping || opened.state == PageState::kPrepared) opened = source_.open(number);
      if (!opened.mapping) {
        const auto pages = source_.pages();
        for (const auto n : pages) {
          if (n <= number) continue;
          const auto later = source_.open(n);
          if (later.mapping && later.state == PageState::kStarted) {
            gap(next_seq_ - 1, later.mapping->header().first_seq);
            return false;
          }
        }
        return false;
      }
      if (opened.state != PageState::kStarted) return false;
      const std::uint64_t first = opened.mapping->header().first_seq;
      if (first != next_seq_) {
        gap(next_seq_ - 1, first);
        return false;
      }
      enter(std::move(opened), number);
      if (options_.helper) request_next();
      return true;
    } catch (const JournalError& e) {
      error_ = e;
    } catch (const std::exception& e) {
      error_ = JournalError(ErrorKind::kSystem, source_.stream() + ": " + e.what());
    }
    return false;
  }

  void enter(PageSource::Opened opened, std::uint64_t number) {
    if (!opened.mapping)
      throw JournalError(ErrorKind::kStreamNotFound,
                         source_.stream() + ": page vanished while it was opened");
    if (options_.helper) retired_ = std::move(page_);
    page_ = std::move(opened.mapping);
    path_ = std::move(opened.path);
    if (options_.populate && (!options_.helper || page_number_ == 0)) page_->populate(false);
    base_ = page_->base();
    page_number_ = number;
    page_bytes_ = page_->header().page_bytes;
    limit_ = std::min<std::uint64_t>(page_->bytes(), page_bytes_);
    started_ = opened.state == PageState::kStarted;
    epoch_ = started_ ? page_->header().epoch : 0;
    next_seq_ = started_ ? page_->header().first_seq : 1;
    offset_ = kPageHeaderBytes;
    checked_at_ = 0;
  }

  // The next page as the helper mapped it, or false: not ready, and now the reader's own to open.
  // A helper that is mapping it just now is waited for: the frames behind are published, and whoever
  // looks must see them (an order's cause may be one of them).
  bool take_prepared(PageSource::Opened& opened) noexcept {
    if (!options_.helper) return false;
    for (;;) {
      auto state = state_.load(std::memory_order_acquire);
      if (state == Ahead::kReady) {
        opened = std::move(next_);
        next_ = {};
        state_.store(Ahead::kIdle, std::memory_order_relaxed);
        return true;
      }
      if (state == Ahead::kIdle) return false;
      if (state == Ahead::kRequested &&
          state_.compare_exchange_strong(state, Ahead::kIdle, std::memory_order_acq_rel))
        return false;
      ::sched_yield();
    }
  }
  void request_next() noexcept {
    wanted_page_ = page_number_ + 1;
    state_.store(Ahead::kRequested, std::memory_order_release);
    options_.helper->request(*this);
  }
  // On the helper thread: maps and populates the page after the current one, once it exists.
  bool work() noexcept override {
    auto requested = Ahead::kRequested;
    if (!state_.compare_exchange_strong(requested, Ahead::kWorking, std::memory_order_acq_rel)) return true;
    retired_.reset();
    auto after = Ahead::kIdle;  // on an error the reader opens the page itself, and reports it
    try {
      next_ = source_.open(wanted_page_);
      after = next_.mapping ? Ahead::kReady : Ahead::kRequested;
      if (next_.mapping) next_.mapping->populate(false);
    } catch (const std::exception&) {
      next_ = {};
    }
    state_.store(after, std::memory_order_release);
    return after != Ahead::kRequested;
  }

  template <class Before>
  void seek_page(Before&& before) {
    const auto pages = source_.pages();
    if (pages.empty())
      throw JournalError(ErrorKind::kStreamNotFound,
                         "stream '" + source_.stream() + "' has no pages any more");
    std::size_t low = 0;
    std::size_t high = pages.size();
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      const auto o = source_.open(pages[middle]);
      if (o.mapping && o.state == PageState::kStarted && before(o.mapping->header()))
        low = middle;
      else
        high = middle;
    }
    error_.reset();
    jump(source_.open(pages[low]), pages[low]);
  }
  // To a page that is not the next one: what the helper mapped ahead, or is mapping just now, is of no use.
  void jump(PageSource::Opened opened, std::uint64_t number) {
    if (options_.helper) options_.helper->detach(*this);
    next_ = {};
    state_.store(Ahead::kIdle, std::memory_order_relaxed);
    enter(std::move(opened), number);
    if (options_.helper) {
      options_.helper->attach(*this);
      request_next();
    }
  }

  void corrupt(Finding finding) noexcept {
    if (error_) return;  // told already; the others of a mux may go on for long
    JournalError e(ErrorKind::kCorrupt,
                   path_ + ": " + finding_text(finding) + " at offset " + std::to_string(offset_) +
                       ", where seq " + std::to_string(next_seq_) + " should be; frames before it are good",
                   path_);
    e.page = page_number_;
    e.offset = offset_;
    e.seq = next_seq_;
    error_ = std::move(e);
  }
  void gap(std::uint64_t previous, std::uint64_t next) {
    JournalError e(ErrorKind::kGap,
                   "stream '" + source_.stream() + "': frames " + std::to_string(previous + 1) + " to " +
                       std::to_string(next - 1) + " are missing (pages removed); seek to seq " +
                       std::to_string(next) + " to read on",
                   path_);
    e.previous_seq = previous;
    e.seq = next;
    error_ = std::move(e);
  }

  const std::byte* base_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t checked_at_ = 0;
  std::uint64_t limit_ = 0;
  std::uint64_t page_bytes_ = 0;
  std::uint64_t next_seq_ = 1;
  std::uint32_t epoch_ = 0;
  bool started_ = false;

  PageSource source_;
  CursorOptions options_;
  std::shared_ptr<Mapping> page_;
  std::string path_;
  std::uint64_t page_number_ = 0;
  std::uint64_t first_page_ = 0;
  std::optional<JournalError> error_;

  // next_ and retired_ are the helper's while kWorking, the reader's otherwise.
  std::atomic<Ahead> state_{Ahead::kIdle};
  std::uint64_t wanted_page_ = 0;
  PageSource::Opened next_;
  std::shared_ptr<Mapping> retired_;
};

}  // namespace tapewire
