// A thread of the idle class that spins on a CPU, so that the CPU never sleeps: a parked process then
// wakes without the way out of a C-state (and, in a virtual machine, out of a halt). Anything else that
// wants the CPU gets it at once. Costs a whole CPU's power; the `tail` latency profile asks for it.
#pragma once

#include <sched.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "journal/clock.hpp"

namespace tapewire {

class Keeper {
 public:
  explicit Keeper(const std::vector<int>& cpus) {
    for (const int cpu : cpus) threads_.emplace_back([this, cpu] { spin(cpu); });
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() { stop(); }

  void stop() noexcept {
    stopping_.store(true, std::memory_order_relaxed);
    for (auto& t : threads_)
      if (t.joinable()) t.join();
  }
  [[nodiscard]] std::size_t threads() const noexcept { return threads_.size(); }

 private:
  void spin(int cpu) const noexcept {
    const sched_param none{};
    // Without the idle class it would compete: better no keeper than that.
    if (::sched_setscheduler(0, SCHED_IDLE, &none) != 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) return;
    while (!stopping_.load(std::memory_order_relaxed)) cpu_relax();
  }

  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tapewire
