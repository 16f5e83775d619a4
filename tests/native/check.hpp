// A check that stays on in release builds and says where it failed; the tests need no framework.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace tapewire::testing {

[[noreturn]] inline void fail(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
  std::exit(1);
}

template <typename A, typename B>
[[noreturn]] void fail_equal(const char* file, int line, const char* what, const A& got, const B& want) {
  std::cerr << file << ':' << line << ": check failed: " << what << "\n  got  " << +got << "\n  want "
            << +want << '\n';
  std::exit(1);
}

// How much longer than usual a randomized test should run: 1, or TAPEWIRE_STRESS of the environment.
inline unsigned long stress_factor() {
  const char* text = std::getenv("TAPEWIRE_STRESS");
  const unsigned long factor = text == nullptr ? 1 : std::strtoul(text, nullptr, 10);
  return factor == 0 ? 1 : factor;
}

}  // namespace tapewire::testing

// CHECK(condition): ends the test with file, line and the condition's text.
#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) ::tapewire::testing::fail(__FILE__, __LINE__, #condition); \
  } while (false)

// CHECK_EQ(got, want): also prints both values (numbers; compare strings with CHECK).
#define CHECK_EQ(got, want)                                                                          \
  do {                                                                                               \
    const auto check_got = (got);                                                                    \
    const auto check_want = (want);                                                                  \
    if (!(check_got == check_want))                                                                  \
      ::tapewire::testing::fail_equal(__FILE__, __LINE__, #got " == " #want, check_got, check_want); \
  } while (false)
