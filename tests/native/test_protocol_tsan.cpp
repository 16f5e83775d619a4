// The protocol of pages, commit words and parked readers, for the thread sanitizer: threads of one process
// instead of processes.
//
// The sanitizer knows memory by its address, and a page that is mapped twice has two. So mmap is replaced
// here by one that maps every file once and hands out the same address: then a store by the writer and a load by
// a reader meet, and a missing release or acquire is a report. What the file system orders (a name appears
// after what was written before the rename) is shown to the sanitizer as a mutex.
//
// Also counted: a reader that was not woken for a frame that was published (a lost wake-up). That is seen at
// the system call, which is replaced too, and so does not depend on how busy the machine is.
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>

#include "scratch.hpp"

namespace {

struct Shared {
  std::size_t bytes;
  int users;
};
std::mutex files_mutex;
std::map<std::pair<dev_t, ino_t>, void*> address_of;
std::map<void*, std::pair<std::pair<dev_t, ino_t>, Shared>> mapped;
std::atomic<std::uint64_t> lost_wakes{0};
std::atomic<std::uint64_t> waits{0};
std::atomic<int> asleep{0};

}  // namespace

void* test_mmap(void*, std::size_t bytes, int, int flags, int fd, off_t) {
  const std::lock_guard lock(files_mutex);
  struct stat st{};
  CHECK(::fstat(fd, &st) == 0);
  const std::pair key{st.st_dev, st.st_ino};
  if (const auto known = address_of.find(key); known != address_of.end()) {
    Shared& s = mapped.at(known->second).second;
    CHECK_EQ(s.bytes, bytes);
    ++s.users;
    return known->second;
  }
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (p == MAP_FAILED) {  // a read-only descriptor came first: map it through its name
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const int again = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    CHECK(again >= 0);
    p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, again, 0);
    ::close(again);
  }
  CHECK(p != MAP_FAILED);
  address_of[key] = p;
  mapped.insert({p, {key, Shared{bytes, 1}}});
  return p;
}
int test_munmap(void* p, std::size_t) {
  const std::lock_guard lock(files_mutex);
  auto& [key, s] = mapped.at(p);
  if (--s.users > 0) return 0;
  const std::size_t bytes = s.bytes;
  address_of.erase(key);
  mapped.erase(p);
  return ::munmap(p, bytes);
}
int test_rename(const char* from, const char* to) {
  const std::lock_guard lock(files_mutex);
  return std::rename(from, to);
}
template <class... Arguments>
long test_syscall(long number, Arguments... arguments) {
  const bool waiting = number == SYS_futex_waitv;
  if (waiting) asleep.fetch_add(1);
  const long rc = ::syscall(number, arguments...);
  if constexpr (sizeof...(Arguments) == 5) {
    if (!waiting) return rc;
    const int error = errno;
    asleep.fetch_sub(1);
    waits.fetch_add(1, std::memory_order_relaxed);
    const auto all = std::make_tuple(arguments...);
    if constexpr (std::is_pointer_v<std::tuple_element_t<0, decltype(all)>>) {
      bool published = false;
      for (unsigned i = 0; i < std::get<1>(all); ++i) {
        auto* word = reinterpret_cast<std::uint32_t*>(std::get<0>(all)[i].uaddr);
        published = published || std::atomic_ref(*word).load(std::memory_order_relaxed) != 0;
      }
      if (rc < 0 && error == ETIMEDOUT && published) lost_wakes.fetch_add(1, std::memory_order_relaxed);
    }
    errno = error;
  }
  return rc;
}

#define mmap test_mmap
#define munmap test_munmap
#define rename test_rename
#define syscall test_syscall

#include "ipc/loop.hpp"
#include "stream_check.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

std::shared_ptr<PageHelper> new_helper() { return std::make_shared<PageHelper>(std::vector<int>{}); }

std::uint32_t bytes_of_frame(std::uint64_t seq) {
  return static_cast<std::uint32_t>(seq * 2654435761U % 1201);
}

struct Run {
  Scratch scratch;
  std::shared_ptr<const Control> control =
      std::make_shared<const Control>(Control::create(scratch.path() + "/control"));
  std::shared_ptr<Counters> counters = std::make_shared<Counters>(
      Counters::create(scratch.path() + "/counters", {"writer", "reader1", "reader2", "reader3", "reader4"}));
  std::uint64_t frames;

  explicit Run(std::uint64_t n) : frames(n) {}
  [[nodiscard]] std::uint64_t slowest() const {
    std::uint64_t least = frames;
    for (std::uint32_t i = 1; i < counters->size(); ++i)
      least = std::min(least, counters->block(i).get_consumed(1));
    return least;
  }
};

void read_all(const Run& run, std::uint32_t slot, WaitKind wait, std::shared_ptr<PageHelper> helper) {
  std::vector<std::unique_ptr<Cursor>> cursors;
  cursors.push_back(open_cursor(run.scratch.path(), CursorOptions{slot % 2 == 0, true, std::move(helper)}));
  LiveMux mux(std::move(cursors));
  CounterBlock& block = run.counters->block(slot);
  Waiter waiter(WaitPolicy{wait, 50'000, 1'000'000}, run.control, &block, slot);
  std::uint64_t seq = 0;
  while (seq < run.frames) {
    Cursor* c = mux.poll();
    if (c == nullptr) {
      if (mux.failed() != nullptr) std::fprintf(stderr, "%s\n", mux.failed()->error().what());
      CHECK(mux.failed() == nullptr);
      waiter.idle(mux, monotonic_ns(), kNever);
      continue;
    }
    const FrameHeader& f = *c->peek();
    CHECK_EQ(f.seq, seq + 1);
    CHECK_EQ(f.length - kHeaderBytes - f.pad, bytes_of_frame(f.seq));
    CHECK(f.cause_seq == f.seq * 3);
    CHECK(payload_is_whole(f));
    seq = f.seq;
    c->advance();
    waiter.active();
    block.set_consumed(1, seq);
  }
}

// One writer, four readers, pages rolling under them, some of the readers' pages mapped ahead by a helper of
// their own and some by the writer's.
void writer_and_readers(std::uint64_t frames) {
  const Run run(frames);
  const auto helper = new_helper();
  CounterBlock& block = run.counters->block(0);
  auto writer = open_writer(run.scratch.path(), WriterOptions{helper, run.control, run.counters, &block});
  std::vector<std::thread> readers;
  readers.emplace_back([&] { read_all(run, 1, WaitKind::kYield, new_helper()); });
  readers.emplace_back([&] { read_all(run, 2, WaitKind::kPark, new_helper()); });
  readers.emplace_back([&] { read_all(run, 3, WaitKind::kHybrid, helper); });
  readers.emplace_back([&] { read_all(run, 4, WaitKind::kBatch, nullptr); });
  std::mt19937_64 random(seed());
  std::uint64_t first_page = 1;
  for (std::uint64_t seq = 1; seq <= frames; ++seq) {
    Origin o;
    o.cause_seq = seq * 3;
    o.cause_stream = 9;
    if (random() % 16 == 0) {  // an abandoned frame
      std::byte* junk = writer->reserve(FrameType::kUser, 700);
      if (junk != nullptr) std::memset(junk, 0xAA, 700);
    }
    CHECK_EQ(append(*writer, bytes_of_frame(seq), o), seq);
    if (random() % 512 == 0) sleep_until_ns(monotonic_ns() + static_cast<std::int64_t>(random() % 500'000));
    if (seq % 64 != 0) continue;
    remove_passed_pages(run.scratch.path(), first_page, run.slowest());
    while (seq > run.slowest() + 5'000) ::sched_yield();
  }
  for (auto& r : readers) r.join();
  std::printf("protocol: %llu frames, 4 readers, %llu rolls, %llu wakes\n",
              static_cast<unsigned long long>(frames), static_cast<unsigned long long>(writer->page_rolls()),
              static_cast<unsigned long long>(block.get(Counter::kWakes)));
}

// A writer that waits for its reader, a reader that parks at once: every frame needs its wake-up. With two
// streams the reader waits for both words in one call.
void no_wake_up_is_lost(std::uint64_t rounds) {
  const Run run(rounds);
  auto first = open_writer(run.scratch.path(), WriterOptions{new_helper(), run.control, nullptr, nullptr});
  auto second = open_writer(run.scratch.path(), WriterOptions{new_helper(), run.control, nullptr, nullptr},
                            kSmallPage, "other", 2);
  std::atomic<std::uint64_t> taken{0};
  std::thread reader([&] {
    const auto helper = new_helper();
    std::vector<std::unique_ptr<Cursor>> cursors;
    cursors.push_back(open_cursor(run.scratch.path(), CursorOptions{true, true, helper}));
    cursors.push_back(open_cursor(run.scratch.path(), CursorOptions{true, true, helper}, "other"));
    LiveMux mux(std::move(cursors));
    Waiter waiter(WaitPolicy{WaitKind::kPark, 0, 0}, run.control, nullptr, 1);
    while (taken.load() < rounds) {
      Cursor* c = mux.poll();
      if (c == nullptr) {
        CHECK(mux.failed() == nullptr);
        waiter.idle(mux, monotonic_ns(), kNever);
        continue;
      }
      CHECK(payload_is_whole(*c->peek()));
      c->advance();
      taken.fetch_add(1);
    }
  });
  for (std::uint64_t i = 0; i < rounds; ++i) {
    CHECK(append(i % 3 == 0 ? *second : *first, 24) != 0);
    for (std::uint64_t spin = 0; taken.load() <= i; ++spin)
      if (spin > 100) ::sched_yield();
  }
  reader.join();
}

#if defined(__x86_64__)
// Runs one thread an instruction at a time (the trap flag), and lets it lose its CPU for a while at the
// instruction of our choice.
namespace stepping {
thread_local std::uint64_t step = 0;
thread_local std::uint64_t rest_at = 0;
thread_local bool finished = false;
std::function<void()> rest;

constexpr long long kTrapFlag = 0x100;

void begin_on_return(int, siginfo_t*, void* context) {
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
}
void stepped(int, siginfo_t*, void* context) {
  const int error = errno;
  if (finished) static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  if (++step == rest_at) rest();
  errno = error;
}
void install() {
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_sigaction = &begin_on_return;
  CHECK(::sigaction(SIGUSR1, &action, nullptr) == 0);
  action.sa_sigaction = &stepped;
  CHECK(::sigaction(SIGTRAP, &action, nullptr) == 0);
}
// Returns how many instructions `work` took.
template <class Work>
std::uint64_t run(std::uint64_t at, Work&& work) {
  step = 0;
  rest_at = at;
  finished = false;
  ::raise(SIGUSR1);
  work();
  finished = true;
  return step;
}
}  // namespace stepping

// The writer loses its CPU behind every single instruction of a commit, while one reader is parked at that frame
// and another one comes by on its own, takes the frame and parks at the next.
void no_wake_up_is_lost_at_any_instruction() {
  const Run run(0);
  auto writer =
      open_writer(run.scratch.path(), WriterOptions{nullptr, run.control, nullptr, nullptr}, 16 * kSmallPage);
  stepping::install();
  std::array<std::atomic<std::uint64_t>, 2> taken{};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (std::uint32_t me = 0; me < 2; ++me) {
    readers.emplace_back([&, me] {
      std::vector<std::unique_ptr<Cursor>> cursors;
      cursors.push_back(open_cursor(run.scratch.path()));
      LiveMux mux(std::move(cursors));
      Waiter waiter(WaitPolicy{WaitKind::kPark, 0, 0}, run.control, nullptr, me);
      while (!done.load()) {
        Cursor* c = mux.poll();
        const std::uint64_t next = taken[me].load() + 1;
        if (c == nullptr) {
          if (next % 2 == me)
            waiter.idle(mux, monotonic_ns(), kNever);
          else
            ::sched_yield();
          continue;
        }
        CHECK_EQ(c->peek()->seq, next);
        c->advance();
        taken[me].store(next);
      }
    });
  }
  std::uint64_t instructions = 1;
  std::uint64_t seq = 0;
  const std::byte* word = nullptr;
  auto nap = [] { sleep_until_ns(monotonic_ns() + 20'000); };
  // Published already: until the other reader has taken the frame and sleeps at the next one.
  stepping::rest = [&] {
    const std::uint64_t other = (seq + 1) % 2;
    const bool published = load_word(word) != 0;
    for (int i = 0; published && i < 100; ++i) {
      if (taken[other].load() >= seq && (run.control->waiters(1).load() & (1ULL << other)) != 0) break;
      nap();
    }
    nap();
  };
  for (std::uint64_t at = 1; at <= instructions; ++at) {
    for (int turn = 0; turn < 4; ++turn) {  // each of the two in each role
      ++seq;
      for (const auto& t : taken)
        while (t.load() + 1 < seq) ::sched_yield();
      while (asleep.load() == 0) ::sched_yield();
      nap();
      std::byte* payload = writer->reserve(FrameType::kUser, 8);
      CHECK(payload != nullptr);
      std::memset(payload, 0, 8);
      word = payload - kHeaderBytes;
      const Origin none;
      const std::int64_t now = monotonic_ns();
      const std::uint64_t steps = stepping::run(at, [&] { (void)writer->commit_at(now, none); });
      instructions = std::min<std::uint64_t>(2'000, std::max(instructions, steps));
    }
  }
  for (const auto& t : taken)
    while (t.load() < seq) ::sched_yield();
  done.store(true);
  CHECK(append(*writer, 8) != 0);
  for (auto& r : readers) r.join();
  std::printf("interrupted at each of %llu instructions of a commit, %llu commits\n",
              static_cast<unsigned long long>(instructions), static_cast<unsigned long long>(seq));
}
#endif

// Loops as the processes run them: a handler per process, stop requests, consumption records.
void loops() {
  struct Counting {
    std::uint64_t frames = 0;
    bool on_frame(const FrameHeader& f) noexcept { return payload_is_whole(f) && ++frames != 0; }
    bool on_idle(std::int64_t) noexcept { return true; }
    [[nodiscard]] std::int64_t due() const noexcept { return kNever; }
    [[nodiscard]] const JournalError* error() const noexcept { return nullptr; }
  };
  const Run run(0);
  const auto helper = new_helper();
  auto writer = open_writer(run.scratch.path(), WriterOptions{helper, run.control, nullptr, nullptr});
  std::vector<std::thread> threads;
  std::array<Counting, 2> handlers;
  for (std::uint32_t i = 0; i < handlers.size(); ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::unique_ptr<Cursor>> cursors;
      cursors.push_back(open_cursor(run.scratch.path(), CursorOptions{false, true, new_helper()}));
      LiveMux mux(std::move(cursors));
      const std::string stream = "consumed" + std::to_string(i);
      ConsumptionRecord record(std::shared_ptr<StreamWriter>(
          open_writer(run.scratch.path(), WriterOptions{helper, run.control, nullptr, nullptr}, kSmallPage,
                      stream, 10 + i)));
      LoopContext context;
      context.control = run.control;
      context.counters = run.counters;
      context.slot = i + 1;
      context.wait = WaitPolicy{i == 0 ? WaitKind::kPark : WaitKind::kHybrid, 10'000, 0};
      const LoopResult result = run_loop(context, mux, record, handlers[i]);
      CHECK(result.end == LoopEnd::kStopped);
      CHECK_EQ(result.frames, handlers[i].frames);
    });
  }
  const std::uint64_t frames = 5'000;
  for (std::uint64_t i = 0; i < frames; ++i) CHECK(append(*writer, 500) != 0);
  for (std::uint32_t i = 0; i < handlers.size(); ++i) run.control->request_stop(i + 1, StopRequest::kDrain);
  for (auto& t : threads) t.join();
  for (std::uint32_t i = 0; i < handlers.size(); ++i) {
    CHECK_EQ(handlers[i].frames, frames);  // a drain leaves nothing behind
    CHECK_EQ(run.counters->block(i + 1).get_consumed(1), frames);
    const auto cursor = open_cursor(run.scratch.path(), {}, "consumed" + std::to_string(i));
    std::uint64_t recorded = 0;
    while (const FrameHeader* f = cursor->peek()) {
      const auto* entries =
          reinterpret_cast<const ConsumedEntry*>(reinterpret_cast<const std::byte*>(f) + kHeaderBytes);
      for (std::uint32_t k = 0; k < (f->length - kHeaderBytes) / sizeof(ConsumedEntry); ++k) {
        recorded += entries[k].frames;
        CHECK_EQ(entries[k].up_to_seq, recorded);
      }
      cursor->advance();
    }
    CHECK_EQ(recorded, frames);
  }
}

}  // namespace

int main() {
  const std::uint64_t frames = (kSanitized ? 20'000 : 100'000) * stress_factor();
  writer_and_readers(frames);
  no_wake_up_is_lost(frames / 4);
#if defined(__x86_64__)
  if (!kSanitized) no_wake_up_is_lost_at_any_instruction();
#endif
  loops();
  std::printf("wake-ups: %llu waits, lost %llu\n", static_cast<unsigned long long>(waits.load()),
              static_cast<unsigned long long>(lost_wakes.load()));
  // One may time out at the very moment that the frame is published.
  CHECK(lost_wakes.load() <= 1 + waits.load() / 10'000);
}
