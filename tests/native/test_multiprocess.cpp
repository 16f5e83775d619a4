// One writer process and three reader processes, each with its own wait policy, over rolling pages. Every
// frame checks itself: none may be torn, missing or out of order.
//
// 10^6 frames, 10^7 with TAPEWIRE_STRESS=10 or more. The rate is printed, never asserted.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <csignal>

#include "ipc/loop.hpp"
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

constexpr std::uint32_t kStream = 1;
constexpr std::array<const char*, 3> kReaders = {"yield", "park", "hybrid"};

WaitPolicy policy(const std::string& name) {
  WaitPolicy p;
  p.kind = name == "park" ? WaitKind::kPark : (name == "hybrid" ? WaitKind::kHybrid : WaitKind::kYield);
  p.window_ns = 100'000;
  return p;
}

// 56 to 296 bytes a frame: sizes that depend on the seq, so that a reader knows what must come.
std::uint32_t bytes_of_frame(std::uint64_t seq) {
  return static_cast<std::uint32_t>(seq * 2654435761U % 241);
}

struct Shared {
  std::shared_ptr<const Control> control;
  std::shared_ptr<Counters> counters;

  explicit Shared(const std::string& dir)
      : control(std::make_shared<const Control>(Control::open(dir + "/control"))),
        counters(std::make_shared<Counters>(Counters::open(dir + "/counters", true))) {}
  [[nodiscard]] std::uint64_t slowest_reader() const {
    std::uint64_t least = UINT64_MAX;
    for (std::uint32_t i = 1; i < counters->size(); ++i)
      least = std::min(least, counters->block(i).get_consumed(kStream));
    return least;
  }
};

int write_all(const std::string& dir, std::uint64_t frames) {
  const Shared shared(dir);
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  CounterBlock& block = shared.counters->block(0);
  auto writer = open_writer(dir, WriterOptions{helper, shared.control, shared.counters, &block});
  std::mt19937_64 random(seed());
  for (std::uint64_t seq = 1; seq <= frames; ++seq) {
    Origin o;
    o.cause_seq = seq * 3;
    o.root_seq = seq * 5;
    o.cause_stream = static_cast<std::uint16_t>(seq % 64);
    o.root_stream = static_cast<std::uint16_t>(seq % 63);
    CHECK_EQ(append(*writer, bytes_of_frame(seq), o), seq);
    // Bounds the space in shared memory; and lets the readers come up, run dry and park.
    while (seq % 256 == 0 && seq > shared.slowest_reader() + 20'000) ::sched_yield();
    if (random() % 4096 == 0) sleep_until_ns(monotonic_ns() + static_cast<std::int64_t>(random() % 300'000));
  }
  return 0;
}

int read_all(const std::string& dir, std::uint64_t frames, std::uint32_t slot, const std::string& wait) {
  const Shared shared(dir);
  CounterBlock& block = shared.counters->block(slot);
  const auto helper = std::make_shared<PageHelper>(std::vector<int>{});
  std::vector<std::unique_ptr<Cursor>> cursors;
  while (PageSource("md", {dir}).pages().empty()) ::sched_yield();
  cursors.push_back(open_cursor(dir, CursorOptions{slot == 1, true, helper}));
  LiveMux mux(std::move(cursors));
  Waiter waiter(policy(wait), shared.control, &block, slot);
  std::uint64_t seq = 0;
  std::int64_t time = 0;
  while (seq < frames) {
    Cursor* c = mux.poll();
    if (c == nullptr) {
      if (mux.failed() != nullptr) {
        std::fprintf(stderr, "reader %s: %s\n", wait.c_str(), mux.failed()->error().what());
        return 1;
      }
      waiter.idle(mux, monotonic_ns(), kNever);
      continue;
    }
    const FrameHeader& f = *c->peek();
    CHECK_EQ(f.seq, seq + 1);  // a gap, or out of order
    seq = f.seq;
    CHECK_EQ(f.length, padded(kHeaderBytes + bytes_of_frame(seq)));  // torn, from here on
    CHECK_EQ(f.length - kHeaderBytes - f.pad, bytes_of_frame(seq));
    CHECK(f.cause_seq == seq * 3 && f.root_seq == seq * 5);
    CHECK(f.cause_stream == seq % 64 && f.root_stream == seq % 63);
    CHECK(f.gen_time >= time);
    time = f.gen_time;
    CHECK(payload_is_whole(f));
    c->advance();
    waiter.active();
    block.set_consumed(kStream, seq);
  }
  return 0;
}

pid_t start(const std::string& dir, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"/proc/self/exe"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.push_back(dir);
  std::vector<char*> argv;
  for (auto& a : all) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  CHECK(pid >= 0);
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int run(std::uint64_t frames) {
  const Scratch scratch;
  const std::string& dir = scratch.path();
  (void)Control::create(dir + "/control");
  std::vector<std::string> names = {"writer"};
  names.insert(names.end(), kReaders.begin(), kReaders.end());
  (void)Counters::create(dir + "/counters", names);
  const Shared shared(dir);

  const std::string count = std::to_string(frames);
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < kReaders.size(); ++i)
    children.push_back(start(dir, {"read", count, std::to_string(i + 1), kReaders[i]}));
  const std::int64_t began = monotonic_ns();
  children.push_back(start(dir, {"write", count}));

  bool good = true;
  std::uint64_t first_page = 1;
  for (std::size_t left = children.size(); left > 0;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == 0) {
      remove_passed_pages(dir, first_page, shared.slowest_reader());
      sleep_until_ns(monotonic_ns() + 5'000'000);
      continue;
    }
    CHECK(pid > 0);
    --left;
    std::erase(children, pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    std::fprintf(stderr, "process %d ended with status %d\n", static_cast<int>(pid), status);
    good = false;
    for (const pid_t other : children) ::kill(other, SIGKILL);
  }
  if (!good) return 1;
  const double seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
  CHECK_EQ(shared.slowest_reader(), frames);
  const CounterBlock& w = shared.counters->block(0);
  std::printf(
      "multiprocess: %llu frames, 1 writer and 3 readers, %llu rolls, %llu wakes; torn, missing, out of "
      "order: 0\n",
      static_cast<unsigned long long>(frames), static_cast<unsigned long long>(w.get(Counter::kPageRolls)),
      static_cast<unsigned long long>(w.get(Counter::kWakes)));
  for (std::uint32_t i = 1; i < shared.counters->size(); ++i) {
    const CounterBlock& r = shared.counters->block(i);
    std::printf("  reader %-6s parked %llu times, %llu slow yields\n", r.name,
                static_cast<unsigned long long>(r.get(Counter::kParks)),
                static_cast<unsigned long long>(r.get(Counter::kSlowYields)));
  }
  std::printf("  %.0f frames/s (4 processes, %ld CPUs)\n", static_cast<double>(frames) / seconds,
              ::sysconf(_SC_NPROCESSORS_ONLN));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "write")
    return write_all(arguments[2], std::stoull(arguments[1]));
  if (arguments.size() == 5 && arguments[0] == "read")
    return read_all(arguments[4], std::stoull(arguments[1]),
                    static_cast<std::uint32_t>(std::stoul(arguments[2])), arguments[3]);
  const std::uint64_t frames = kSanitized ? 50'000 : 1'000'000 * std::min(10UL, stress_factor());
  return run(frames);
}
