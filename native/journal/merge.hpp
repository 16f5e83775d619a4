// Several streams as one, in the total order (epoch, gen_time, stream id, seq): the same every time,
// whatever order the streams were named in. For finished or paused data; live processes take frames in
// arrival order (ipc/mux.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "journal/cursor.hpp"

namespace tapewire {

class MergedReader {
 public:
  explicit MergedReader(std::vector<std::unique_ptr<Cursor>> cursors) : cursors_(std::move(cursors)) {
    std::sort(cursors_.begin(), cursors_.end(),
              [](const auto& a, const auto& b) { return a->stream_id() < b->stream_id(); });
    heads_.resize(cursors_.size());
    refresh_all();
  }

  // The next frame in total order, or null. After null, a later call looks at the streams again.
  [[nodiscard]] const FrameHeader* peek() noexcept {
    if (live_ == 0) {
      refresh_all();
      if (live_ == 0) return nullptr;
    }
    // Chosen without a branch: on interleaved streams every other guess would be wrong.
    const Head* best = heads_.data();
    Key least = best->key;
    for (std::size_t i = 1; i < live_; ++i) {
      const Head* h = heads_.data() + i;
      const bool less = h->key < least;
      best = less ? h : best;
      least = less ? h->key : least;
    }
    best_ = static_cast<std::size_t>(best - heads_.data());
    return best->frame;
  }
  void advance() noexcept {
    Head& h = heads_[best_];
    Cursor& c = *cursors_[h.cursor];
    c.advance();
    if (!load(h)) {
      std::swap(h, heads_[live_ - 1]);
      --live_;
    }
  }
  [[nodiscard]] const std::shared_ptr<Mapping>& mapping() const noexcept {
    return cursors_[heads_[best_].cursor]->mapping();
  }
  [[nodiscard]] std::uint32_t epoch() const noexcept { return cursors_[heads_[best_].cursor]->epoch(); }

  // The stream that cannot be read further, or null.
  [[nodiscard]] const Cursor* failed() const noexcept {
    for (const auto& c : cursors_)
      if (c->failed()) return c.get();
    return nullptr;
  }
  // At the end of all streams: whether one of them goes on behind a hole (see Cursor::look_beyond).
  [[nodiscard]] bool look_beyond() noexcept {
    bool more = false;
    for (auto& c : cursors_) more = c->look_beyond() || more;
    if (more) refresh_all();
    return live_ > 0;
  }
  [[nodiscard]] std::vector<std::unique_ptr<Cursor>>& cursors() noexcept { return cursors_; }
  void refresh_all() noexcept {
    live_ = 0;
    for (std::size_t i = 0; i < cursors_.size(); ++i) {
      Head h;
      h.cursor = i;
      if (load(h)) heads_[live_++] = h;
    }
  }

 private:
  // (epoch, gen_time, place of the stream) as one number. A place stands for the stream id: the cursors
  // are sorted by it. gen_time is CLOCK_MONOTONIC, never negative.
  __extension__ using Key = unsigned __int128;
  struct Head {
    Key key = 0;
    std::size_t cursor = 0;
    const FrameHeader* frame = nullptr;
  };
  bool load(Head& h) noexcept {
    Cursor& c = *cursors_[h.cursor];
    h.frame = c.peek();
    if (h.frame == nullptr) return false;
    // One frame ahead does not hide memory latency; frames of a stream have similar lengths. A prefetch
    // is a hint: past the end of the page it does nothing.
    const auto ahead = reinterpret_cast<std::uintptr_t>(h.frame) + 3ULL * h.frame->length;
    __builtin_prefetch(reinterpret_cast<const void*>(ahead));
    __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64));
    h.key = (static_cast<Key>(c.epoch()) << 96) |
            (static_cast<Key>(static_cast<std::uint64_t>(h.frame->gen_time)) << 32) | h.cursor;
    return true;
  }

  std::vector<std::unique_ptr<Cursor>> cursors_;
  std::vector<Head> heads_;  // [0, live_) have a frame
  std::size_t live_ = 0;
  std::size_t best_ = 0;
};

}  // namespace tapewire
