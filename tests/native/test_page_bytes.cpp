// The writer's bytes are the golden ones: what was written yesterday is what we write today.
#include "journal/cursor.hpp"
#include "journal/writer.hpp"
#include "scratch.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

// Times are the only bytes of a page that differ from run to run: set to the golden page's, CRCs anew.
void set_times(std::string& page, const PageHeader& golden, std::uint64_t page_end_at,
               std::int64_t page_end_time) {
  auto& h = *reinterpret_cast<PageHeader*>(page.data());
  h.first_time = golden.first_time;
  h.prepared_time = golden.prepared_time;
  h.start_word = start_word_of(h);
  auto& end = *reinterpret_cast<FrameHeader*>(page.data() + page_end_at);
  CHECK_EQ(end.type, static_cast<std::uint16_t>(FrameType::kPageEnd));
  end.gen_time = page_end_time;
  end.crc = crc32c(&end.seq, kHeaderBytes - 8, crc32c(&end.length, 4));
}

}  // namespace

int main() {
  const std::string golden = read_file(golden_page("clean"));
  const auto& header = *reinterpret_cast<const PageHeader*>(golden.data());
  CHECK(check_page_header(reinterpret_cast<const std::byte*>(golden.data()), golden.size(), "golden", 1) ==
        PageState::kStarted);

  const Scratch scratch;
  const StreamIdentity identity{header.stream_name, header.stream_id, header.run_id, 1, header.page_bytes};
  std::uint64_t at = kPageHeaderBytes;
  std::uint64_t frames = 0;
  std::int64_t page_end_time = 0;
  {
    StreamWriter writer(scratch.path(), identity, {});
    for (;;) {
      const auto& f = *reinterpret_cast<const FrameHeader*>(golden.data() + at);
      CHECK(f.length >= kHeaderBytes);
      if (f.type == static_cast<std::uint16_t>(FrameType::kPageEnd)) {
        page_end_time = f.gen_time;
        break;
      }
      const std::uint32_t bytes = f.length - kHeaderBytes - f.pad;
      // Left behind by an abandoned frame: must not show in the padding.
      std::byte* junk = writer.reserve(FrameType::kUser, 600);
      CHECK(junk != nullptr);
      std::memset(junk, 0xEE, 600);
      std::byte* payload = writer.reserve(static_cast<FrameType>(f.type), bytes);
      CHECK(payload != nullptr);
      std::memcpy(payload, golden.data() + at + kHeaderBytes, bytes);
      const Origin origin{f.cause_seq, f.root_seq, f.cause_stream, f.root_stream, f.root_type};
      CHECK_EQ(writer.commit_at(f.gen_time, origin), f.seq);
      at += f.length;
      ++frames;
    }
  }
  {
    StreamWriter successor(scratch.path(), identity, {});  // ends page 1, as the golden one is ended
    CHECK_EQ(successor.identity().epoch, 2U);
    CHECK_EQ(successor.last_seq(), frames);
  }
  std::string page = read_file(scratch.path() + "/md/00000001.page");
  set_times(page, header, at, page_end_time);
  CHECK_EQ(page.size(), golden.size());
  for (std::size_t i = 0; i < golden.size(); ++i) {
    if (page[i] == golden[i]) continue;
    std::fprintf(stderr, "byte %zu: wrote %02x, golden %02x\n", i, page[i] & 0xFF, golden[i] & 0xFF);
    CHECK(page[i] == golden[i]);
  }
  std::printf("page bytes: %llu frames, %zu bytes equal to the golden page\n",
              static_cast<unsigned long long>(frames), golden.size());
}
