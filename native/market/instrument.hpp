// An instrument as native code needs it, and exact money arithmetic.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "journal/format.hpp"

namespace tapewire {

__extension__ using int128 = __int128;

struct Instrument {
  std::uint32_t id = 0;
  std::int64_t tick = 1;
  std::int64_t lot = 1;
  std::int64_t maker_fee = 0;  // fraction of the notional, in units of 1e-9
  std::int64_t taker_fee = 0;
  std::uint32_t quantity_exponent = 9;
};

// Instruments by id: ids are 1 .. n, so a lookup is an index.
class InstrumentTable {
 public:
  explicit InstrumentTable(const std::vector<Instrument>& all) {
    for (const auto& i : all) {
      if (i.id >= by_id_.size()) by_id_.resize(i.id + 1);
      by_id_[i.id] = i;
    }
  }
  [[nodiscard]] const Instrument* find(std::uint32_t id) const noexcept {
    return id < by_id_.size() && by_id_[id].id == id && id != 0 ? &by_id_[id] : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return by_id_.size(); }

 private:
  std::vector<Instrument> by_id_;
};

[[nodiscard]] constexpr std::int64_t power_of_ten(std::uint32_t exponent) noexcept {
  std::int64_t p = 1;
  for (std::uint32_t i = 0; i < exponent && i < 18; ++i) p *= 10;
  return p;
}

// value / divisor to the nearest, halves away from zero.
[[nodiscard]] constexpr int128 divide_nearest(int128 value, int128 divisor) noexcept {
  const int128 half = divisor / 2;
  return value >= 0 ? (value + half) / divisor : (value - half) / divisor;
}
[[nodiscard]] constexpr std::optional<std::int64_t> narrow(int128 v) noexcept {
  if (v > std::numeric_limits<std::int64_t>::max() || v < std::numeric_limits<std::int64_t>::min())
    return std::nullopt;
  return static_cast<std::int64_t>(v);
}

// price × quantity in 1e-9 quote currency; none: does not fit in 64 bits.
[[nodiscard]] inline std::optional<std::int64_t> notional(const Instrument& i, std::int64_t price,
                                                          std::int64_t quantity) noexcept {
  return narrow(divide_nearest(static_cast<int128>(price) * quantity, power_of_ten(i.quantity_exponent)));
}
[[nodiscard]] inline std::int64_t fee(std::int64_t notional_value, std::int64_t rate) noexcept {
  // |rate| <= 1e9 is checked at configuration, so the fee is never larger than the notional.
  return static_cast<std::int64_t>(divide_nearest(static_cast<int128>(notional_value) * rate, 1'000'000'000));
}

}  // namespace tapewire
