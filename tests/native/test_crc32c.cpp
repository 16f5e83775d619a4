// CRC32C: the examples of RFC 3720 appendix B.4, and both implementations against each other.
#include <array>
#include <random>
#include <vector>

#include "check.hpp"
#include "journal/crc32c.hpp"
#include "scratch.hpp"

using namespace tapewire;

namespace {

// One bit at a time, straight from the definition.
std::uint32_t bitwise(const unsigned char* p, std::size_t n, std::uint32_t crc) {
  crc = ~crc;
  for (std::size_t i = 0; i < n; ++i) {
    crc ^= p[i];
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

void known_vectors() {
  std::array<unsigned char, 32> zeros{}, ones{}, up{}, down{};
  ones.fill(0xFF);
  for (unsigned i = 0; i < 32; ++i) {
    up[i] = static_cast<unsigned char>(i);
    down[i] = static_cast<unsigned char>(31 - i);
  }
  const std::array<unsigned char, 48> iscsi_read = {
      0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0};
  CHECK_EQ(crc32c(zeros.data(), zeros.size()), 0x8A9136AAU);
  CHECK_EQ(crc32c(ones.data(), ones.size()), 0x62A8AB43U);
  CHECK_EQ(crc32c(up.data(), up.size()), 0x46DD794EU);
  CHECK_EQ(crc32c(down.data(), down.size()), 0x113FDB5CU);
  CHECK_EQ(crc32c(iscsi_read.data(), iscsi_read.size()), 0xD9963A56U);
  CHECK_EQ(crc32c("123456789", 9), 0xE3069283U);
  CHECK_EQ(crc32c("", 0), 0U);
}

void software_equals_hardware() {
  std::mt19937_64 random(testing::seed());
  std::vector<unsigned char> bytes(4096 + 64);
  for (auto& b : bytes) b = static_cast<unsigned char>(random());
  std::uint64_t compared = 0;
  // Every length and alignment that the 8-byte steps can meet, then longer ones.
  for (std::size_t at = 0; at < 16; ++at) {
    for (std::size_t n = 0; n < 200; ++n) {
      const auto from = static_cast<std::uint32_t>(random());
      const std::uint32_t want = bitwise(&bytes[at], n, from);
      CHECK_EQ(~crc_detail::software(~from, &bytes[at], n), want);
      CHECK_EQ(crc32c(&bytes[at], n, from), want);
      ++compared;
    }
  }
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t at = random() % 64;
    const std::size_t n = random() % 4096;
    CHECK_EQ(~crc_detail::software(~0U, &bytes[at], n), crc32c(&bytes[at], n));
    ++compared;
  }
  std::printf("crc32c: %s path, %llu inputs equal to the software path\n",
              crc_detail::kImpl == &crc_detail::software ? "software" : "hardware",
              static_cast<unsigned long long>(compared));
}

void continues() {
  const std::string text = "a frame's CRC covers its length, then what follows the commit word";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    CHECK_EQ(crc32c(text.data() + cut, text.size() - cut, crc32c(text.data(), cut)),
             crc32c(text.data(), text.size()));
}

}  // namespace

int main() {
  known_vectors();
  software_equals_hardware();
  continues();
}
