// The writer of a stream: what is visible, how pages fill, what is refused.
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

std::uint64_t used(const std::string& dir, std::uint64_t page) {
  const auto opened = PageSource("md", {dir}).open(page);
  return scan_page(opened.mapping->base(), opened.mapping->bytes()).valid_end;
}

// A frame as the writer would publish it: right in every field.
void forge(std::byte* at, std::uint64_t seq) {
  auto& f = *reinterpret_cast<FrameHeader*>(at);
  f = FrameHeader{};
  f.length = kHeaderBytes;
  f.seq = seq;
  f.type = static_cast<std::uint16_t>(FrameType::kText);
  f.schema = 1;
  f.stream_id = 1;
  f.crc = crc32c(at + 8, kHeaderBytes - 8, crc32c(&f.length, 4));
}

void abandoned_reserve_is_never_visible() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  const auto cursor = open_cursor(scratch.path());
  for (std::uint32_t round = 0; round < 2000; ++round) {
    // The abandoned room is full of frames that would pass every check where the next ones begin.
    std::byte* junk = writer->reserve(FrameType::kUser, 2048);
    CHECK(junk != nullptr);
    for (std::uint32_t at = 0; at + kHeaderBytes <= 2048; at += 8) forge(junk + at, writer->last_seq() + 2);
    CHECK(cursor->peek() == nullptr);
    CHECK(append(*writer, round % 97) == round + 1);
    const FrameHeader* f = cursor->peek();
    CHECK(f != nullptr && f->seq == round + 1 && payload_is_whole(*f));
    cursor->advance();
    CHECK(cursor->peek() == nullptr && !cursor->failed());
  }
  CHECK(writer->page_rolls() > 2);
  writer.reset();
  CHECK_EQ(check_stream(scratch.path()), 2000U);
}

void commit_without_reserve_is_nothing() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  CHECK_EQ(writer->commit(), 0U);
  CHECK_EQ(append(*writer, 8), 1U);
  CHECK_EQ(writer->commit(), 0U);
  CHECK_EQ(writer->last_seq(), 1U);
  CHECK_EQ(check_stream(scratch.path()), 1U);
}

void padding_is_zero() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  const auto cursor = open_cursor(scratch.path());
  for (std::uint32_t bytes = 0; bytes <= 64; ++bytes) {
    std::byte* junk = writer->reserve(FrameType::kUser, 512);
    std::memset(junk, 0xFF, 512);
    CHECK(append(*writer, bytes) != 0);
    const FrameHeader* f = cursor->peek();
    CHECK(f != nullptr);
    CHECK_EQ(f->length % 8, 0U);
    CHECK_EQ(f->length, padded(kHeaderBytes + bytes));
    CHECK_EQ(f->length - kHeaderBytes - f->pad, bytes);
    for (std::uint32_t i = 0; i < f->pad; ++i)
      CHECK(reinterpret_cast<const std::byte*>(f)[f->length - 1 - i] == std::byte{0});
    cursor->advance();
  }
}

// The last frame leaves exactly the end-of-page frame's room, or 8 to 64 bytes more.
void frames_fill_a_page_exactly() {
  for (std::uint32_t left = 0; left <= 64; left += 8) {
    const Scratch scratch;
    auto writer = open_writer(scratch.path());
    const std::uint32_t room = kSmallPage - kPageHeaderBytes - kPageEndBytes - left;
    const std::uint32_t first = room / 2 / 8 * 8;
    CHECK_EQ(append(*writer, first - kHeaderBytes), 1U);
    CHECK_EQ(append(*writer, room - first - kHeaderBytes), 2U);
    CHECK_EQ(writer->page_rolls(), 0U);
    CHECK_EQ(used(scratch.path(), 1), kSmallPage - kPageEndBytes - left);
    const bool fits = left >= kHeaderBytes;
    CHECK_EQ(append(*writer, 0), 3U);
    CHECK_EQ(writer->page_rolls(), fits ? 0U : 1U);
    CHECK_EQ(append(*writer, 16), 4U);
    CHECK_EQ(writer->page_rolls(), 1U);
    writer.reset();
    CHECK_EQ(check_stream(scratch.path()), 4U);
  }
}

void frame_too_large() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  CHECK_EQ(writer->max_payload(), kSmallPage - 128 - 56 - 56);
  for (const std::uint32_t bytes :
       {writer->max_payload() + 1, writer->max_payload() + 8, UINT32_MAX / 2, UINT32_MAX}) {
    CHECK(writer->reserve(FrameType::kUser, bytes) == nullptr);
    CHECK(writer->error().kind == ErrorKind::kFrameTooLarge);
    CHECK_EQ(writer->commit(), 0U);
  }
  CHECK_EQ(writer->last_seq(), 0U);
  CHECK_EQ(writer->page_rolls(), 0U);
  // The largest one takes a page of its own.
  CHECK_EQ(append(*writer, writer->max_payload()), 1U);
  CHECK_EQ(append(*writer, writer->max_payload()), 2U);
  CHECK_EQ(append(*writer, writer->max_payload() - 7), 3U);
  CHECK_EQ(writer->page_rolls(), 2U);
  writer.reset();
  CHECK_EQ(check_stream(scratch.path()), 3U);
}

void one_writer_at_a_time() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  CHECK_EQ(append(*writer, 8), 1U);
  const JournalError e = error_of([&] { (void)open_writer(scratch.path()); });
  CHECK(e.kind == ErrorKind::kLocked);
  CHECK(e.message.find("pid " + std::to_string(::getpid())) != std::string::npos);
  CHECK_EQ(append(*writer, 8), 2U);
  writer->close();
  CHECK(!writer->is_open());
  CHECK(writer->reserve(FrameType::kUser, 8) == nullptr);
  auto next = open_writer(scratch.path());
  CHECK_EQ(append(*next, 8), 3U);
  next.reset();
  CHECK_EQ(check_stream(scratch.path()), 3U);
}

void identity_is_checked() {
  const Scratch scratch;
  auto refused = [&](const StreamIdentity& id) {
    return error_of([&] { StreamWriter w(scratch.path(), id, {}); }).kind == ErrorKind::kSystem;
  };
  CHECK(refused({"", 1, 7, 1, kSmallPage}));
  CHECK(refused({"a/b", 1, 7, 1, kSmallPage}));
  CHECK(refused({"..", 1, 7, 1, kSmallPage}));
  CHECK(refused({std::string(32, 'x'), 1, 7, 1, kSmallPage}));
  CHECK(refused({"md", 0, 7, 1, kSmallPage}));
  CHECK(refused({"md", 64, 7, 1, kSmallPage}));
  CHECK(refused({"md", 1, 7, 1, 4096}));
  CHECK(refused({"md", 1, 7, 1, kSmallPage + 8}));
  CHECK(refused({"md", 1, 7, 1, 2ULL << 30}));
  CHECK(std::filesystem::is_empty(scratch.path()));
}

// The origin of a frame: its cause, and the cause's root or the cause itself.
void origin_follows_the_root() {
  FrameHeader depth{};
  depth.seq = 9;
  depth.stream_id = 1;
  depth.type = static_cast<std::uint16_t>(FrameType::kDepth);
  const Origin order = Origin::caused_by(depth);
  CHECK(order.cause_seq == 9 && order.cause_stream == 1);
  CHECK(order.root_seq == 9 && order.root_stream == 1 && order.root_type == 1);
  FrameHeader input{};
  input.seq = 4;
  input.stream_id = 3;
  input.type = static_cast<std::uint16_t>(FrameType::kOrderInput);
  input.root_seq = order.root_seq;
  input.root_stream = order.root_stream;
  input.root_type = order.root_type;
  const Origin report = Origin::caused_by(input);
  CHECK(report.cause_seq == 4 && report.cause_stream == 3);
  CHECK(report.root_seq == 9 && report.root_stream == 1 && report.root_type == 1);
}

}  // namespace

int main() {
  abandoned_reserve_is_never_visible();
  commit_without_reserve_is_nothing();
  padding_is_zero();
  frames_fill_a_page_exactly();
  frame_too_large();
  one_writer_at_a_time();
  identity_is_checked();
  origin_follows_the_root();
}
