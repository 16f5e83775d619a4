// The full-depth book of one instrument, kept from price-level updates ("diffs").
//
// Each side is a vector sorted so that the touch is at the END: an update k levels from the touch moves
// k levels, and nearly all updates of a live feed are near it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "journal/format.hpp"

namespace tapewire {

class L2Book {
 public:
  // Quantities are in units of 10^-quantity_exponent, prices in 1e-9.
  explicit L2Book(unsigned quantity_exponent = 9) noexcept : quantity_exponent_(quantity_exponent) {}

  [[nodiscard]] unsigned quantity_exponent() const noexcept { return quantity_exponent_; }

  // The level at `price` now holds `quantity` in total; 0 removes it (an absent level may be removed).
  // False, and no change: price <= 0, quantity < 0 or no side. Throws only std::bad_alloc.
  [[nodiscard]] bool set(Side side, std::int64_t price, std::int64_t quantity) {
    if (price <= 0 || quantity < 0) {
      return false;
    }
    if (side == Side::kBuy) {
      put<Side::kBuy>(bids_, price, quantity);
      return true;
    }
    if (side == Side::kSell) {
      put<Side::kSell>(asks_, price, quantity);
      return true;
    }
    return false;
  }

  // `count` updates in order, the later one of a price wins. All or nothing: false leaves the book as it was.
  [[nodiscard]] bool set_all(Side side, const Level* updates, std::size_t count) {
    const auto bad = [](const Level& level) { return level.price <= 0 || level.quantity < 0; };
    if ((side != Side::kBuy && side != Side::kSell) || std::any_of(updates, updates + count, bad)) {
      return false;
    }
    if (side == Side::kBuy) {
      merge<Side::kBuy>(bids_, updates, count);
    } else {
      merge<Side::kSell>(asks_, updates, count);
    }
    return true;
  }

  void clear() noexcept {
    bids_.clear();
    asks_.clear();
  }

  // nullptr when the side is empty; valid until the next change.
  [[nodiscard]] const Level* best_bid() const noexcept { return bids_.empty() ? nullptr : &bids_.back(); }
  [[nodiscard]] const Level* best_ask() const noexcept { return asks_.empty() ? nullptr : &asks_.back(); }

  [[nodiscard]] std::size_t bid_count() const noexcept { return bids_.size(); }
  [[nodiscard]] std::size_t ask_count() const noexcept { return asks_.size(); }

  // A real book never stays so: either updates are missing or the feed is wrong.
  [[nodiscard]] bool crossed() const noexcept {
    return !bids_.empty() && !asks_.empty() && bids_.back().price >= asks_.back().price;
  }

  // The best `wanted` levels, touch first; the rest of `out` is zeroed. Returns how many there were.
  [[nodiscard]] std::size_t top_bids(Level* out, std::size_t wanted) const noexcept {
    return top(bids_, out, wanted);
  }
  [[nodiscard]] std::size_t top_asks(Level* out, std::size_t wanted) const noexcept {
    return top(asks_, out, wanted);
  }

  // Levels and counts of a Depth frame; its other fields are the caller's.
  void fill(Depth& depth) const noexcept {
    depth.bid_count = static_cast<std::uint16_t>(top_bids(depth.bids, kDepthLevels));
    depth.ask_count = static_cast<std::uint16_t>(top_asks(depth.asks, kDepthLevels));
  }

 private:
  using Levels = std::vector<Level>;

  // True when `a` is further from the touch than `b`, that is, stands before it in the vector.
  template <Side kSide>
  [[nodiscard]] static bool deeper(std::int64_t a, std::int64_t b) noexcept {
    return kSide == Side::kBuy ? a < b : a > b;
  }

  // The first level that is not deeper than `price`.
  template <Side kSide>
  [[nodiscard]] static Levels::iterator find(Levels& levels, std::int64_t price) noexcept {
    constexpr int kLinear = 8;  // the touch and its neighbours, without a mispredicted search
    auto end = levels.end();
    for (int i = 0; i < kLinear && end != levels.begin(); ++i) {
      if (deeper<kSide>((end - 1)->price, price)) {
        return end;
      }
      --end;
    }
    return std::lower_bound(levels.begin(), end, price, [](const Level& level, std::int64_t wanted) {
      return deeper<kSide>(level.price, wanted);
    });
  }

  template <Side kSide>
  static void put(Levels& levels, std::int64_t price, std::int64_t quantity) {
    const auto at = find<kSide>(levels, price);
    const bool present = at != levels.end() && at->price == price;
    if (quantity == 0) {
      if (present) {
        levels.erase(at);
      }
    } else if (present) {
      at->quantity = quantity;
    } else {
      levels.insert(at, Level{price, quantity});
    }
  }

  template <Side kSide>
  static void merge(Levels& levels, const Level* updates, std::size_t count) {
    if (!levels.empty()) {
      for (std::size_t i = 0; i < count; ++i) {
        put<kSide>(levels, updates[i].price, updates[i].quantity);
      }
      return;
    }
    // A snapshot lists the touch first: inserted one by one each level would move all before it.
    levels.assign(updates, updates + count);
    std::stable_sort(levels.begin(), levels.end(),
                     [](const Level& a, const Level& b) { return deeper<kSide>(a.price, b.price); });
    auto kept = levels.begin();
    for (auto at = levels.begin(); at != levels.end(); ++at) {
      const bool superseded = at + 1 != levels.end() && (at + 1)->price == at->price;
      if (!superseded && at->quantity != 0) {
        *kept++ = *at;
      }
    }
    levels.erase(kept, levels.end());
  }

  [[nodiscard]] static std::size_t top(const Levels& levels, Level* out, std::size_t wanted) noexcept {
    const std::size_t count = std::min(wanted, levels.size());
    const auto best = std::reverse_copy(levels.end() - static_cast<std::ptrdiff_t>(count), levels.end(), out);
    std::fill(best, out + wanted, Level{});
    return count;
  }

  Levels bids_;  // ascending price
  Levels asks_;  // descending price
  unsigned quantity_exponent_;
};

}  // namespace tapewire
