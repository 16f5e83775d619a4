// What can go wrong with a journal. Thrown off the hot path only; the bindings turn each kind into
// its Python class (tapewire.journal.errors).
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace tapewire {

enum class ErrorKind {
  kFull,
  kLocked,
  kCorrupt,
  kVersion,
  kNotAJournal,
  kGap,
  kStreamNotFound,
  kFrameTooLarge,
  kJoinTimeout,
  kSystem,
};

struct JournalError : std::exception {
  JournalError(ErrorKind kind_, std::string message_, std::string path_ = {})
      : kind(kind_), message(std::move(message_)), path(std::move(path_)) {}
  [[nodiscard]] const char* what() const noexcept override { return message.c_str(); }

  ErrorKind kind;
  std::string message;
  std::string path;
  std::uint64_t page = 0;
  std::uint64_t offset = 0;
  std::uint64_t seq = 0;
  std::uint64_t previous_seq = 0;
  std::uint64_t bytes_needed = 0;
};

}  // namespace tapewire
