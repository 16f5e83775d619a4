// Live streams in arrival order, causes first: nobody sees an effect before a cause it subscribed to.
#include <atomic>
#include <thread>

#include "ipc/mux.hpp"
#include "ipc/waiter.hpp"
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

constexpr std::uint32_t kMarket = 1;
constexpr std::uint32_t kVenue = 2;
constexpr std::uint32_t kStrategy = 3;

std::unique_ptr<LiveMux> open_mux(const std::string& dir, const std::vector<std::string>& streams,
                                  const std::shared_ptr<PageHelper>& helper) {
  std::vector<std::unique_ptr<Cursor>> cursors;
  for (const auto& s : streams) cursors.push_back(open_cursor(dir, CursorOptions{false, true, helper}, s));
  return std::make_unique<LiveMux>(std::move(cursors));
}

// What was delivered so far, per stream: a cause must be among it.
struct Delivered {
  std::array<std::uint64_t, 4> seq{};
  std::uint64_t frames = 0;
  std::uint64_t checked = 0;

  void take(const FrameHeader& f, const std::array<bool, 4>& subscribed) {
    CHECK_EQ(f.seq, seq[f.stream_id] + 1);
    for (const auto& [stream, number] :
         {std::pair{f.cause_stream, f.cause_seq}, std::pair{f.root_stream, f.root_seq}}) {
      if (stream == 0 || !subscribed[stream]) continue;
      if (seq[stream] < number)
        std::fprintf(stderr, "stream %u seq %llu came before its cause, stream %u seq %llu\n", f.stream_id,
                     static_cast<unsigned long long>(f.seq), stream, static_cast<unsigned long long>(number));
      CHECK(seq[stream] >= number);
      ++checked;
    }
    CHECK(payload_is_whole(f));
    seq[f.stream_id] = f.seq;
    ++frames;
  }
};

// Everything lies there already, and the streams are looked at in the worst order.
void effects_wait_for_their_causes() {
  const Scratch scratch;
  auto market = open_writer(scratch.path(), {}, kSmallPage, "md", kMarket);
  auto venue = open_writer(scratch.path(), {}, kSmallPage, "td", kVenue);
  auto strategy = open_writer(scratch.path(), {}, kSmallPage, "strategy", kStrategy);
  const auto mux = open_mux(scratch.path(), {"td", "strategy", "md"}, nullptr);
  std::uint64_t depths = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    FrameHeader depth{};
    for (std::uint64_t k = 0; k <= i % 5; ++k) depth.seq = append(*market, 3'000, {}, FrameType::kDepth);
    depths = depth.seq;
    depth.stream_id = kMarket;
    depth.type = static_cast<std::uint16_t>(FrameType::kDepth);
    FrameHeader order{};
    const Origin from_depth = Origin::caused_by(depth);
    order.seq = append(*strategy, 40, from_depth, FrameType::kOrderInput);
    order.stream_id = kStrategy;
    order.type = static_cast<std::uint16_t>(FrameType::kOrderInput);
    order.root_seq = from_depth.root_seq;
    order.root_stream = from_depth.root_stream;
    order.root_type = from_depth.root_type;
    CHECK(append(*venue, 72, Origin::caused_by(order), FrameType::kOrderReport) != 0);
  }
  CHECK(market->page_rolls() > 50);
  Delivered delivered;
  while (Cursor* c = mux->poll()) {
    delivered.take(*c->peek(), {false, true, true, true});
    c->advance();
  }
  CHECK(mux->failed() == nullptr);
  CHECK_EQ(delivered.seq[kMarket], depths);
  CHECK_EQ(delivered.seq[kVenue], 500U);
  CHECK_EQ(delivered.seq[kStrategy], 500U);
}

// A cause that nobody wrote (a damaged record, a user's own mistake) does not stop the stream, nor does
// one in a stream that was not subscribed to.
void impossible_causes_do_not_block() {
  const Scratch scratch;
  auto market = open_writer(scratch.path(), {}, kSmallPage, "md", kMarket);
  auto strategy = open_writer(scratch.path(), {}, kSmallPage, "strategy", kStrategy);
  const auto mux = open_mux(scratch.path(), {"md", "strategy"}, nullptr);
  const std::uint64_t seqs[] = {1, 99, 1'000'000, UINT64_MAX};
  const std::uint16_t streams[] = {1, 2, 3, 63, 64, 65535};
  std::uint64_t wrote = 0;
  for (const auto seq : seqs) {
    for (const auto stream : streams) {
      Origin o;
      o.cause_seq = o.root_seq = seq;
      o.cause_stream = o.root_stream = stream;
      CHECK(append(*strategy, 8, o) != 0);
      CHECK(append(*market, 8, o) != 0);
      wrote += 2;
    }
  }
  std::uint64_t read = 0;
  while (Cursor* c = mux->poll()) {
    c->advance();
    ++read;
  }
  CHECK_EQ(read, wrote);
}

// No stream starves: each is asked in turn.
void streams_take_turns() {
  const Scratch scratch;
  auto market = open_writer(scratch.path(), {}, kSmallPage, "md", kMarket);
  auto strategy = open_writer(scratch.path(), {}, kSmallPage, "strategy", kStrategy);
  const auto mux = open_mux(scratch.path(), {"md", "strategy"}, nullptr);
  for (int i = 0; i < 50; ++i) {
    CHECK(append(*market, 8) != 0);
    CHECK(append(*strategy, 8) != 0);
  }
  for (int i = 0; i < 50; ++i) {
    std::uint32_t sum = 0;
    for (int k = 0; k < 2; ++k) {
      Cursor* c = mux->poll();
      CHECK(c != nullptr);
      sum += c->stream_id();
      c->advance();
    }
    CHECK_EQ(sum, kMarket + kStrategy);
  }
  CHECK(mux->poll() == nullptr);
}

// Market, strategy and venue live, a thread each, each reading the others through its own mux over rolling
// pages; a fourth reader subscribes to all three.
void live_chain(std::uint64_t depths) {
  const Scratch scratch;
  const auto control = std::make_shared<const Control>(Control::create(scratch.path() + "/control"));
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  const WriterOptions options{helper, control, nullptr, nullptr};
  auto market = open_writer(scratch.path(), options, kSmallPage, "md", kMarket);
  auto venue = open_writer(scratch.path(), options, kSmallPage, "td", kVenue);
  auto strategy = open_writer(scratch.path(), options, kSmallPage, "strategy", kStrategy);
  std::atomic<std::uint32_t> finished{0};
  std::array<std::atomic<std::uint64_t>, 3> market_seen{};
  std::array<Delivered, 3> delivered;

  // Follows `streams`; answers a frame of type `on` into `writer`; ends when the `before` others have.
  auto follow = [&](std::size_t me, std::vector<std::string> streams, std::array<bool, 4> subscribed,
                    WaitKind wait, StreamWriter* writer, FrameType on, FrameType answer,
                    std::uint32_t before) {
    const auto mux = open_mux(scratch.path(), streams, std::make_shared<PageHelper>(std::vector<int>{}));
    Waiter waiter(WaitPolicy{wait, 200'000, 50'000'000}, control, nullptr, static_cast<std::uint32_t>(me));
    for (;;) {
      const bool last_look = finished.load() >= before;
      Cursor* c = mux->poll();
      if (c == nullptr) {
        if (mux->failed() != nullptr) std::fprintf(stderr, "%s\n", mux->failed()->error().what());
        CHECK(mux->failed() == nullptr);
        if (last_look) break;
        const auto now = monotonic_ns();
        waiter.idle(*mux, now, now + 1'000'000);
        continue;
      }
      const FrameHeader f = *c->peek();
      delivered[me].take(*c->peek(), subscribed);
      if (writer != nullptr && f.type == static_cast<std::uint16_t>(on))
        CHECK(append(*writer, static_cast<std::uint32_t>(f.seq % 300), Origin::caused_by(f), answer) != 0);
      c->advance();
      waiter.active();
      market_seen[me].store(delivered[me].seq[kMarket]);
    }
    finished.fetch_add(1);
  };
  std::vector<std::thread> threads;
  threads.emplace_back(follow, 0, std::vector<std::string>{"md", "td"},
                       std::array<bool, 4>{false, true, true, false}, WaitKind::kYield, strategy.get(),
                       FrameType::kDepth, FrameType::kOrderInput, 1U);
  threads.emplace_back(follow, 1, std::vector<std::string>{"strategy", "md"},
                       std::array<bool, 4>{false, true, false, true}, WaitKind::kHybrid, venue.get(),
                       FrameType::kOrderInput, FrameType::kOrderReport, 2U);
  threads.emplace_back(follow, 2, std::vector<std::string>{"td", "strategy", "md"},
                       std::array<bool, 4>{false, true, true, true}, WaitKind::kPark, nullptr,
                       FrameType::kUser, FrameType::kUser, 3U);
  std::uint64_t first_page = 1;
  for (std::uint64_t i = 0; i < depths; ++i) {
    CHECK(append(*market, static_cast<std::uint32_t>(i * 37 % 9000), {}, FrameType::kDepth) != 0);
    for (;;) {  // bounds the space, not the order of things
      std::uint64_t slowest = depths;
      for (const auto& seen : market_seen) slowest = std::min(slowest, seen.load());
      if (i % 16 == 0) remove_passed_pages(scratch.path(), first_page, slowest);
      if (i <= slowest + 2'000) break;
      ::sched_yield();
    }
    if (i % 700 == 0) sleep_until_ns(monotonic_ns() + 300'000);
  }
  finished.fetch_add(1);
  for (auto& t : threads) t.join();
  CHECK_EQ(delivered[2].seq[kMarket], depths);
  CHECK_EQ(delivered[2].seq[kStrategy], depths);
  CHECK_EQ(delivered[2].seq[kVenue], depths);
  std::uint64_t checked = 0;
  for (const auto& d : delivered) checked += d.checked;
  std::printf(
      "causal order: %llu depths over %llu rolls, %llu frames, %llu causes checked, none late\n",
      static_cast<unsigned long long>(depths), static_cast<unsigned long long>(market->page_rolls()),
      static_cast<unsigned long long>(delivered[0].frames + delivered[1].frames + delivered[2].frames),
      static_cast<unsigned long long>(checked));
}

}  // namespace

int main() {
  effects_wait_for_their_causes();
  impossible_causes_do_not_block();
  streams_take_turns();
  live_chain((kSanitized ? 5'000 : 20'000) * stress_factor());
}
