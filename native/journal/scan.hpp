// The one scan routine: the longest valid prefix of a page, and why it ended. Serves the writer's
// recovery, readers that verify, `journal verify` and tests.
#pragma once

#include <cstdint>
#include <string>

#include "journal/page.hpp"

namespace tapewire {

enum class Finding : std::uint8_t {
  kNone,         // ends where the writer is: a zero commit word
  kPageEnd,      // complete: ends with an end-of-page frame
  kBadLength,    // commit word holds an impossible length
  kBadCrc,       // frame bytes do not match their CRC
  kBadSeq,       // seq is not the next one
  kBadStream,    // frame of another stream
  kBadPadding,   // reserved or padding bytes are not zero
  kTruncated,    // the file is shorter than the frame or the page
  kTailNotZero,  // bytes after the end-of-page frame
};
[[nodiscard]] constexpr const char* finding_text(Finding f) noexcept {
  switch (f) {
    case Finding::kNone:
      return "open tail";
    case Finding::kPageEnd:
      return "complete page";
    case Finding::kBadLength:
      return "commit word holds an impossible length";
    case Finding::kBadCrc:
      return "frame fails its CRC";
    case Finding::kBadSeq:
      return "sequence number is not the next one";
    case Finding::kBadStream:
      return "frame names another stream";
    case Finding::kBadPadding:
      return "padding is not zero";
    case Finding::kTruncated:
      return "file is cut off";
    case Finding::kTailNotZero:
      return "bytes after the end-of-page frame";
  }
  return "unknown";
}

// The frame at `at`, whose commit word was read as `word`, checked within `limit` bytes.
// The CRC is checked when `crc` is set.
[[nodiscard]] inline Finding check_frame(const std::byte* base, std::uint64_t at, std::uint64_t word,
                                         std::uint64_t limit, std::uint64_t page_bytes, bool crc) noexcept {
  const auto length = static_cast<std::uint32_t>(word);
  if (length < kHeaderBytes || length % kFrameAlign != 0 || length > page_bytes - at)
    return Finding::kBadLength;
  if (length > limit - at) return Finding::kTruncated;
  const auto& f = *reinterpret_cast<const FrameHeader*>(base + at);
  if (crc) {
    const std::uint32_t c = crc32c(base + at + 8, length - 8, crc32c(&length, 4));
    if (c != static_cast<std::uint32_t>(word >> 32)) return Finding::kBadCrc;
    if (f.pad >= kFrameAlign || f.pad > length - kHeaderBytes || f.reserved0 != 0 || f.reserved1 != 0)
      return Finding::kBadPadding;
    for (std::uint32_t i = 0; i < f.pad; ++i)
      if (base[at + length - 1 - i] != std::byte{0}) return Finding::kBadPadding;
  }
  return Finding::kNone;
}

struct PageScan {
  std::uint64_t valid_end = kPageHeaderBytes;  // offset after the last valid frame (before a page end)
  std::uint64_t next_seq = 0;                  // seq that would come next
  std::uint64_t frames = 0;
  std::int64_t last_time = 0;
  Finding finding = Finding::kNone;
  std::uint64_t at = kPageHeaderBytes;  // where the finding is
};

// `base` is a started page whose header was checked; `bytes` is what the file holds of it.
[[nodiscard]] inline PageScan scan_page(const std::byte* base, std::uint64_t bytes) noexcept {
  const auto& h = *reinterpret_cast<const PageHeader*>(base);
  PageScan s;
  s.next_seq = h.first_seq;
  std::uint64_t at = kPageHeaderBytes;
  for (;;) {
    s.at = at;
    if (at + 8 > bytes) {
      s.finding = at >= h.page_bytes ? Finding::kBadLength : Finding::kTruncated;
      return s;
    }
    const std::uint64_t word = load_word(base + at);
    if (word == 0) {
      s.finding = bytes < h.page_bytes ? Finding::kTruncated : Finding::kNone;
      return s;
    }
    const Finding f = check_frame(base, at, word, bytes, h.page_bytes, true);
    if (f != Finding::kNone) {
      s.finding = f;
      return s;
    }
    const auto& frame = *reinterpret_cast<const FrameHeader*>(base + at);
    if (frame.stream_id != h.stream_id) {
      s.finding = Finding::kBadStream;
      return s;
    }
    if (frame.seq != s.next_seq) {
      s.finding = Finding::kBadSeq;
      return s;
    }
    at += static_cast<std::uint32_t>(word);
    if (frame.type == static_cast<std::uint16_t>(FrameType::kPageEnd)) {
      s.finding = bytes < h.page_bytes ? Finding::kTruncated : Finding::kPageEnd;
      for (std::uint64_t i = at; i < bytes; ++i) {
        if (base[i] != std::byte{0}) {
          s.finding = Finding::kTailNotZero;
          s.at = i;
          break;
        }
      }
      return s;
    }
    s.valid_end = at;
    s.last_time = frame.gen_time;
    ++s.next_seq;
    ++s.frames;
  }
}

}  // namespace tapewire
