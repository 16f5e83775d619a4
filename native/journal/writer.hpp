// The one writer of a stream.
//
// reserve() hands out room in the current page, commit() publishes it with one 8-byte store. Nothing
// is visible in between, so an abandoned reserve() costs nothing. Pages are prepared ahead by the
// page helper; the roll itself writes two headers and swaps a pointer.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ipc/counters.hpp"
#include "journal/directory.hpp"
#include "journal/page.hpp"
#include "journal/page_helper.hpp"
#include "journal/scan.hpp"

namespace tapewire {

// Which frame led to this one. All zero: nothing did (a feed's frame, a timer, a start).
struct Origin {
  std::uint64_t cause_seq = 0;
  std::uint64_t root_seq = 0;
  std::uint16_t cause_stream = 0;
  std::uint16_t root_stream = 0;
  std::uint16_t root_type = 0;

  [[nodiscard]] static Origin caused_by(const FrameHeader& f) noexcept {
    Origin o;
    o.cause_seq = f.seq;
    o.cause_stream = f.stream_id;
    const bool is_root = f.root_seq == 0;
    o.root_seq = is_root ? f.seq : f.root_seq;
    o.root_stream = is_root ? f.stream_id : f.root_stream;
    o.root_type = is_root ? f.type : f.root_type;
    return o;
  }
};

struct WriterOptions {
  std::shared_ptr<PageHelper> helper;      // none: pages are prepared inline (tools, tests)
  std::shared_ptr<const Control> control;  // none: no reader ever parks on this stream
  std::shared_ptr<Counters> counters;      // block that shows last_seq, page_rolls, roll_waits
  CounterBlock* block = nullptr;
};

// What a writer found when it took over a stream that somebody had written before.
struct Recovery {
  std::uint64_t last_seq = 0;
  std::uint64_t cut_bytes = 0;
  std::uint64_t page = 0;
  std::uint64_t offset = 0;
  Finding finding = Finding::kNone;
};

class StreamWriter final : private PageHelper::Client {
 public:
  StreamWriter(const std::string& journal_dir, StreamIdentity identity, WriterOptions options)
      : dir_(journal_dir + "/" + identity.name), id_(std::move(identity)), options_(std::move(options)) {
    check_identity();
    make_directories(dir_);
    lock();
    const auto pages = list_pages(dir_);
    std::uint64_t last = pages.empty() ? 0 : pages.back();
    if (last != 0) recover(last);
    begin_first_page(last + 1);
    // Lockstep and the backlog compare this with what was consumed, also before our first frame.
    if (options_.block != nullptr) options_.block->set(Counter::kLastSeq, last_seq());
    if (options_.helper) options_.helper->attach(*this);
  }
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;
  ~StreamWriter() override { close(); }

  void close() noexcept {
    if (page_ == nullptr) return;
    if (options_.helper) options_.helper->detach(*this);
    page_.reset();
    next_.reset();
    retired_.reset();
    base_ = nullptr;
    pending_ = 0;
    lock_.reset();
  }
  [[nodiscard]] bool is_open() const noexcept { return page_ != nullptr; }

  // Largest payload one frame may carry in this stream.
  [[nodiscard]] std::uint32_t max_payload() const noexcept {
    return static_cast<std::uint32_t>(id_.page_bytes - kPageHeaderBytes - kHeaderBytes - kPageEndBytes);
  }

  // Room for a payload of `bytes`, zeroed only in its padding. Null: error() says why.
  [[nodiscard]] std::byte* reserve(FrameType type, std::uint32_t bytes) noexcept {
    if (base_ == nullptr || bytes > max_payload()) [[unlikely]] {
      error_.emplace(ErrorKind::kFrameTooLarge,
                     base_ == nullptr ? dir_ + ": the writer is closed"
                                      : dir_ + ": payload of " + std::to_string(bytes) + " bytes, at most " +
                                            std::to_string(max_payload()) + " fit this page size",
                     dir_);
      return nullptr;
    }
    const std::uint32_t length = padded(kHeaderBytes + bytes);
    if (offset_ + length + kPageEndBytes > id_.page_bytes) [[unlikely]] {
      if (!roll()) return nullptr;
    }
    pending_ = length;
    pending_type_ = type;
    pending_pad_ = static_cast<std::uint8_t>(length - kHeaderBytes - bytes);
    for (std::uint32_t i = 0; i < pending_pad_; ++i) base_[offset_ + length - 1 - i] = std::byte{0};
    return base_ + offset_ + kHeaderBytes;
  }
  template <class Payload>
  [[nodiscard]] Payload* reserve(FrameType type) noexcept {
    static_assert(std::is_trivially_copyable_v<Payload> && sizeof(Payload) % kFrameAlign == 0);
    return reinterpret_cast<Payload*>(reserve(type, sizeof(Payload)));
  }

  // Publishes what was reserved; returns its seq, 0 when nothing was reserved.
  std::uint64_t commit(const Origin& origin = {}) noexcept { return commit_at(monotonic_ns(), origin); }
  std::uint64_t commit_at(std::int64_t gen_time, const Origin& origin) noexcept {
    if (pending_ == 0) return 0;
    const std::uint32_t length = std::exchange(pending_, 0U);
    std::byte* at = base_ + offset_;
    auto& f = *reinterpret_cast<FrameHeader*>(at);
    f.seq = next_seq_;
    f.gen_time = gen_time;
    f.type = static_cast<std::uint16_t>(pending_type_);
    f.schema = 1;
    f.stream_id = static_cast<std::uint16_t>(id_.stream_id);
    f.pad = pending_pad_;
    f.reserved0 = 0;
    f.cause_seq = origin.cause_seq;
    f.root_seq = origin.root_seq;
    f.cause_stream = origin.cause_stream;
    f.root_stream = origin.root_stream;
    f.root_type = origin.root_type;
    f.reserved1 = 0;
    clear_word(at + length);
    publish(at, length);
    offset_ += length;
    last_time_ = gen_time;
    const std::uint64_t seq = next_seq_++;
    if (options_.block != nullptr) options_.block->set(Counter::kLastSeq, seq);
    if (offset_ >= request_at_) [[unlikely]]
      request_next();
    return seq;
  }

  // Copies a whole payload in and publishes it. 0: error() says why.
  std::uint64_t append(FrameType type, const void* payload, std::uint32_t bytes,
                       const Origin& origin = {}) noexcept {
    std::byte* at = reserve(type, bytes);
    if (at == nullptr) return 0;
    std::memcpy(at, payload, bytes);
    return commit(origin);
  }

  [[nodiscard]] const JournalError& error() const noexcept { return *error_; }
  [[nodiscard]] bool has_error() const noexcept { return error_.has_value(); }
  [[nodiscard]] std::uint64_t last_seq() const noexcept { return next_seq_ - 1; }
  [[nodiscard]] std::uint32_t stream_id() const noexcept { return id_.stream_id; }
  [[nodiscard]] const StreamIdentity& identity() const noexcept { return id_; }
  [[nodiscard]] const std::string& directory() const noexcept { return dir_; }
  [[nodiscard]] std::uint64_t page_number() const noexcept { return page_number_; }
  [[nodiscard]] std::uint64_t page_rolls() const noexcept { return page_rolls_; }
  [[nodiscard]] std::uint64_t roll_waits() const noexcept { return roll_waits_; }
  [[nodiscard]] const std::optional<Recovery>& recovery() const noexcept { return recovery_; }

 private:
  enum class Next : std::uint32_t { kIdle, kRequested, kWorking, kReady, kFailed };

  void check_identity() const {
    auto bad = [&](const std::string& what) {
      throw JournalError(ErrorKind::kSystem, dir_ + ": " + what, dir_);
    };
    if (id_.name.empty() || id_.name.size() >= sizeof(PageHeader::stream_name) || id_.name[0] == '.' ||
        id_.name.find('/') != std::string::npos)
      bad("a stream name has 1 to 31 characters, no '/' and no leading dot");
    if (id_.stream_id == 0 || id_.stream_id >= kMaxStreams) bad("stream ids are 1 to 63");
    if (id_.page_bytes < kMinPageBytes || id_.page_bytes > kMaxPageBytes || id_.page_bytes % 4096 != 0)
      bad("page_bytes must be a multiple of 4096 from 65536 to 1073741824");
  }

  void lock() {
    const std::string path = dir_ + "/lock";
    lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock_.valid())
      throw JournalError(ErrorKind::kSystem, path + ": cannot open: " + std::strerror(errno), path);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      char holder[32] = {};
      const auto n = ::pread(lock_.get(), holder, sizeof holder - 1, 0);
      throw JournalError(ErrorKind::kLocked,
                         path + ": another process" +
                             (n > 0 ? " (pid " + std::string(holder) + ")" : std::string()) +
                             " writes this stream; stop that run first, or use another run name",
                         path);
    }
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(lock_.get(), 0) == 0) (void)!::pwrite(lock_.get(), pid.data(), pid.size(), 0);
  }

  // Continues after the last valid frame of page `last`: zeroes what follows, ends the page there.
  void recover(std::uint64_t& last) {
    for (;;) {
      const std::string path = dir_ + "/" + page_name(last);
      const auto probe = map_page_for_reading(path);
      if (!probe)
        throw JournalError(ErrorKind::kSystem, path + ": cannot open: " + std::strerror(ENOENT), path);
      const PageState state = check_page_header(probe->base(), probe->bytes(), path, last);
      const PageHeader& h = probe->header();
      if (h.stream_id != id_.stream_id)
        throw JournalError(ErrorKind::kCorrupt,
                           path + ": page of stream " + std::to_string(h.stream_id) + ", expected " +
                               std::to_string(id_.stream_id),
                           path);
      if (state == PageState::kPrepared) {  // never entered: made anew below
        ::unlink(path.c_str());
        if (--last == 0) return;
        continue;
      }
      if (last > 1) finish_page(last - 1, h.first_seq);
      const PageScan s = scan_page(probe->base(), probe->bytes());
      if (s.finding != Finding::kPageEnd && s.valid_end + kPageEndBytes > h.page_bytes)
        throw JournalError(
            ErrorKind::kCorrupt,
            path + ": its frames leave no room for the end-of-page frame; no tapewire wrote this page", path);
      Recovery r{s.next_seq - 1, 0, last, s.valid_end, s.finding};
      page_ = map_for_writing(path, h.page_bytes);
      base_ = page_->base();
      if (s.finding != Finding::kPageEnd) {
        for (std::uint64_t i = h.page_bytes; i > s.valid_end; --i) {
          if (base_[i - 1] == std::byte{0}) continue;
          r.cut_bytes = i - s.valid_end;
          break;
        }
        std::memset(base_ + s.valid_end, 0, h.page_bytes - s.valid_end);
      }
      next_seq_ = s.next_seq;
      id_.epoch = std::max(id_.epoch, h.epoch + 1);
      recovered_open_ = s.finding != Finding::kPageEnd;
      offset_ = s.valid_end;
      recovery_ = r;
      return;
    }
  }

  // A writer killed after it started a page and before it ended the one in front left that one open:
  // its readers would wait there for ever.
  void finish_page(std::uint64_t number, std::uint64_t next_first_seq) {
    const std::string path = dir_ + "/" + page_name(number);
    const auto probe = map_page_for_reading(path);
    if (!probe || check_page_header(probe->base(), probe->bytes(), path, number) != PageState::kStarted)
      return;
    const PageScan s = scan_page(probe->base(), probe->bytes());
    if (s.finding != Finding::kNone || s.next_seq != next_first_seq ||
        s.valid_end + kPageEndBytes > probe->header().page_bytes)
      return;
    page_ = map_for_writing(path, probe->header().page_bytes);
    base_ = page_->base();
    next_seq_ = s.next_seq;
    offset_ = s.valid_end;
    clear_tail();
    end_page();
  }

  [[nodiscard]] static std::shared_ptr<Mapping> map_for_writing(const std::string& path,
                                                                std::uint64_t bytes) {
    FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.valid())
      throw JournalError(ErrorKind::kSystem, path + ": cannot open: " + std::strerror(errno), path);
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
        ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
      JournalError e(ErrorKind::kFull,
                     path + ": no space to recover this page, " + std::to_string(bytes) + " bytes needed",
                     path);
      e.bytes_needed = bytes;
      throw e;
    }
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (p == MAP_FAILED)
      throw JournalError(ErrorKind::kSystem, path + ": cannot map: " + std::strerror(errno), path);
    auto mapping = std::make_shared<Mapping>(static_cast<std::byte*>(p), bytes);
    mapping->keep_from_children();
    return mapping;
  }

  void begin_first_page(std::uint64_t number) {
    auto fresh = prepare_page(dir_, id_, number);
    start_page(*fresh);
    if (recovered_open_) end_page();
    enter(std::move(fresh), number);
  }

  void start_page(const Mapping& page) const noexcept {
    auto& h = *reinterpret_cast<PageHeader*>(page.base());
    h.first_seq = next_seq_;
    h.first_time = monotonic_ns();
    h.prepared_time = h.first_time;
    h.epoch = id_.epoch;
    std::atomic_ref(h.start_word).store(start_word_of(h), std::memory_order_release);
  }

  // The end-of-page frame: published after the next page has its name and its start record.
  void end_page() noexcept {
    auto& f = *reinterpret_cast<FrameHeader*>(base_ + offset_);
    std::memset(reinterpret_cast<std::byte*>(&f) + 8, 0, kHeaderBytes - 8);
    f.seq = next_seq_;
    f.gen_time = monotonic_ns();
    f.type = static_cast<std::uint16_t>(FrameType::kPageEnd);
    f.schema = 1;
    f.stream_id = static_cast<std::uint16_t>(id_.stream_id);
    publish(base_ + offset_, kPageEndBytes);
  }
  // What an abandoned reserve() left behind the end-of-page frame: nothing may follow it.
  void clear_tail() noexcept {
    const std::uint64_t from = offset_ + kPageEndBytes;
    std::memset(base_ + from, 0, page_->bytes() - from);
  }

  void enter(std::shared_ptr<Mapping> page, std::uint64_t number) noexcept {
    retired_ = std::move(page_);
    page_ = std::move(page);
    base_ = page_->base();
    page_number_ = number;
    offset_ = kPageHeaderBytes;
    // The very first page may stay the only one: ask for a second when an eighth is used.
    request_at_ = page_rolls_ == 0 ? id_.page_bytes / 8 : 0;
  }

  void request_next() noexcept {
    request_at_ = UINT64_MAX;
    if (!options_.helper) return;
    next_state_.store(Next::kRequested, std::memory_order_release);
    options_.helper->request(*this);
    // Once in a stream's life: from here on pages may come fast, and the helper must begin to look often. And
    // where a roll had to wait: they come faster than it looks.
    if (page_rolls_ == 0 || waited_) options_.helper->hurry();
    waited_ = false;
  }

  [[nodiscard]] bool roll() noexcept {
    await_next();
    if (next_state_.load(std::memory_order_acquire) == Next::kFailed) {
      error_ = next_error_;
      next_state_.store(Next::kIdle, std::memory_order_relaxed);
      return false;  // asked again at the next append
    }
    start_page(*next_);
    clear_tail();
    end_page();
    ++page_rolls_;
    if (options_.block != nullptr) options_.block->set(Counter::kPageRolls, page_rolls_);
    enter(std::move(next_), page_number_ + 1);
    next_state_.store(Next::kIdle, std::memory_order_relaxed);
    if (!options_.helper) retired_.reset();
    return true;
  }

  // Returns when the next page is ready, or failed just now. Half made by the helper: waited for. Not begun:
  // made here, because beside a busy writer the helper may get no CPU for long. Failed ahead of time: tried
  // again, what stood in the way may be gone.
  void await_next() noexcept {
    if (!options_.helper) return prepare_next();
    auto state = Next::kRequested;
    const bool not_begun = next_state_.compare_exchange_strong(state, Next::kIdle, std::memory_order_acq_rel);
    if (!not_begun && state == Next::kReady) return;
    waited_ = true;
    ++roll_waits_;
    if (options_.block != nullptr) options_.block->set(Counter::kRollWaits, roll_waits_);
    if (not_begun || state != Next::kWorking) return prepare_next();
    while (next_state_.load(std::memory_order_acquire) == Next::kWorking) ::sched_yield();
  }
  void prepare_next() noexcept {
    try {
      retired_.reset();
      next_ = prepare_page(dir_, id_, page_number_ + 1);
      next_state_.store(Next::kReady, std::memory_order_release);
    } catch (const JournalError& e) {
      next_error_ = e;
      next_state_.store(Next::kFailed, std::memory_order_release);
    } catch (const std::exception& e) {
      next_error_ = JournalError(ErrorKind::kSystem, dir_ + ": " + e.what(), dir_);
      next_state_.store(Next::kFailed, std::memory_order_release);
    }
  }
  bool work() noexcept override {
    auto requested = Next::kRequested;
    if (next_state_.compare_exchange_strong(requested, Next::kWorking, std::memory_order_acq_rel))
      prepare_next();  // else the writer could not wait
    return true;
  }

  // Stale bytes of an abandoned reserve() must never look like the next frame.
  static void clear_word(std::byte* at) noexcept {
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).store(0, std::memory_order_relaxed);
  }

  void publish(std::byte* at, std::uint32_t length) noexcept {
    const std::uint32_t crc = crc32c(at + 8, length - 8, crc32c(&length, 4));
    const std::uint64_t word = (static_cast<std::uint64_t>(crc) << 32) | length;
    std::atomic_ref commit(*reinterpret_cast<std::uint64_t*>(at));
    if (!options_.control) {
      commit.store(word, std::memory_order_release);
      return;
    }
    // Against a lost wake-up: store, then look for waiters; a waiter registers, then looks at the
    // word. All four are seq_cst, so at least one side sees the other.
    //
    // A reader that is slow to get its CPU is not woken again by every frame: what was woken is remembered.
    // Only the reader itself takes its registration back, because it may be waiting for a frame beyond this
    // one by now. If the value is the same before and behind the store, nobody in it can be.
    const auto waiters = options_.control->waiters(id_.stream_id);
    const std::uint64_t before = waiters.load(std::memory_order_relaxed);
    commit.store(word, std::memory_order_seq_cst);
    const std::uint64_t now = waiters.load(std::memory_order_seq_cst);
    if (Control::waiting(now) != 0 && now != woken_) [[unlikely]] {
      woken_ = now == before ? now : 0;
      ::syscall(SYS_futex, at, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      if (options_.block != nullptr) options_.block->add(Counter::kWakes);
    }
  }

  std::byte* base_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t next_seq_ = 1;
  std::uint64_t request_at_ = UINT64_MAX;
  std::uint32_t pending_ = 0;
  FrameType pending_type_ = FrameType::kUser;
  std::uint8_t pending_pad_ = 0;
  bool recovered_open_ = false;
  bool waited_ = false;
  std::int64_t last_time_ = 0;
  std::uint64_t woken_ = 0;  // waiters() at the last wake-up that reached all in it

  std::string dir_;
  StreamIdentity id_;
  WriterOptions options_;
  FileDescriptor lock_;
  std::shared_ptr<Mapping> page_;
  std::uint64_t page_number_ = 0;
  std::uint64_t page_rolls_ = 0;
  std::uint64_t roll_waits_ = 0;
  std::optional<Recovery> recovery_;
  std::optional<JournalError> error_;

  // Handed over by next_state_: the helper's while kWorking, the writer's otherwise.
  std::atomic<Next> next_state_{Next::kIdle};
  std::shared_ptr<Mapping> next_;
  std::shared_ptr<Mapping> retired_;
  std::optional<JournalError> next_error_;
};

}  // namespace tapewire
