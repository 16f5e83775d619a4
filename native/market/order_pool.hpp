// Open orders of the simulated venue: a fixed pool of nodes and a hash from order id to node. Nothing
// is allocated after construction.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "journal/format.hpp"

namespace tapewire {

inline constexpr std::uint32_t kNoNode = UINT32_MAX;

struct OpenOrder {
  std::uint64_t order_id = 0;
  std::int64_t price = 0;
  std::int64_t quantity = 0;
  std::int64_t filled = 0;
  std::uint32_t instrument_id = 0;
  std::uint16_t strategy_stream = 0;
  Side side = Side::kNone;
  bool used = false;
  std::uint32_t previous = kNoNode;  // in its side's queue, best price and earliest first
  std::uint32_t next = kNoNode;

  [[nodiscard]] std::int64_t leaves() const noexcept { return quantity - filled; }
};

class OrderPool {
 public:
  explicit OrderPool(std::uint32_t capacity)
      : nodes_(capacity), slots_(std::bit_ceil(2ULL * capacity + 2), kNoNode) {
    free_.reserve(capacity);
    for (std::uint32_t i = capacity; i > 0; --i) free_.push_back(i - 1);
  }
  [[nodiscard]] bool full() const noexcept { return free_.empty(); }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(nodes_.size() - free_.size());
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] OpenOrder& operator[](std::uint32_t i) noexcept { return nodes_[i]; }

  [[nodiscard]] std::uint32_t add(std::uint64_t order_id) noexcept {
    if (free_.empty()) return kNoNode;
    const std::uint32_t i = free_.back();
    free_.pop_back();
    nodes_[i] = OpenOrder{};
    nodes_[i].order_id = order_id;
    nodes_[i].used = true;
    std::size_t s = home(order_id);
    while (slots_[s] != kNoNode) s = (s + 1) & mask();
    slots_[s] = i;
    return i;
  }
  [[nodiscard]] std::uint32_t find(std::uint64_t order_id) const noexcept {
    for (std::size_t s = home(order_id); slots_[s] != kNoNode; s = (s + 1) & mask())
      if (nodes_[slots_[s]].order_id == order_id) return slots_[s];
    return kNoNode;
  }
  void remove(std::uint32_t node) noexcept {
    std::size_t s = home(nodes_[node].order_id);
    while (slots_[s] != node) s = (s + 1) & mask();
    // Close the hole: move back whatever would no longer be found past it.
    std::size_t hole = s;
    for (std::size_t i = (s + 1) & mask(); slots_[i] != kNoNode; i = (i + 1) & mask()) {
      const std::size_t h = home(nodes_[slots_[i]].order_id);
      if (((i - h) & mask()) >= ((i - hole) & mask())) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = kNoNode;
    nodes_[node].used = false;
    free_.push_back(node);
  }

 private:
  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  [[nodiscard]] std::size_t home(std::uint64_t id) const noexcept {
    return static_cast<std::size_t>((id * 0x9E3779B97F4A7C15ULL) >> 20) & mask();
  }

  std::vector<OpenOrder> nodes_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tapewire
