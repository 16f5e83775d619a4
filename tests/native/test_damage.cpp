// A damaged page: cut off at every byte, every bit flipped, bytes at random. Never a crash, never a frame
// that was not written; what is returned is the longest valid prefix.
#include <random>
#include <set>

#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

const std::byte* bytes_of(const std::string& page) { return reinterpret_cast<const std::byte*>(page.data()); }

// Where each frame of the undamaged page ends; the last entry is the page_end's.
struct Frames {
  std::vector<std::uint64_t> ends;
  std::uint64_t committed = 0;

  explicit Frames(const std::string& page) {
    const PageScan s = scan_page(bytes_of(page), page.size());
    CHECK(s.finding == Finding::kPageEnd);
    for (std::uint64_t at = kPageHeaderBytes; at < s.valid_end + kPageEndBytes;) {
      at += reinterpret_cast<const FrameHeader*>(page.data() + at)->length;
      ends.push_back(at);
    }
    CHECK_EQ(ends.size(), s.frames + 1);
    committed = ends.back();
  }
  // Frames that lie wholly before `at`, the page_end not counted.
  [[nodiscard]] std::uint64_t before(std::uint64_t at) const {
    std::uint64_t n = 0;
    while (n + 1 < ends.size() && ends[n] <= at) ++n;
    return n;
  }
};

// The bytes alone, in a block of their exact size: the address sanitizer sees a read beyond it.
struct Exact {
  explicit Exact(const std::string& bytes, std::size_t n)
      : size(n), data(static_cast<std::byte*>(std::malloc(n))) {
    CHECK(data != nullptr);
    std::memcpy(data, bytes.data(), n);
  }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  ~Exact() { std::free(data); }
  std::size_t size;
  std::byte* data;
};

void cut_off_at_every_byte(const std::string& page, const Frames& frames) {
  std::uint64_t refused = 0;
  std::uint64_t prefixes = 0;
  // Sanitized builds: every byte of what is committed, every 64th of the zeros behind it.
  for (std::size_t n = kPageHeaderBytes; n <= page.size(); n += kSanitized && n > frames.committed ? 64 : 1) {
    const Exact cut(page, n);
    CHECK(check_page_header(cut.data, n, "page", 1) == PageState::kStarted);
    const PageScan s = scan_page(cut.data, n);
    CHECK_EQ(s.frames, frames.before(n));
    CHECK_EQ(s.next_seq, s.frames + 1);
    CHECK(s.finding == (n < page.size() ? Finding::kTruncated : Finding::kPageEnd));
    ++prefixes;
  }
  const Scratch scratch;
  const std::string path = scratch.path() + "/00000001.page";
  for (std::size_t n = 0; n < kPageHeaderBytes; ++n) {
    write_file(path, page.substr(0, n));
    CHECK(error_of([&] { (void)map_page_for_reading(path); }).kind == ErrorKind::kNotAJournal);
    ++refused;
  }
  std::printf("cut off: %llu lengths, %llu too short for a header and refused, %llu longest valid prefixes\n",
              static_cast<unsigned long long>(refused + prefixes), static_cast<unsigned long long>(refused),
              static_cast<unsigned long long>(prefixes));
}

void every_bit_flipped(const std::string& page, const Frames& frames) {
  Exact flipped(page, page.size());
  std::uint64_t flips = 0;
  std::uint64_t detected = 0;
  std::uint64_t false_accepts = 0;
  for (std::uint64_t bit = 0; bit < frames.committed * 8; ++bit) {
    const std::uint64_t at = bit / 8;
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    flipped.data[at] ^= mask;
    ++flips;
    try {
      CHECK(check_page_header(flipped.data, flipped.size, "page", 1) == PageState::kStarted);
      const PageScan s = scan_page(flipped.data, flipped.size);
      // The frames before the flipped one, and no more.
      if (at >= kPageHeaderBytes && s.frames == frames.before(at))
        ++detected;
      else
        ++false_accepts;
      CHECK(s.finding != Finding::kNone && s.finding != Finding::kPageEnd);
    } catch (const JournalError& e) {
      CHECK(at < kPageHeaderBytes);
      const bool named = at < 8 ? e.kind == ErrorKind::kNotAJournal
                                : (at < 12 ? e.kind == ErrorKind::kVersion : e.kind == ErrorKind::kCorrupt);
      CHECK(named);
      ++detected;
    }
    flipped.data[at] ^= mask;
  }
  std::printf("bit flips: %llu over header and committed bytes, detected %llu, false accepts %llu\n",
              static_cast<unsigned long long>(flips), static_cast<unsigned long long>(detected),
              static_cast<unsigned long long>(false_accepts));
  CHECK_EQ(detected, flips);
  CHECK_EQ(false_accepts, 0U);
}

// Anything may stand behind the last frame or replace any of them.
void random_bytes(const std::string& page, const Frames& frames) {
  std::mt19937_64 random(seed());
  const std::uint64_t rounds = (kSanitized ? 2'000 : 20'000) * stress_factor();
  Exact damaged(page, page.size());
  std::set<Finding> findings;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t at = kPageHeaderBytes + random() % (frames.committed + 256 - kPageHeaderBytes);
    const std::uint64_t n = 1 + random() % 64;
    for (std::uint64_t i = at; i < at + n; ++i) {
      // Zeros, small numbers and whole words are likelier to pass a check than noise.
      const std::uint64_t kind = random() % 4;
      damaged.data[i] = static_cast<std::byte>(kind == 0 ? 0 : (kind == 1 ? random() % 64 : random()));
    }
    const PageScan s = scan_page(damaged.data, damaged.size);
    findings.insert(s.finding);
    CHECK(s.valid_end <= damaged.size);
    CHECK(std::memcmp(damaged.data, page.data(), std::min<std::uint64_t>(s.valid_end, at)) == 0);
    // Past the damage only if it wrote what was there.
    if (s.valid_end > at) CHECK(std::memcmp(damaged.data, page.data(), s.valid_end) == 0);
    std::memcpy(damaged.data + at, page.data() + at, n);
  }
  std::printf("random bytes: %llu rounds, %zu different findings, false accepts 0\n",
              static_cast<unsigned long long>(rounds), findings.size());
}

// Readers on such files: the fast one, that checks no CRC, may return wrong bytes but must stay inside.
void readers_on_damaged_files(const std::string& page, const Frames& frames) {
  std::mt19937_64 random(seed() + 1);
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() + "/md");
  const std::string path = scratch.path() + "/md/00000001.page";
  const std::uint64_t rounds = (kSanitized ? 300 : 2'000) * stress_factor();
  std::uint64_t failed = 0;
  std::uint64_t whole = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::string bytes = page;
    const std::uint64_t at = kPageHeaderBytes + random() % (frames.committed - kPageHeaderBytes);
    bytes[at] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(kPageHeaderBytes + random() % (bytes.size() - kPageHeaderBytes));
    write_file(path, bytes);
    for (const bool verify : {true, false}) {
      const auto cursor = open_cursor(scratch.path(), CursorOptions{verify, true, nullptr});
      std::uint64_t n = 0;
      std::uint64_t sum = 0;
      while (const FrameHeader* f = cursor->peek()) {
        const auto* raw = reinterpret_cast<const unsigned char*>(f);
        for (std::uint32_t i = 0; i < f->length; ++i) sum += raw[i];
        ++n;
        cursor->advance();
      }
      CHECK(n <= frames.ends.size() && sum != 1);
      if (verify) {
        CHECK(n >= frames.before(std::min<std::uint64_t>(at, bytes.size())));
        if (cursor->failed())
          ++failed;
        else
          ++whole;
      }
    }
  }
  std::printf("damaged files: %llu read twice, %llu reported, %llu unchanged where it counts, crashes 0\n",
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(whole));
}

// The findings by name, each from the one change that must lead to it.
void each_finding() {
  const Scratch scratch;
  {
    auto writer = open_writer(scratch.path());
    for (int i = 0; i < 5; ++i) CHECK(append(*writer, 20) != 0);
  }
  const std::string page = read_file(scratch.path() + "/md/00000001.page");
  const std::uint64_t third = kPageHeaderBytes + 2 * 80;
  auto finding = [&](auto&& change) {
    std::string bytes = page;
    auto& f = *reinterpret_cast<FrameHeader*>(bytes.data() + third);
    const bool seal = change(f, bytes);
    if (seal) f.crc = crc32c(&f.seq, f.length - 8, crc32c(&f.length, 4));
    const PageScan s = scan_page(bytes_of(bytes), bytes.size());
    CHECK_EQ(s.frames, 2U);
    CHECK_EQ(s.at, third);
    return s.finding;
  };
  using B = std::string;
  CHECK(finding([](FrameHeader& f, B&) {
          f.length = 8;
          return false;
        }) == Finding::kBadLength);
  CHECK(finding([](FrameHeader& f, B&) {
          f.length = 57;
          return false;
        }) == Finding::kBadLength);
  CHECK(finding([](FrameHeader& f, B&) {
          f.length = kSmallPage;
          return false;
        }) == Finding::kBadLength);
  CHECK(finding([](FrameHeader& f, B&) {
          f.length = 0xFFFFFFF8U;
          return false;
        }) == Finding::kBadLength);
  CHECK(finding([](FrameHeader& f, B&) {
          f.gen_time ^= 1;
          return false;
        }) == Finding::kBadCrc);
  CHECK(finding([](FrameHeader& f, B&) {
          f.seq += 1;
          return true;
        }) == Finding::kBadSeq);
  CHECK(finding([](FrameHeader& f, B&) {
          f.stream_id = 2;
          return true;
        }) == Finding::kBadStream);
  CHECK(finding([](FrameHeader& f, B&) {
          f.pad = 8;
          return true;
        }) == Finding::kBadPadding);
  CHECK(finding([](FrameHeader& f, B&) {
          f.pad = 5;
          return true;
        }) == Finding::kBadPadding);
  CHECK(finding([](FrameHeader& f, B&) {
          f.reserved0 = 1;
          return true;
        }) == Finding::kBadPadding);
  CHECK(finding([](FrameHeader& f, B&) {
          f.reserved1 = 1;
          return true;
        }) == Finding::kBadPadding);
  CHECK(finding([](FrameHeader&, B& b) {
          b[third + 79] = 1;
          return true;
        }) == Finding::kBadPadding);
}

}  // namespace

int main() {
  const std::string page = read_file(golden_page("clean"));
  const Frames frames(page);
  cut_off_at_every_byte(page, frames);
  every_bit_flipped(page, frames);
  random_bytes(page, frames);
  readers_on_damaged_files(page, frames);
  each_finding();
}
