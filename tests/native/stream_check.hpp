// Frames that check themselves, and a look at a whole stream: used by every test of the journal.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "journal/cursor.hpp"
#include "journal/writer.hpp"
#include "scratch.hpp"

namespace tapewire::testing {

inline constexpr std::uint32_t kSmallPage = 64 * 1024;

[[nodiscard]] inline std::unique_ptr<StreamWriter> open_writer(const std::string& dir,
                                                               WriterOptions options = {},
                                                               std::uint64_t page_bytes = kSmallPage,
                                                               const std::string& stream = "md",
                                                               std::uint32_t stream_id = 1) {
  return std::make_unique<StreamWriter>(dir, StreamIdentity{stream, stream_id, 7, 1, page_bytes},
                                        std::move(options));
}
[[nodiscard]] inline std::unique_ptr<Cursor> open_cursor(const std::string& dir, CursorOptions options = {},
                                                         const std::string& stream = "md") {
  return std::make_unique<Cursor>(PageSource(stream, {dir}), std::move(options));
}

// The payload of frame `seq`, `bytes` long: every byte depends on both.
inline void fill_payload(std::byte* payload, std::uint32_t bytes, std::uint64_t seq) noexcept {
  std::uint64_t x = seq * 0x9E3779B97F4A7C15ULL + bytes;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL + i;
    payload[i] = static_cast<std::byte>(x >> (8 * (i % 8)));
  }
}
[[nodiscard]] inline bool payload_is_whole(const FrameHeader& f) noexcept {
  const std::uint32_t bytes = f.length - kHeaderBytes - f.pad;
  const auto* payload = reinterpret_cast<const std::byte*>(&f) + kHeaderBytes;
  std::uint64_t x = f.seq * 0x9E3779B97F4A7C15ULL + bytes;
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL + i;
    if (payload[i] != static_cast<std::byte>(x >> (8 * (i % 8)))) return false;
  }
  return true;
}

// Appends a frame that checks itself; 0: error().
inline std::uint64_t append(StreamWriter& writer, std::uint32_t bytes, const Origin& origin = {},
                            FrameType type = FrameType::kUser) noexcept {
  std::byte* payload = writer.reserve(type, bytes);
  if (payload == nullptr) return 0;
  fill_payload(payload, bytes, writer.last_seq() + 1);
  return writer.commit(origin);
}

// Reads a stream from its first page to its end: every frame whole, seqs without a gap, and every page
// but the last one ended with nothing behind. Returns how many frames there are.
inline std::uint64_t check_stream(const std::string& dir, const std::string& stream = "md") {
  const auto cursor = open_cursor(dir, {}, stream);
  std::uint64_t frames = 0;
  std::uint32_t epoch = 0;
  while (const FrameHeader* f = cursor->peek()) {
    CHECK_EQ(f->seq, ++frames);
    CHECK(payload_is_whole(*f));
    CHECK(cursor->epoch() >= epoch);
    epoch = cursor->epoch();
    cursor->advance();
  }
  if (cursor->failed()) std::fprintf(stderr, "%s\n", cursor->error().what());
  CHECK(!cursor->failed());

  const PageSource source(stream, {dir});
  const auto pages = source.pages();
  for (const auto n : pages) {
    const auto page = source.open(n);
    CHECK(page.mapping != nullptr);
    if (page.state == PageState::kPrepared) {
      CHECK_EQ(n, pages.back());
      continue;
    }
    const PageScan scan = scan_page(page.mapping->base(), page.mapping->bytes());
    const bool last = n == pages.back() || source.open(n + 1).state == PageState::kPrepared;
    const Finding want = last ? Finding::kNone : Finding::kPageEnd;
    if (scan.finding != want)
      std::fprintf(stderr, "page %llu: %s\n", static_cast<unsigned long long>(n), finding_text(scan.finding));
    CHECK(scan.finding == want);
  }
  return frames;
}

// Removes pages from `first` on that every reader has left, as a long run must; a page before the one with
// seq `slowest` is kept, because a reader may still stand in it.
inline void remove_passed_pages(const std::string& dir, std::uint64_t& first, std::uint64_t slowest,
                                const std::string& stream = "md") {
  for (;;) {
    const auto next = PageSource(stream, {dir}).open(first + 2);
    if (!next.mapping || next.state != PageState::kStarted || next.mapping->header().first_seq > slowest)
      return;
    std::filesystem::remove(dir + "/" + stream + "/" + page_name(first));
    ++first;
  }
}

// The kind of JournalError that `action` throws; CHECK fails when it throws none.
template <class Action>
[[nodiscard]] JournalError error_of(Action&& action) {
  try {
    action();
  } catch (const JournalError& e) {
    return e;
  }
  std::fprintf(stderr, "no JournalError was thrown\n");
  std::exit(1);
}

}  // namespace tapewire::testing
