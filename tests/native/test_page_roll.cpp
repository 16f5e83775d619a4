// Rolls, by the thousand: across idle periods, with readers at the live edge, pages behind, and joining
// late; the pages of both sides handed over by their helpers. Not one frame may be missed.
#include <atomic>
#include <random>
#include <thread>

#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

void rest(std::mt19937_64& random, std::uint64_t at_most_us) {
  sleep_until_ns(monotonic_ns() + static_cast<std::int64_t>(random() % (at_most_us * 1000 + 1)));
}

struct Progress {
  std::atomic<std::uint64_t> written{0};
  std::atomic<bool> done{false};
  std::array<std::atomic<std::uint64_t>, 4> read{};  // last seq of each reader

  [[nodiscard]] std::uint64_t slowest() const {
    std::uint64_t least = UINT64_MAX;
    for (const auto& r : read) least = std::min(least, r.load());
    return least;
  }
};

// Reads all there is, at its own pace; returns the number of frames. Ends the test at the first one missed.
void read_all(const std::string& dir, std::shared_ptr<PageHelper> helper, Progress& progress, std::size_t me,
              bool dawdles) {
  std::mt19937_64 random(seed() + me);
  const auto cursor = open_cursor(dir, CursorOptions{me % 2 == 0, true, std::move(helper)});
  std::uint64_t seq = 0;
  for (;;) {
    const bool done = progress.done.load();
    const FrameHeader* f = cursor->peek();
    if (f == nullptr) {
      if (cursor->failed()) {
        std::fprintf(stderr, "reader %zu after seq %llu: %s\n", me, static_cast<unsigned long long>(seq),
                     cursor->error().what());
        std::exit(1);
      }
      if (done) break;
      ::sched_yield();
      continue;
    }
    CHECK_EQ(f->seq, seq + 1);
    CHECK(payload_is_whole(*f));
    seq = f->seq;
    cursor->advance();
    progress.read[me].store(seq);
    if (dawdles && seq % 300 == 0) rest(random, 4000);
  }
  CHECK_EQ(seq, progress.written.load());
}

std::uint64_t hammer(bool one_helper, std::uint64_t rolls) {
  const Scratch scratch;
  std::mt19937_64 random(seed());
  const auto ours = std::make_shared<PageHelper>(std::vector<int>{});
  const auto theirs = one_helper ? ours : std::make_shared<PageHelper>(std::vector<int>{});
  auto writer = open_writer(scratch.path(), WriterOptions{ours, nullptr, nullptr, nullptr});
  Progress progress;
  std::vector<std::thread> readers;
  for (std::size_t i = 0; i < progress.read.size(); ++i)
    readers.emplace_back([&, i] { read_all(scratch.path(), theirs, progress, i, i >= 2); });

  std::uint64_t first_page = 1;
  std::uint64_t page = 1;
  std::uint64_t idle = 0;
  while (writer->page_rolls() < rolls) {
    // 2 to 60 frames to a page, so that the next one is asked for late, early or just in time.
    const auto bytes = static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 30'000 : random() % 1'000);
    CHECK(append(*writer, bytes) != 0);
    progress.written.store(writer->last_seq());
    const bool rolled = writer->page_number() != page;
    page = writer->page_number();
    // Idle right behind a roll, right in front of one, or anywhere.
    if ((rolled && random() % 8 == 0) || random() % 2000 == 0) {
      rest(random, 3000);
      ++idle;
    }
    if (!rolled) continue;
    remove_passed_pages(scratch.path(), first_page, progress.slowest());
    while (page - first_page > 200) {  // bounds the space, not the order of things
      rest(random, 100);
      remove_passed_pages(scratch.path(), first_page, progress.slowest());
    }
  }
  progress.done.store(true);
  for (auto& r : readers) r.join();
  std::printf(
      "rolls: %llu pages, %llu frames, %zu readers, %llu idle periods, %llu waits for a page, missed 0\n",
      static_cast<unsigned long long>(writer->page_rolls()),
      static_cast<unsigned long long>(writer->last_seq()), progress.read.size(),
      static_cast<unsigned long long>(idle), static_cast<unsigned long long>(writer->roll_waits()));
  return writer->last_seq();
}

// The reader is already there when the writer rolls, and again and again waits at the very end.
void one_frame_at_a_time(std::uint64_t frames) {
  const Scratch scratch;
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  auto writer = open_writer(scratch.path(), WriterOptions{helper, nullptr, nullptr, nullptr});
  const auto cursor = open_cursor(scratch.path(), CursorOptions{true, true, helper});
  for (std::uint64_t seq = 1; seq <= frames; ++seq) {
    CHECK(cursor->peek() == nullptr && !cursor->failed());
    CHECK_EQ(append(*writer, writer->max_payload() / 2), seq);  // one to a page
    const FrameHeader* f = cursor->peek();  // published, so it must be seen at the first look
    CHECK(f != nullptr);
    CHECK_EQ(f->seq, seq);
    CHECK(payload_is_whole(*f));
    cursor->advance();
    if (seq > 3) std::filesystem::remove(scratch.path() + "/md/" + page_name(seq - 3));
  }
  std::printf("rolls: %llu more, every frame seen at the first look\n",
              static_cast<unsigned long long>(frames));
}

// A reader goes back and forth while its helper has pages in hand.
void seeks_between_rolls() {
  const Scratch scratch;
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  auto writer = open_writer(scratch.path(), WriterOptions{helper, nullptr, nullptr, nullptr});
  for (int i = 0; i < 300; ++i) CHECK(append(*writer, 10'000) != 0);
  const auto cursor = open_cursor(scratch.path(), CursorOptions{true, true, helper});
  std::mt19937_64 random(seed());
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t seq = 1 + random() % 300;
    cursor->seek_seq(seq);
    for (std::uint64_t want = seq; want <= std::min<std::uint64_t>(300, seq + 20); ++want) {
      const FrameHeader* f = cursor->peek();
      CHECK(f != nullptr);
      CHECK_EQ(f->seq, want);
      CHECK(payload_is_whole(*f));
      cursor->advance();
    }
  }
}

}  // namespace

int main() {
  const std::uint64_t rolls = (kSanitized ? 300 : 1'500) * stress_factor();
  hammer(true, rolls);
  hammer(false, rolls);
  one_frame_at_a_time((kSanitized ? 200 : 1'000) * stress_factor());
  seeks_between_rolls();
}
