// When a loop may yield: an occasional slow yield changes nothing, a CPU-bound neighbour blocks for longer and
// longer, and peace restores everything. Driven with made-up times.
#include "check.hpp"
#include "ipc/yield_guard.hpp"

using tapewire::YieldGuard;

namespace {

constexpr std::int64_t kMs = 1'000'000;

void quick_yields_are_always_allowed() {
  YieldGuard guard;
  for (std::int64_t now = 0; now < 100 * kMs; now += kMs) {
    CHECK(guard.allowed(now));
    CHECK(guard.note(now, now + YieldGuard::kSlowYieldNs));
  }
  CHECK_EQ(guard.backoff_ns(), 0);
}

void a_daemon_now_and_then_does_not_stop_the_yielding() {
  YieldGuard guard;
  for (std::int64_t now = 0; now < 2'000 * kMs; now += 25 * kMs) {
    CHECK(!guard.note(now, now + kMs));
    CHECK(guard.allowed(now + kMs + 1));
  }
}

void a_cpu_bound_neighbour_is_met_by_blocking_for_up_to_a_second() {
  YieldGuard guard;
  std::int64_t now = 0;
  std::int64_t longest = 0;
  int slow = 0;
  while (now < 20'000 * kMs) {
    if (!guard.allowed(now)) {
      now += kMs / 10;
      continue;
    }
    for (int i = 0; i < 1'000;
         ++i) {  // what credit after the blocking allows: it must not be taken for peace
      CHECK(guard.note(now, now + 500));
      now += 500;
    }
    CHECK(!guard.note(now, now + 3 * kMs));
    now += 3 * kMs;
    CHECK(guard.backoff_ns() >= longest);
    longest = guard.backoff_ns();
    ++slow;
  }
  CHECK_EQ(longest, YieldGuard::kLongestBackoffNs);
  CHECK(slow < 40);  // and not one per event
  // It leaves: after the last back-off yields are quick, and one more slow one is nothing.
  now += YieldGuard::kLongestBackoffNs;
  CHECK(guard.allowed(now));
  now += 3 * YieldGuard::kLongestBackoffNs;
  CHECK(!guard.note(now, now + kMs));
  CHECK(guard.allowed(now + kMs + 1));
}

}  // namespace

int main() {
  quick_yields_are_always_allowed();
  a_daemon_now_and_then_does_not_stop_the_yielding();
  a_cpu_bound_neighbour_is_met_by_blocking_for_up_to_a_second();
  return 0;
}
