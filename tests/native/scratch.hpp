// A directory that lives as long as a test, and what the journal tests do with files.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"

namespace tapewire::testing {

// In shared memory where that is writable: a page is pre-faulted whole, which a disk would then write out.
class Scratch {
 public:
  Scratch() {
    const char* base = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    std::string pattern = std::string(base) + "/tapewire-test-XXXXXX";
    CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
    if (all().empty()) {
      (void)owner();
      std::atexit([] { remove_all(); });
    }
    all().push_back(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  // A failed CHECK ends the process without unwinding; a forked child must leave its parent's files alone.
  static std::vector<std::string>& all() {
    static auto* const paths = new std::vector<std::string>;
    return *paths;
  }
  static void remove_all() {
    std::error_code ignored;
    if (::getpid() == owner())
      for (const auto& path : all()) std::filesystem::remove_all(path, ignored);
  }
  static pid_t owner() {
    static const pid_t pid = ::getpid();
    return pid;
  }

  std::string path_;
};

[[nodiscard]] inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CHECK(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CHECK(out.good());
}

// tests/data/journal_v1/<name>, the one page of a golden journal.
[[nodiscard]] inline std::string golden_page(const std::string& name) {
  const auto here = std::filesystem::path(__FILE__).parent_path();
  return (here.parent_path() / "data" / "journal_v1" / name / "journal" / "md" / "00000001.page").string();
}

// Sanitized builds run the same tests with fewer repetitions.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The seed of a randomized test: TAPEWIRE_SEED, or a fixed one so that a run can be repeated.
[[nodiscard]] inline std::uint64_t seed() {
  const char* text = std::getenv("TAPEWIRE_SEED");
  return text == nullptr ? 20'240'808 : std::strtoull(text, nullptr, 10);
}

}  // namespace tapewire::testing
