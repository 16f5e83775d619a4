// An event as Python sees it: a frame's header and payload by value, so that a strategy may keep it.
#pragma once

#include <cstdint>
#include <cstring>

#include "journal/format.hpp"

namespace tapewire::bindings {

template <class Payload>
struct Event {
  FrameHeader header;
  Payload payload;
  std::uint32_t quantity_exponent;

  Event(const FrameHeader& h, std::uint32_t exponent) noexcept : header(h), quantity_exponent(exponent) {
    std::memcpy(&payload, reinterpret_cast<const std::byte*>(&h) + kHeaderBytes, sizeof payload);
  }
};

// One side's price and quantity.
struct LevelView {
  std::int64_t price;
  std::int64_t quantity;
  std::uint32_t quantity_exponent;
};

}  // namespace tapewire::bindings
