// The total order (epoch, gen_time, stream id, seq): the same whatever order the streams are named in, and
// the same as a plain sort says. And seeks, against walking there.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "journal/merge.hpp"
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

struct Key {
  std::uint32_t epoch;
  std::int64_t time;
  std::uint32_t stream;
  std::uint64_t seq;
  auto operator<=>(const Key&) const = default;
};

// Streams with coarse times, so that ties abound, over several pages and writers (epochs).
std::vector<std::vector<Key>> write_streams(const std::string& dir, std::mt19937_64& random,
                                            std::size_t streams) {
  std::vector<std::vector<Key>> all(streams);
  std::vector<std::unique_ptr<StreamWriter>> writers(streams);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (std::size_t s = 0; s < streams; ++s) {
      writers[s].reset();
      writers[s] =
          open_writer(dir, {}, kSmallPage, "s" + std::to_string(s), static_cast<std::uint32_t>(s + 1));
    }
    std::vector<std::int64_t> last(streams, 0);
    for (int i = 0; i < 400; ++i) {
      const std::size_t s = random() % streams;
      // Floored: at or before the moment it is written, never before the frame in front.
      const std::int64_t time = std::max(last[s], monotonic_ns() / 20'000 * 20'000);
      last[s] = time;
      const auto bytes = static_cast<std::uint32_t>(random() % 1200);
      std::byte* payload = writers[s]->reserve(FrameType::kUser, bytes);
      CHECK(payload != nullptr);
      fill_payload(payload, bytes, writers[s]->last_seq() + 1);
      const std::uint64_t seq = writers[s]->commit_at(time, {});
      all[s].push_back({writers[s]->identity().epoch, time, static_cast<std::uint32_t>(s + 1), seq});
      if (random() % 8 == 0) sleep_until_ns(monotonic_ns() + 10'000);
    }
  }
  return all;
}

std::vector<Key> read_merged(const std::string& dir, const std::vector<std::size_t>& order) {
  std::vector<std::unique_ptr<Cursor>> cursors;
  for (const auto s : order) cursors.push_back(open_cursor(dir, {}, "s" + std::to_string(s)));
  MergedReader merged(std::move(cursors));
  std::vector<Key> keys;
  while (const FrameHeader* f = merged.peek()) {
    CHECK(payload_is_whole(*f));
    keys.push_back({merged.epoch(), f->gen_time, f->stream_id, f->seq});
    merged.advance();
  }
  CHECK(merged.failed() == nullptr);
  return keys;
}

std::uint64_t ties = 0;
std::uint64_t orders = 0;

void total_order(std::uint64_t round) {
  std::mt19937_64 random(seed() + round);
  const Scratch scratch;
  const std::size_t streams = 1 + random() % 6;
  const auto written = write_streams(scratch.path(), random, streams);
  std::vector<Key> want;
  for (const auto& s : written) want.insert(want.end(), s.begin(), s.end());
  std::sort(want.begin(), want.end());
  for (std::size_t i = 1; i < want.size(); ++i)
    if (want[i].time == want[i - 1].time && want[i].epoch == want[i - 1].epoch) ++ties;
  std::vector<std::size_t> order(streams);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int i = 0; i < 6; ++i) {
    CHECK(read_merged(scratch.path(), order) == want);
    std::shuffle(order.begin(), order.end(), random);
    ++orders;
  }
}

// Times that run backwards within a stream (a frame stamped before another thread's) keep its order.
void times_may_run_backwards() {
  const Scratch scratch;
  std::mt19937_64 random(seed());
  for (int s = 0; s < 3; ++s) {
    auto writer = open_writer(scratch.path(), {}, kSmallPage, "s" + std::to_string(s),
                              static_cast<std::uint32_t>(s + 1));
    for (std::uint64_t i = 0; i < 300; ++i) {
      std::byte* payload = writer->reserve(FrameType::kUser, 16);
      fill_payload(payload, 16, i + 1);
      CHECK(writer->commit_at(static_cast<std::int64_t>(random() % 1000), {}) == i + 1);
    }
  }
  const auto want = read_merged(scratch.path(), {0, 1, 2});
  CHECK_EQ(want.size(), 900U);
  std::array<std::uint64_t, 4> last{};
  for (const auto& k : want) CHECK(k.seq == ++last[k.stream]);
  CHECK(read_merged(scratch.path(), {2, 0, 1}) == want);
  CHECK(read_merged(scratch.path(), {1, 2, 0}) == want);
}

void seeks_equal_walks(std::uint64_t round) {
  std::mt19937_64 random(seed() + 1000 + round);
  const Scratch scratch;
  const auto frames = write_streams(scratch.path(), random, 1)[0];
  const auto cursor = open_cursor(scratch.path(), {}, "s0");
  std::vector<std::uint64_t> seqs = {0, 1, frames.size(), frames.size() + 1, UINT64_MAX};
  std::vector<std::int64_t> times = {INT64_MIN, 0, INT64_MAX};
  const PageSource source("s0", {scratch.path()});
  for (const auto n : source.pages()) {  // around every page boundary
    const PageHeader h = source.open(n).mapping->header();
    for (const std::int64_t d : {-1, 0, 1}) {
      seqs.push_back(h.first_seq + static_cast<std::uint64_t>(d));
      times.push_back(h.first_time + d);
    }
  }
  for (int i = 0; i < 200; ++i) {
    seqs.push_back(random() % (frames.size() + 2));
    times.push_back(frames[random() % frames.size()].time + static_cast<std::int64_t>(random() % 3) - 1);
  }
  CHECK(source.pages().size() > 5);
  auto check = [&](std::vector<Key>::const_iterator want) {
    const FrameHeader* f = cursor->peek();
    CHECK_EQ(f == nullptr, want == frames.end());
    if (f != nullptr) CHECK_EQ(f->seq, want->seq);
    CHECK(!cursor->failed());
  };
  for (const auto seq : seqs) {
    cursor->seek_seq(seq);
    check(std::find_if(frames.begin(), frames.end(), [&](const Key& k) { return k.seq >= seq; }));
  }
  for (const auto time : times) {
    cursor->seek_time(time);
    check(std::find_if(frames.begin(), frames.end(), [&](const Key& k) { return k.time >= time; }));
  }
}

// A stream with nothing new does not hold the others up, and is looked at again at the end.
void ends_and_goes_on() {
  const Scratch scratch;
  auto a = open_writer(scratch.path(), {}, kSmallPage, "s0", 1);
  auto b = open_writer(scratch.path(), {}, kSmallPage, "s1", 2);
  std::vector<std::unique_ptr<Cursor>> cursors;
  cursors.push_back(open_cursor(scratch.path(), {}, "s1"));
  cursors.push_back(open_cursor(scratch.path(), {}, "s0"));
  MergedReader merged(std::move(cursors));
  CHECK(merged.peek() == nullptr);
  for (std::uint64_t i = 0; i < 200; ++i) {
    CHECK(append(i % 3 == 0 ? *a : *b, 1000) != 0);
    const FrameHeader* f = merged.peek();
    CHECK(f != nullptr && f->stream_id == (i % 3 == 0 ? 1 : 2));
    merged.advance();
    CHECK(merged.peek() == nullptr);
  }
}

}  // namespace

int main() {
  const std::uint64_t rounds = 10 * stress_factor();
  for (std::uint64_t i = 0; i < rounds; ++i) total_order(i);
  for (std::uint64_t i = 0; i < rounds; ++i) seeks_equal_walks(i);
  times_may_run_backwards();
  ends_and_goes_on();
  std::printf("total order: %llu namings of streams gave the sorted order, %llu ties among them\n",
              static_cast<unsigned long long>(orders), static_cast<unsigned long long>(ties));
}
