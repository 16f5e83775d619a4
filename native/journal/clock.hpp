// The one clock of the runtime: CLOCK_MONOTONIC nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace tapewire {

[[nodiscard]] inline std::int64_t monotonic_ns() noexcept {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

// Sleeps until the monotonic time `due_ns`; returns early on a signal.
inline void sleep_until_ns(std::int64_t due_ns) noexcept {
  if (due_ns <= 0) return;
  timespec ts{static_cast<time_t>(due_ns / 1'000'000'000), static_cast<long>(due_ns % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, nullptr);
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tapewire
