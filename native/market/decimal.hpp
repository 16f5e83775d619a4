// Decimal text to a fixed-point integer, exactly: nothing is rounded and no float is involved.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapewire {

enum class DecimalError : std::uint8_t {
  kNone = 0,
  kGarbage,   // not  [-] digits [. digits]
  kOverflow,  // does not fit int64 at this exponent
  kTooFine,   // a non-zero digit past the exponent: the value is not a multiple of the unit
  kExponent,  // exponent outside 0 .. kMaxDecimalExponent
};

inline constexpr unsigned kMaxDecimalExponent = 18;  // 10^18 is the largest power of ten in an int64

[[nodiscard]] constexpr const char* describe(DecimalError error) noexcept {
  switch (error) {
    case DecimalError::kNone:
      return "ok";
    case DecimalError::kGarbage:
      return "not a plain decimal number";
    case DecimalError::kOverflow:
      return "too large for 64 bits";
    case DecimalError::kTooFine:
      return "has more decimal places than the exponent allows";
    case DecimalError::kExponent:
      return "exponent must be 0 .. 18";
  }
  return "unknown";
}

// value = text * 10^exponent. `*value` is written only on kNone.
// Trailing zeros past the exponent are fine ("0.10" at exponent 1 is 1), other digits there are not.
// INT64_MIN is refused as overflow: every accepted value can be negated.
[[nodiscard]] constexpr DecimalError parse_decimal(const char* text, std::size_t length, unsigned exponent,
                                                   std::int64_t* value) noexcept {
  if (exponent > kMaxDecimalExponent) {
    return DecimalError::kExponent;
  }
  const char* at = text;
  const char* const end = text + length;
  const bool negative = at != end && *at == '-';
  at += negative ? 1 : 0;

  constexpr std::int64_t kLargest = INT64_MAX;
  std::int64_t total = 0;
  unsigned decimals = 0;  // digits after the point already in `total`
  bool after_point = false;
  bool overflow = false;
  bool too_fine = false;
  std::size_t digits = 0;  // in the current part, so that "1." and ".5" are garbage
  for (; at != end; ++at) {
    if (*at == '.' && !after_point && digits != 0) {
      after_point = true;
      digits = 0;
      continue;
    }
    const auto digit = static_cast<unsigned>(*at) - '0';
    if (digit > 9) {
      return DecimalError::kGarbage;
    }
    ++digits;
    if (after_point && decimals == exponent) {
      too_fine |= digit != 0;
      continue;
    }
    decimals += after_point ? 1 : 0;
    if (total > (kLargest - static_cast<std::int64_t>(digit)) / 10) {
      overflow = true;  // keep going: garbage further on is the more useful message
      total = 0;
    }
    total = total * 10 + static_cast<std::int64_t>(digit);
  }
  if (digits == 0) {
    return DecimalError::kGarbage;
  }
  for (; decimals < exponent && !overflow; ++decimals) {
    overflow = total > kLargest / 10;
    total = overflow ? 0 : total * 10;
  }
  if (overflow) {
    return DecimalError::kOverflow;
  }
  if (too_fine) {
    return DecimalError::kTooFine;
  }
  *value = negative ? -total : total;
  return DecimalError::kNone;
}

}  // namespace tapewire
