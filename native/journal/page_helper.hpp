// The low-priority thread that prepares, maps and unmaps pages, so that a hot thread never does.
//
// A client raises `wanted` and signals; the thread calls work() until it returns true. It does not
// inherit the hot pin: the caller names the CPUs it may use.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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
    // One job on the helper thread. False: not possible yet, ask again in a millisecond.
    virtual bool work() noexcept = 0;

   private:
    friend class PageHelper;
    std::atomic<bool> wanted_{false};
  };

  explicit PageHelper(std::vector<int> cpus) : cpus_(std::move(cpus)), thread_([this] { run(); }) {}
  PageHelper(const PageHelper&) = delete;
  PageHelper& operator=(const PageHelper&) = delete;
  ~PageHelper() {
    stopping_.store(true, std::memory_order_release);
    ring();
    thread_.join();
  }

  void attach(Client& client) {
    const std::lock_guard lock(mutex_);
    clients_.push_back(&client);
  }
  // Returns once the thread no longer touches the client.
  void detach(Client& client) {
    const std::lock_guard lock(mutex_);
    std::erase(clients_, &client);
  }
  // Callable from a hot thread: at most one wake-up call, once per page.
  void request(Client& client) noexcept {
    client.wanted_.store(true, std::memory_order_release);
    ring();
  }

 private:
  void ring() noexcept {
    signal_.fetch_add(1, std::memory_order_release);
    signal_.notify_one();
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
    while (!stopping_.load(std::memory_order_acquire)) {
      const unsigned seen = signal_.load(std::memory_order_acquire);
      bool again = false;
      {
        const std::lock_guard lock(mutex_);
        for (Client* c : clients_) {
          if (!c->wanted_.exchange(false, std::memory_order_acq_rel)) continue;
          if (!c->work()) {
            c->wanted_.store(true, std::memory_order_release);
            again = true;
          }
        }
      }
      if (again) {
        const timespec pause{0, 1'000'000};
        ::nanosleep(&pause, nullptr);
      } else {
        signal_.wait(seen, std::memory_order_acquire);
      }
    }
  }

  std::vector<int> cpus_;
  std::mutex mutex_;
  std::vector<Client*> clients_;
  std::atomic<unsigned> signal_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tapewire
