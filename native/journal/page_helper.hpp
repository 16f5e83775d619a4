// The low-priority thread that prepares, maps and unmaps pages, so that a hot thread never does.
//
// A client raises `wanted`; the thread sees it at its next look and calls work() until that returns
// true. Waking it at once would cost the hot thread an inter-processor interrupt, tens of microseconds
// in a virtual machine, so only hurry() does that, rarely. The thread does not inherit the hot pin: the
// caller names the CPUs it may use.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tapewire {

class PageHelper {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    // One job on the helper thread. False: not possible yet, to be tried again at the next look.
    virtual bool work() noexcept = 0;

   private:
    friend class PageHelper;
    std::atomic<bool> wanted_{false};
  };

  explicit PageHelper(std::vector<int> cpus) : cpus_(std::move(cpus)), thread_([this] { run(); }) {}
  PageHelper(const PageHelper&) = delete;
  PageHelper& operator=(const PageHelper&) = delete;
  ~PageHelper() {
    if (forked()) {  // the thread stayed in the parent, and nobody can wait for it here
      thread_.detach();
      return;
    }
    stopping_.store(true, std::memory_order_release);
    hurry();
    thread_.join();
  }

  void attach(Client& client) {
    const std::lock_guard lock(mutex_);
    clients_.push_back(&client);
  }
  // Returns once the thread no longer touches the client.
  void detach(Client& client) {
    if (forked()) return;  // where the mutex may have been copied while it was held
    const std::lock_guard lock(mutex_);
    std::erase(clients_, &client);
  }
  // Callable from a hot thread: one store.
  void request(Client& client) noexcept { client.wanted_.store(true, std::memory_order_release); }
  // Has the thread look now; a system call.
  void hurry() noexcept {
    signal_.fetch_add(1, std::memory_order_release);
    ::syscall(SYS_futex, futex_word(), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  // Often while pages come and go (for a second after the last), else seldom: every look takes a CPU from
  // whoever runs there, and 50 of them a second raised the p90 of a strategy's latency by half.
  static constexpr long kBusyLookNs = 2'000'000;
  static constexpr long kQuietLookNs = 500'000'000;
  static constexpr int kBusyLooks = 500;

  [[nodiscard]] bool forked() const noexcept { return ::getpid() != owner_; }
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  [[nodiscard]] std::uint32_t* futex_word() noexcept { return reinterpret_cast<std::uint32_t*>(&signal_); }
  void sleep(std::uint32_t seen, bool busy) noexcept {
    const timespec look{0, busy ? kBusyLookNs : kQuietLookNs};
    ::syscall(SYS_futex, futex_word(), FUTEX_WAIT_PRIVATE, seen, &look, nullptr, 0);
  }

  void lower_priority() noexcept {
    const sched_param normal{};
    ::sched_setscheduler(0, SCHED_OTHER, &normal);
    const auto tid = static_cast<id_t>(::syscall(SYS_gettid));
    ::setpriority(PRIO_PROCESS, tid, 10);
    if (cpus_.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int c : cpus_) CPU_SET(static_cast<std::size_t>(c), &set);
    ::sched_setaffinity(0, sizeof set, &set);
  }

  void run() noexcept {
    lower_priority();
    int busy_looks = 0;
    for (;;) {
      const std::uint32_t seen = signal_.load(std::memory_order_acquire);  // before the look it must not miss
      if (stopping_.load(std::memory_order_acquire)) return;
      {
        const std::lock_guard lock(mutex_);
        for (Client* c : clients_) {
          if (!c->wanted_.exchange(false, std::memory_order_acq_rel)) continue;
          if (c->work())
            busy_looks = kBusyLooks;
          else
            c->wanted_.store(true, std::memory_order_release);
        }
      }
      sleep(seen, busy_looks > 0);
      if (busy_looks > 0) --busy_looks;
    }
  }

  std::vector<int> cpus_;
  const pid_t owner_ = ::getpid();
  std::mutex mutex_;
  std::vector<Client*> clients_;
  std::atomic<std::uint32_t> signal_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tapewire
