// SIGTERM as a flag that native loops look at; no Python runs in between.
#pragma once

#include <signal.h>

#include <atomic>

namespace tapewire {

inline std::atomic<bool> g_stop_signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

inline void install_stop_signal() noexcept {
  struct sigaction action{};
  action.sa_handler = [](int) { g_stop_signalled.store(true, std::memory_order_relaxed); };
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}
[[nodiscard]] inline bool stop_signalled() noexcept {
  return g_stop_signalled.load(std::memory_order_relaxed);
}

}  // namespace tapewire
