// Several live streams in arrival order, causes first: a frame whose cause or root lies in a
// subscribed stream is not delivered before that one. So a gateway never sees an order before the
// market data that led to it, whichever stream it happens to look at first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "journal/cursor.hpp"

namespace tapewire {

class LiveMux {
 public:
  explicit LiveMux(std::vector<std::unique_ptr<Cursor>> cursors) : cursors_(std::move(cursors)) {
    by_stream_.fill(nullptr);
    for (auto& c : cursors_) by_stream_[c->stream_id() % kMaxStreams] = c.get();
  }

  // The cursor whose next frame is to be dispatched, or null when nothing is there.
  [[nodiscard]] Cursor* poll() noexcept {
    const std::size_t n = cursors_.size();
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t i = turn_ + k < n ? turn_ + k : turn_ + k - n;
      if (cursors_[i]->peek() == nullptr) continue;
      turn_ = i + 1 < n ? i + 1 : 0;
      return causes_first(cursors_[i].get());
    }
    return nullptr;
  }

  [[nodiscard]] const Cursor* failed() const noexcept {
    for (const auto& c : cursors_)
      if (c->failed()) return c.get();
    return nullptr;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<Cursor>>& cursors() const noexcept { return cursors_; }

 private:
  [[nodiscard]] Cursor* causes_first(Cursor* chosen) const noexcept {
    // Causes form no cycle; the bound only guards against a corrupt record.
    for (std::size_t step = 0; step <= cursors_.size(); ++step) {
      const FrameHeader* f = chosen->peek();
      Cursor* earlier = undelivered(f->root_stream, f->root_seq);
      if (earlier == nullptr) earlier = undelivered(f->cause_stream, f->cause_seq);
      if (earlier == nullptr || earlier == chosen) return chosen;
      chosen = earlier;
    }
    return chosen;
  }
  [[nodiscard]] Cursor* undelivered(std::uint16_t stream, std::uint64_t seq) const noexcept {
    if (stream == 0) return nullptr;
    Cursor* c = by_stream_[stream % kMaxStreams];
    if (c == nullptr || c->next_seq() > seq || c->peek() == nullptr) return nullptr;
    return c;
  }

  std::vector<std::unique_ptr<Cursor>> cursors_;
  std::array<Cursor*, kMaxStreams> by_stream_;
  std::size_t turn_ = 0;
};

}  // namespace tapewire
