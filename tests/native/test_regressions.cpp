// Defects found by review, one check each, named after what must hold now.
#include <signal.h>
#include <sys/wait.h>

#include <array>

#include "ipc/lockstep.hpp"
#include "ipc/loop.hpp"
#include "journal/recorder.hpp"
#include "market/alternating_strategy.hpp"
#include "market/feed.hpp"
#include "market/gateway_loop.hpp"
#include "market/simulated_venue.hpp"
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

constexpr std::uint32_t kMarket = 1;
constexpr std::uint32_t kGateway = 2;
constexpr std::uint32_t kStrategy = 3;
const std::vector<Instrument> kInstruments = {Instrument{1, 10, 5, 0, 0, 9}};

// The shared files of a run with three processes: md, td and strategy.
struct Run {
  Scratch scratch;
  std::shared_ptr<const Control> control =
      std::make_shared<const Control>(Control::create(scratch.path() + "/control"));
  std::shared_ptr<Counters> counters =
      std::make_shared<Counters>(Counters::create(scratch.path() + "/counters", {"md", "td", "strategy"}));

  [[nodiscard]] LoopContext context(std::uint32_t slot) const {
    LoopContext c;
    c.control = control;
    c.counters = counters;
    c.slot = slot;
    return c;
  }
};

// A frame by itself, as a handler is given it.
template <class Payload>
struct Message {
  FrameHeader header{};
  Payload payload{};

  Message(FrameType type, std::uint32_t stream, std::uint64_t seq, const Payload& p) : payload(p) {
    header.length = sizeof(FrameHeader) + sizeof(Payload);
    header.type = static_cast<std::uint16_t>(type);
    header.stream_id = static_cast<std::uint16_t>(stream);
    header.seq = seq;
  }
};
OrderInput order(OrderAction action, std::uint64_t id, Side side, std::int64_t price, std::int64_t quantity) {
  OrderInput o{};
  o.order_id = id;
  o.instrument_id = 1;
  o.action = static_cast<std::uint8_t>(action);
  o.side = static_cast<std::uint8_t>(side);
  o.order_type = static_cast<std::uint8_t>(OrderType::kLimit);
  o.time_in_force = static_cast<std::uint8_t>(TimeInForce::kGtc);
  o.price = price;
  o.quantity = quantity;
  return o;
}
Depth book(Level bid, Level ask) {
  Depth d{};
  d.instrument_id = 1;
  d.bid_count = d.ask_count = 1;
  d.bids[0] = bid;
  d.asks[0] = ask;
  return d;
}
// Every payload of that type in a stream.
template <class Payload>
std::vector<Payload> all_of(const std::string& dir, const std::string& stream, FrameType type) {
  std::vector<Payload> found;
  const auto cursor = open_cursor(dir, {}, stream);
  while (const FrameHeader* f = cursor->peek()) {
    if (f->type == static_cast<std::uint16_t>(type)) found.push_back(*payload_of<Payload>(*f));
    cursor->advance();
  }
  return found;
}

// Python may append a frame of any type with any payload: behind the last one of a page lies no memory.
void a_frame_too_short_for_its_type_is_dropped() {
  const Run run;
  auto writer = open_writer(run.scratch.path(), {}, kSmallPage, "td", kGateway);
  SimulatedVenue venue(kInstruments, 10);
  GatewayHandler gateway(venue, *writer, run.context(1), {{2, kStrategy}});
  AlternatingStrategy strategy(kInstruments, {1, 1, 0, 0}, *writer, run.context(2));
  for (const auto type :
       {FrameType::kDepth, FrameType::kOrderInput, FrameType::kOrderReport, FrameType::kFill}) {
    alignas(8) std::array<std::byte, sizeof(FrameHeader)>
        bytes{};  // exactly a header: more is the sanitizer's
    auto& f = *reinterpret_cast<FrameHeader*>(bytes.data());
    f.length = sizeof(FrameHeader);
    f.type = static_cast<std::uint16_t>(type);
    CHECK(payload_of<Timer>(f) == nullptr);
    CHECK(gateway.on_frame(f));
    CHECK(strategy.on_frame(f));
  }
  CHECK_EQ(writer->last_seq(), 0U);
  CHECK_EQ(run.counters->block(1).get(Counter::kDropped), 2U);
  CHECK_EQ(run.counters->block(2).get(Counter::kDropped), 3U);
}

void positions_do_not_overflow() {
  const Run run;
  auto writer = open_writer(run.scratch.path(), {}, kSmallPage, "strategy", kStrategy);
  AlternatingStrategy strategy(kInstruments, {1, 1, 0, 100}, *writer, run.context(2));
  Fill fill{};
  fill.order_id = (std::uint64_t{kStrategy} << 48) | 1;
  fill.instrument_id = 1;
  fill.side = static_cast<std::uint8_t>(Side::kBuy);
  fill.quantity = INT64_MAX;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const Message m(FrameType::kFill, kGateway, i, fill);
    CHECK(strategy.on_frame(m.header));
  }
  const Message depth(FrameType::kDepth, kMarket, 1, book({100, 5}, {110, 5}));
  CHECK(strategy.on_frame(depth.header));  // a buy: worst case 3 * 2^63 - open_buys, a refusal or an order
  CHECK_EQ(writer->last_seq(), 1U);
}

void nobody_cancels_the_orders_of_another() {
  const Run run;
  auto writer = open_writer(run.scratch.path(), {}, kSmallPage, "td", kGateway);
  SimulatedVenue venue(kInstruments, 10);
  GatewayHandler gateway(venue, *writer, run.context(1), {{2, kStrategy}});
  const std::uint64_t id = (std::uint64_t{kStrategy} << 48) | 1;
  const Message rests(FrameType::kOrderInput, kStrategy, 1, order(OrderAction::kNew, id, Side::kBuy, 100, 5));
  CHECK(gateway.on_frame(rests.header));
  CHECK_EQ(venue.open_orders(), 1U);
  const Message cancel(FrameType::kOrderInput, 4, 1, order(OrderAction::kCancel, id, Side::kBuy, 0, 0));
  const Message replace(FrameType::kOrderInput, 4, 2, order(OrderAction::kReplace, id, Side::kBuy, 90, 5));
  CHECK(gateway.on_frame(cancel.header));
  CHECK(gateway.on_frame(replace.header));
  CHECK_EQ(venue.open_orders(), 1U);
  const auto reports = all_of<OrderReport>(run.scratch.path(), "td", FrameType::kOrderReport);
  CHECK_EQ(reports.size(), 3U);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    CHECK(reports[i].status == static_cast<std::uint8_t>(ReportStatus::kRejected));
    CHECK(reports[i].reason == static_cast<std::uint16_t>(Reason::kUnknownOrder));
  }
}

// A gateway that is behind sees the strategy's death before its last orders.
void orders_of_a_failed_strategy_that_are_read_late_are_cancelled() {
  const Run run;
  auto writer = open_writer(run.scratch.path(), {}, kSmallPage, "td", kGateway);
  SimulatedVenue venue(kInstruments, 10);
  GatewayHandler gateway(venue, *writer, run.context(1), {{2, kStrategy}});
  for (std::uint64_t n = 1; n <= 2; ++n) {
    const std::uint64_t id = (std::uint64_t{kStrategy} << 48) | n;
    const Message m(FrameType::kOrderInput, kStrategy, n, order(OrderAction::kNew, id, Side::kBuy, 100, 5));
    CHECK(gateway.on_frame(m.header));
    CHECK_EQ(venue.open_orders(), 1U);
    run.control->mark_failed(2, true);
    CHECK(gateway.on_idle(0));
    CHECK_EQ(venue.open_orders(), 0U);
    CHECK(gateway.on_idle(0));  // told once
  }
  CHECK_EQ(all_of<OrderReport>(run.scratch.path(), "td", FrameType::kOrderReport).size(), 4U);
}

// A negative quantity at the touch once made a replaced order "unfilled" again.
void impossible_levels_are_no_market() {
  const Run run;
  auto writer = open_writer(run.scratch.path(), {}, kSmallPage, "td", kGateway);
  SimulatedVenue venue(kInstruments, 10);
  GatewayHandler gateway(venue, *writer, run.context(1), {{2, kStrategy}});
  const std::uint64_t id = (std::uint64_t{kStrategy} << 48) | 1;
  const Message rests(FrameType::kOrderInput, kStrategy, 1, order(OrderAction::kNew, id, Side::kBuy, 100, 5));
  CHECK(gateway.on_frame(rests.header));
  for (const Level ask :
       {Level{90, -50}, Level{-90, 50}, Level{90, INT64_MIN}, Level{INT64_MIN, INT64_MIN}}) {
    const Message depth(FrameType::kDepth, kMarket, 1, book({80, -1}, ask));
    CHECK(gateway.on_frame(depth.header));
    for (const std::int64_t price : {200, 100}) {
      const Message m(FrameType::kOrderInput, kStrategy, 2,
                      order(OrderAction::kReplace, id, Side::kBuy, price, 5));
      CHECK(gateway.on_frame(m.header));
    }
  }
  CHECK(all_of<Fill>(run.scratch.path(), "td", FrameType::kFill).empty());
  for (const auto& r : all_of<OrderReport>(run.scratch.path(), "td", FrameType::kOrderReport))
    CHECK(r.filled == 0 && r.leaves == 5);
}

// A strategy that died consumes no more: a run that goes on without it must not wait for it for ever.
void lockstep_does_not_wait_for_one_that_left() {
  const Run run;
  auto market =
      open_writer(run.scratch.path(), WriterOptions{nullptr, nullptr, nullptr, &run.counters->block(0)});
  CHECK(append(*market, 8) != 0);
  const Lockstep lockstep(run.context(0), {{1, {{kMarket, 0}}}, {2, {{kMarket, 0}}}});
  run.counters->block(1).set_consumed(kMarket, 1);
  run.control->request_stop(0, StopRequest::kDrain);
  CHECK(!lockstep.wait());  // the strategy is behind: only the stop ends it
  run.control->mark_failed(2, true);
  CHECK(lockstep.wait());
  run.control->mark_failed(2, false);
  for (const auto state : {ProcessState::kDone, ProcessState::kFailed}) {
    run.counters->block(2).set(Counter::kState, static_cast<std::uint64_t>(state));
    CHECK(lockstep.wait());
  }
  run.counters->block(2).set(Counter::kState, static_cast<std::uint64_t>(ProcessState::kRunning));
  CHECK(!lockstep.wait());
}

void a_hole_in_the_consumption_record_is_an_error_for_good() {
  const Scratch scratch;
  const std::shared_ptr<StreamWriter> writer = open_writer(scratch.path());
  ConsumptionRecord record(writer);
  writer->close();  // stands for a full file system
  for (std::uint32_t i = 0; i <= kMaxConsumedEntries; ++i) record.note(1 + i % 2, i + 1);
  CHECK(record.pending());
  CHECK(!record.flush());
  CHECK(record.pending() && !record.flush());
}

// A loop that cannot write its last entries, of a timer here, does not end well.
void a_stop_does_not_hide_a_lost_record() {
  struct Quiet {
    ConsumptionRecord& record;
    bool on_frame(const FrameHeader&) noexcept { return true; }
    bool on_idle(std::int64_t) noexcept {
      record.note(9, 1);
      return true;
    }
    [[nodiscard]] std::int64_t due() const noexcept { return kNever; }
    [[nodiscard]] const JournalError* error() const noexcept { return nullptr; }
  };
  const Run run;
  const auto market = open_writer(run.scratch.path());
  const std::shared_ptr<StreamWriter> writer = open_writer(run.scratch.path(), {}, kSmallPage, "consumed", 9);
  ConsumptionRecord record(writer);
  writer->close();
  std::vector<std::unique_ptr<Cursor>> cursors;
  cursors.push_back(open_cursor(run.scratch.path()));
  LiveMux mux(std::move(cursors));
  run.control->request_stop(1, StopRequest::kNow);
  Quiet quiet{record};
  const LoopResult result = run_loop(run.context(1), mux, record, quiet);
  CHECK(result.end == LoopEnd::kWriterFailed && result.error);
}

void a_writer_that_continues_shows_its_last_seq_at_once() {
  const Run run;
  for (int i = 0; i < 3; ++i) CHECK(append(*open_writer(run.scratch.path()), 8) != 0);
  auto writer =
      open_writer(run.scratch.path(), WriterOptions{nullptr, nullptr, nullptr, &run.counters->block(0)});
  CHECK_EQ(run.counters->block(0).get(Counter::kLastSeq), 3U);
}

// The page was asked for when there was no room; by the time it is needed there is.
void a_failure_ahead_of_time_is_tried_again() {
  const Scratch scratch;
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  auto writer = open_writer(scratch.path(), WriterOptions{helper, nullptr, nullptr, nullptr});
  const std::string in_the_way = scratch.path() + "/md/.00000002.page.tmp";
  std::filesystem::create_directory(in_the_way);
  CHECK(append(*writer, kSmallPage / 2) != 0);  // asks for page 2
  sleep_until_ns(monotonic_ns() + 100'000'000);
  std::filesystem::remove(in_the_way);
  CHECK(append(*writer, kSmallPage / 2) != 0);
  CHECK_EQ(writer->page_rolls(), 1U);
  // While it lasts it is an error, and an append after it is over works.
  const std::string third = scratch.path() + "/md/.00000003.page.tmp";
  sleep_until_ns(monotonic_ns() + 100'000'000);  // page 3 may be there already
  if (!std::filesystem::exists(scratch.path() + "/md/00000003.page")) {
    std::filesystem::create_directory(third);
    CHECK_EQ(append(*writer, kSmallPage / 2), 0U);
    CHECK(writer->error().kind == ErrorKind::kSystem);
    std::filesystem::remove(third);
  }
  CHECK(append(*writer, kSmallPage / 2) != 0);
  writer.reset();
  CHECK_EQ(check_stream(scratch.path()), 3U);
}

// The helper serves another client, or gets no CPU: the writer makes the page it needs itself.
void a_roll_does_not_wait_for_a_helper_that_has_not_begun() {
  struct Slow final : PageHelper::Client {
    std::atomic<bool> busy{false};
    std::atomic<bool> release{false};
    bool work() noexcept override {
      busy.store(true);
      while (!release.load()) sleep_until_ns(monotonic_ns() + 1'000'000);
      return true;
    }
  };
  const Scratch scratch;
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  auto writer = open_writer(scratch.path(), WriterOptions{helper, nullptr, nullptr, nullptr});
  Slow slow;
  helper->attach(slow);
  helper->request(slow);
  helper->hurry();
  while (!slow.busy.load()) ::sched_yield();
  for (int i = 0; i < 100; ++i) CHECK(append(*writer, 4'000) != 0);
  CHECK(writer->page_rolls() > 5);
  CHECK_EQ(writer->roll_waits(), writer->page_rolls());
  slow.release.store(true);
  helper->detach(slow);
  for (int i = 0; i < 100; ++i) CHECK(append(*writer, 4'000) != 0);
  writer.reset();
  CHECK_EQ(check_stream(scratch.path()), 200U);
}

// A page whose last frame takes the place of the end-of-page frame: no writer of ours makes it, and one that
// takes it over must not write behind its end.
void a_page_without_room_for_its_end_is_refused() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  CHECK_EQ(append(*writer, writer->max_payload()), 1U);
  writer.reset();
  const std::string path = scratch.path() + "/md/" + page_name(1);
  std::string bytes = read_file(path);
  auto& f = *reinterpret_cast<FrameHeader*>(bytes.data() + kSmallPage - kPageEndBytes);
  f = FrameHeader{};
  f.length = kHeaderBytes;
  f.seq = 2;
  f.type = static_cast<std::uint16_t>(FrameType::kText);
  f.stream_id = 1;
  f.crc = crc32c(reinterpret_cast<std::byte*>(&f) + 8, kHeaderBytes - 8, crc32c(&f.length, 4));
  write_file(path, bytes);
  const JournalError e = error_of([&] { (void)open_writer(scratch.path()); });
  CHECK(e.kind == ErrorKind::kCorrupt);
  CHECK(read_file(path) == bytes);
}

// Damage in a live page stops the recording there, not at the step in front of it.
void frames_in_front_of_damage_are_recorded() {
  const Scratch scratch;
  const std::string live = scratch.path() + "/live";
  auto writer = open_writer(live);
  for (int i = 0; i < 3; ++i) CHECK(append(*writer, 8) != 0);
  const std::uint64_t end = scan_page(PageSource("md", {live}).open(1).mapping->base(), kSmallPage).valid_end;
  CHECK(append(*writer, 8) != 0);
  writer.reset();
  const std::string path = live + "/md/" + page_name(1);
  std::string bytes = read_file(path);
  bytes[end] = 7;  // an impossible length
  write_file(path, bytes);
  StreamRecorder recorder(live, scratch.path() + "/run", "md", false);
  const JournalError e = error_of([&] { (void)recorder.step(); });
  CHECK(e.kind == ErrorKind::kCorrupt);
  CHECK_EQ(e.offset, end);
  CHECK_EQ(read_watermark(scratch.path() + "/run/md/watermark")->seq, 3U);
  CHECK_EQ(check_stream(scratch.path() + "/run"), 3U);
}

// The helper maps the page after the one that is left; behind a hole the cursor needs another one.
void looking_beyond_a_hole_forgets_what_was_mapped_ahead() {
  const Scratch scratch;
  auto writer = open_writer(scratch.path());
  while (writer->page_rolls() < 3) CHECK(append(*writer, 4'000) != 0);
  const std::uint64_t last = writer->last_seq();
  writer.reset();
  const auto page = PageSource("md", {scratch.path()}).open(2);
  const std::uint64_t first_of_2 = page.mapping->header().first_seq;
  // Page 1 loses its end: its frames are whole, and what follows them is nothing.
  const std::string path = scratch.path() + "/md/" + page_name(1);
  std::string bytes = read_file(path);
  const std::uint64_t end =
      scan_page(PageSource("md", {scratch.path()}).open(1).mapping->base(), kSmallPage).valid_end;
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(end), bytes.end(), '\0');
  write_file(path, bytes);
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  const auto cursor = open_cursor(scratch.path(), CursorOptions{true, true, helper});
  std::uint64_t read = 0;
  while (cursor->peek() != nullptr) {
    cursor->advance();
    ++read;
  }
  CHECK_EQ(read, first_of_2 - 1);
  helper->hurry();
  sleep_until_ns(monotonic_ns() + 50'000'000);  // page 2 is mapped ahead by now
  CHECK(cursor->look_beyond());
  while (const FrameHeader* f = cursor->peek()) {
    CHECK_EQ(f->seq, ++read);
    cursor->advance();
  }
  CHECK(!cursor->failed());
  CHECK_EQ(read, last);
}

// A forked child has no helper thread, only a copy of its mutex, which may be held: it waits for neither.
void a_forked_child_leaves_without_the_helper() {
  struct Slow final : PageHelper::Client {
    std::atomic<bool> busy{false};
    bool work() noexcept override {
      busy.store(true);
      sleep_until_ns(monotonic_ns() + 100'000'000);
      return true;
    }
  };
  const Scratch scratch;
  auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  auto writer = open_writer(scratch.path(), WriterOptions{helper, nullptr, nullptr, nullptr});
  auto cursor = open_cursor(scratch.path(), CursorOptions{true, true, helper});
  Slow slow;
  helper->attach(slow);
  helper->request(slow);
  helper->hurry();
  while (!slow.busy.load()) ::sched_yield();
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    helper->detach(slow);
    writer.reset();
    cursor.reset();
    helper.reset();
    ::_exit(0);
  }
  int status = -1;
  for (int i = 0; i < 500 && ::waitpid(child, &status, WNOHANG) == 0; ++i)
    sleep_until_ns(monotonic_ns() + 10'000'000);
  if (status == -1) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  CHECK_EQ(status, 0);
  helper->detach(slow);
  CHECK(append(*writer, 8) != 0);
}

void feeds_that_would_overflow_are_known() {
  const Instrument fine{1, 10, 5, 0, 0, 9};
  CHECK(SyntheticFeed::fits(fine, 100'000'000'000, 1));
  CHECK(SyntheticFeed::fits(fine, 1, 1));
  CHECK(!SyntheticFeed::fits(fine, INT64_MAX, 1));
  CHECK(!SyntheticFeed::fits(fine, 100, INT64_MAX));
  CHECK(!SyntheticFeed::fits(Instrument{1, INT64_MAX, 5, 0, 0, 9}, 100, 1));
  CHECK(!SyntheticFeed::fits(Instrument{1, 10, INT64_MAX / 100, 0, 0, 9}, 100, 1));
}

}  // namespace

int main() {
  a_frame_too_short_for_its_type_is_dropped();
  positions_do_not_overflow();
  nobody_cancels_the_orders_of_another();
  orders_of_a_failed_strategy_that_are_read_late_are_cancelled();
  impossible_levels_are_no_market();
  lockstep_does_not_wait_for_one_that_left();
  a_hole_in_the_consumption_record_is_an_error_for_good();
  a_stop_does_not_hide_a_lost_record();
  a_writer_that_continues_shows_its_last_seq_at_once();
  a_failure_ahead_of_time_is_tried_again();
  a_roll_does_not_wait_for_a_helper_that_has_not_begun();
  a_page_without_room_for_its_end_is_refused();
  frames_in_front_of_damage_are_recorded();
  looking_beyond_a_hole_forgets_what_was_mapped_ahead();
  a_forked_child_leaves_without_the_helper();
  feeds_that_would_overflow_are_known();
}
