// A writer takes over a stream that another one left in every state it can be left in.
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

std::string page_path(const Scratch& s, std::uint64_t n) { return s.path() + "/md/" + page_name(n); }

// `frames` frames of 1000 bytes, about 62 to a page.
void write_frames(const Scratch& s, std::uint64_t frames) {
  auto writer = open_writer(s.path());
  for (std::uint64_t i = 0; i < frames; ++i) CHECK(append(*writer, 1000) != 0);
}

// Opens the stream anew, appends over a page roll, and reads all of it.
void continues_after(const Scratch& s, std::uint64_t last_seq, std::uint64_t cut_bytes,
                     std::uint32_t epoch = 2) {
  auto writer = open_writer(s.path());
  CHECK_EQ(writer->last_seq(), last_seq);
  CHECK_EQ(writer->identity().epoch, epoch);
  CHECK_EQ(writer->recovery()->cut_bytes, cut_bytes);
  CHECK_EQ(check_stream(s.path()), last_seq);
  for (std::uint64_t i = 0; i < 100; ++i) CHECK_EQ(append(*writer, 1000), last_seq + 1 + i);
  writer.reset();
  CHECK_EQ(check_stream(s.path()), last_seq + 100);
}

template <class Change>
void change_file(const std::string& path, Change&& change) {
  std::string bytes = read_file(path);
  change(bytes);
  write_file(path, bytes);
}

void after_an_orderly_end() {
  const Scratch s;
  write_frames(s, 10);
  continues_after(s, 10, 0);
  continues_after(s, 110, 0, 3);
}

void empty_stream() {
  const Scratch s;
  write_frames(s, 0);
  continues_after(s, 0, 0);
}

void torn_tail() {
  // The commit word of frame 10 is there, some of its bytes are not.
  for (const std::uint64_t arrived : {8, 16, 56, 64, 500, 1048}) {
    const Scratch s;
    write_frames(s, 10);
    const std::uint64_t at = kPageHeaderBytes + 9 * 1056;
    std::uint64_t cut = 0;
    change_file(page_path(s, 1), [&](std::string& b) {
      std::fill(b.begin() + static_cast<std::ptrdiff_t>(at + arrived), b.end(), '\0');
      cut = b.find_last_not_of('\0') + 1 - at;
    });
    continues_after(s, 9, cut);
  }
}

void rest_is_garbage() {
  const Scratch s;
  write_frames(s, 10);
  const std::uint64_t at = kPageHeaderBytes + 10 * 1056;
  change_file(page_path(s, 1),
              [&](std::string& b) { std::fill(b.begin() + static_cast<std::ptrdiff_t>(at), b.end(), 'x'); });
  continues_after(s, 10, kSmallPage - at);
}

// Bytes of an abandoned frame behind a zero commit word.
void abandoned_frame_behind_the_end() {
  const Scratch s;
  {
    auto writer = open_writer(s.path());
    CHECK(append(*writer, 1000) == 1);
    std::byte* junk = writer->reserve(FrameType::kUser, 4000);
    std::memset(junk, 0x55, 4000);
  }
  continues_after(s, 1, kHeaderBytes + 4000);
}

void page_is_cut_off() {
  for (const std::uint64_t left :
       {128ULL, 133ULL, 128ULL + 5 * 1056, 128ULL + 5 * 1056 + 4, 128ULL + 5 * 1056 + 700}) {
    const Scratch s;
    write_frames(s, 10);
    CHECK(::truncate(page_path(s, 1).c_str(), static_cast<off_t>(left)) == 0);
    const std::uint64_t whole = (left - kPageHeaderBytes) / 1056;
    const std::uint64_t end = kPageHeaderBytes + whole * 1056;
    const std::uint64_t used = read_file(page_path(s, 1)).find_last_not_of('\0') + 1;
    continues_after(s, whole, used > end ? used - end : 0);
  }
}

// Killed between the rename of the next page and its start record.
void next_page_is_prepared() {
  const Scratch s;
  write_frames(s, 10);
  (void)prepare_page(s.path() + "/md", StreamIdentity{"md", 1, 7, 1, kSmallPage}, 2);
  continues_after(s, 10, 0);
}

void only_page_is_prepared() {
  const Scratch s;
  std::filesystem::create_directories(s.path() + "/md");
  (void)prepare_page(s.path() + "/md", StreamIdentity{"md", 1, 7, 1, kSmallPage}, 1);
  auto writer = open_writer(s.path());
  CHECK(!writer->recovery());
  CHECK_EQ(append(*writer, 8), 1U);
  CHECK_EQ(check_stream(s.path()), 1U);
}

// Killed between the start record of the next page and the end-of-page frame.
void next_page_is_started_and_this_one_not_ended() {
  const Scratch s;
  write_frames(s, 10);
  {
    const auto next = prepare_page(s.path() + "/md", StreamIdentity{"md", 1, 7, 1, kSmallPage}, 2);
    auto& h = *reinterpret_cast<PageHeader*>(next->base());
    h.first_seq = 11;
    h.first_time = monotonic_ns();
    h.prepared_time = h.first_time;
    h.epoch = 1;
    h.start_word = start_word_of(h);
  }
  continues_after(s, 10, 0);
}

// A reader that has been there all the time meets every frame of both writers.
void reader_stays() {
  const Scratch s;
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  write_frames(s, 10);
  const auto cursor = open_cursor(s.path(), CursorOptions{true, true, helper});
  std::uint64_t seen = 0;
  auto drain = [&] {
    while (const FrameHeader* f = cursor->peek()) {
      CHECK_EQ(f->seq, ++seen);
      CHECK(payload_is_whole(*f));
      cursor->advance();
    }
    CHECK(!cursor->failed());
  };
  for (std::uint64_t writers = 1; writers <= 20; ++writers) {
    drain();
    CHECK_EQ(seen, writers * 10);
    // The helper may have the page mapped that the next writer replaces.
    const auto number = PageSource("md", {s.path()}).pages().back() + 1;
    (void)prepare_page(s.path() + "/md", StreamIdentity{"md", 1, 7, 1, kSmallPage}, number);
    if (writers % 2 == 0) sleep_until_ns(monotonic_ns() + 3'000'000);
    write_frames(s, 10);
  }
  drain();
  CHECK_EQ(seen, 210U);
}

void complete_page_and_no_next() {
  const Scratch s;
  write_frames(s, 10);
  {
    (void)open_writer(s.path());
  }  // ends page 1
  std::filesystem::remove(page_path(s, 2));
  continues_after(s, 10, 0);
}

void bytes_behind_the_page_end() {
  const Scratch s;
  write_frames(s, 10);
  {
    (void)open_writer(s.path());
  }
  std::filesystem::remove(page_path(s, 2));
  change_file(page_path(s, 1), [](std::string& b) { b[b.size() - 3] = 'x'; });
  // Ended once more, at the same place.
  continues_after(s, 10, kSmallPage - 2 - (kPageHeaderBytes + 10 * 1056));
}

void other_page_size() {
  const Scratch s;
  write_frames(s, 10);
  {
    auto writer = open_writer(s.path(), {}, 4 * kSmallPage);
    CHECK_EQ(writer->last_seq(), 10U);
    for (int i = 0; i < 300; ++i) CHECK(append(*writer, 1000) != 0);
  }
  continues_after(s, 310, 0, 3);
}

void left_over_temporary_page() {
  const Scratch s;
  write_frames(s, 10);
  write_file(s.path() + "/md/.00000002.page.tmp", "half a page");
  continues_after(s, 10, 0);
  for (const auto& entry : std::filesystem::directory_iterator(s.path() + "/md"))
    CHECK(entry.path().extension() != ".tmp");
}

// What is not ours is refused, and not a byte of it changes.
void foreign_pages_are_refused() {
  struct Case {
    const char* golden;
    ErrorKind kind;
  };
  for (const Case c :
       {Case{"future_version", ErrorKind::kVersion}, Case{"zero_page", ErrorKind::kNotAJournal}}) {
    const Scratch s;
    std::filesystem::create_directories(s.path() + "/md");
    const std::string bytes = read_file(golden_page(c.golden));
    write_file(page_path(s, 1), bytes);
    const auto time = std::filesystem::last_write_time(page_path(s, 1));
    CHECK(error_of([&] { (void)open_writer(s.path()); }).kind == c.kind);
    CHECK(error_of([&] { (void)open_cursor(s.path()); }).kind == c.kind);
    CHECK(read_file(page_path(s, 1)) == bytes);
    CHECK(std::filesystem::last_write_time(page_path(s, 1)) == time);
    CHECK(PageSource("md", {s.path()}).pages() == std::vector<std::uint64_t>{1});
  }
  const Scratch s;
  write_frames(s, 10);
  const std::string bytes = read_file(page_path(s, 1));
  const JournalError e = error_of([&] { (void)open_writer(s.path(), {}, kSmallPage, "md", 2); });
  CHECK(e.kind == ErrorKind::kCorrupt);
  CHECK(read_file(page_path(s, 1)) == bytes);
}

void golden_torn_tail() {
  const Scratch s;
  std::filesystem::create_directories(s.path() + "/md");
  std::filesystem::copy_file(golden_page("torn_tail"), page_path(s, 1));
  auto writer = open_writer(s.path());
  CHECK_EQ(writer->last_seq(), 35U);
  CHECK_EQ(writer->recovery()->cut_bytes, 100U);
  CHECK(writer->recovery()->finding == Finding::kBadCrc);
  const auto cursor = open_cursor(s.path());
  std::uint64_t frames = 0;
  while (cursor->peek() != nullptr) {
    ++frames;
    cursor->advance();
  }
  CHECK(!cursor->failed());
  CHECK_EQ(frames, 35U);
}

}  // namespace

int main() {
  after_an_orderly_end();
  empty_stream();
  torn_tail();
  rest_is_garbage();
  abandoned_frame_behind_the_end();
  page_is_cut_off();
  next_page_is_prepared();
  only_page_is_prepared();
  next_page_is_started_and_this_one_not_ended();
  reader_stays();
  complete_page_and_no_next();
  bytes_behind_the_page_end();
  other_page_size();
  left_over_temporary_page();
  foreign_pages_are_refused();
  golden_torn_tail();
}
