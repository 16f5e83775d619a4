// CRC32C (Castagnoli, reflected polynomial 0x82F63B78; RFC 3720 appendix B.4), instruction set
// chosen once at run time: SSE4.2, the Arm CRC extension, or tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

namespace tapewire {
namespace crc_detail {

using Fn = std::uint32_t (*)(std::uint32_t, const unsigned char*, std::size_t) noexcept;

constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1U) ? (c >> 1) ^ 0x82F63B78U : c >> 1;
    t[0][i] = c;
  }
  for (std::uint32_t i = 0; i < 256; ++i)
    for (std::size_t s = 1; s < 8; ++s) t[s][i] = (t[s - 1][i] >> 8) ^ t[0][t[s - 1][i] & 0xFFU];
  return t;
}
inline constexpr auto kTables = make_tables();

inline std::uint32_t software(std::uint32_t crc, const unsigned char* p, std::size_t n) noexcept {
  while (n >= 8) {
    std::uint64_t v;
    std::memcpy(&v, p, 8);
    v ^= crc;
    crc = kTables[7][v & 0xFF] ^ kTables[6][(v >> 8) & 0xFF] ^ kTables[5][(v >> 16) & 0xFF] ^
          kTables[4][(v >> 24) & 0xFF] ^ kTables[3][(v >> 32) & 0xFF] ^ kTables[2][(v >> 40) & 0xFF] ^
          kTables[1][(v >> 48) & 0xFF] ^ kTables[0][(v >> 56) & 0xFF];
    p += 8;
    n -= 8;
  }
  while (n-- > 0) crc = (crc >> 8) ^ kTables[0][(crc ^ *p++) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) inline std::uint32_t hardware(std::uint32_t crc, const unsigned char* p,
                                                                std::size_t n) noexcept {
  std::uint64_t c = crc;
  while (n >= 8) {
    std::uint64_t v;
    std::memcpy(&v, p, 8);
    c = _mm_crc32_u64(c, v);
    p += 8;
    n -= 8;
  }
  auto c32 = static_cast<std::uint32_t>(c);
  while (n-- > 0) c32 = _mm_crc32_u8(c32, *p++);
  return c32;
}
inline Fn select() noexcept { return __builtin_cpu_supports("sse4.2") ? &hardware : &software; }
#elif defined(__aarch64__)
__attribute__((target("+crc"))) inline std::uint32_t hardware(std::uint32_t crc, const unsigned char* p,
                                                              std::size_t n) noexcept {
  while (n >= 8) {
    std::uint64_t v;
    std::memcpy(&v, p, 8);
    crc = __builtin_aarch64_crc32cx(crc, v);
    p += 8;
    n -= 8;
  }
  while (n-- > 0) crc = __builtin_aarch64_crc32cb(crc, *p++);
  return crc;
}
inline Fn select() noexcept { return (getauxval(AT_HWCAP) & HWCAP_CRC32) ? &hardware : &software; }
#else
inline Fn select() noexcept { return &software; }
#endif

inline const Fn kImpl = select();

}  // namespace crc_detail

// CRC32C of `n` bytes, continuing `crc` (0 to begin).
[[nodiscard]] inline std::uint32_t crc32c(const void* data, std::size_t n, std::uint32_t crc = 0) noexcept {
  return ~crc_detail::kImpl(~crc, static_cast<const unsigned char*>(data), n);
}

}  // namespace tapewire
