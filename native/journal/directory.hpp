// What page files a stream's directory holds.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "journal/page.hpp"

namespace tapewire {

// Page numbers present in `dir`, ascending. Temporary pages and other files do not count.
inline std::vector<std::uint64_t> list_pages(const std::string& dir) {
  std::vector<std::uint64_t> numbers;
  DIR* d = ::opendir(dir.c_str());
  if (d == nullptr) return numbers;
  while (const dirent* entry = ::readdir(d)) {
    const std::string_view name(entry->d_name);
    std::uint64_t n = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
    if (error == std::errc{} && n != 0 && name == page_name(n)) numbers.push_back(n);
  }
  ::closedir(d);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace tapewire
