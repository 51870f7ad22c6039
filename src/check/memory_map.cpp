#include "check/memory_map.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "check/own_pages.h"

namespace backstay::check {

/// A line is "begin-end rw-p offset device inode name". Pages of files, shared ones, and huge ones (of a file, too)
/// are left out, and so is the stack, which the kernel itself writes to.
Ranges own_memory(std::istream& maps) {
  Ranges out;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0, inode = 1;
    char access[5] = {}, name[16] = {};
    const int fields = std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNuPTR " %15s", &begin,
                                   &end, access, &inode, name);
    if (fields < 4 || std::string(access) != "rw-p" || inode != 0) continue;
    const std::string what = name;
    if (!what.empty() && what != "[heap]" && !what.starts_with("[anon:")) continue;
    out.emplace_back(reinterpret_cast<std::byte*>(begin), reinterpret_cast<std::byte*>(end));
  }
  return joined(std::move(out));
}

Ranges own_memory() {
  std::ifstream maps("/proc/self/maps");
  return own_memory(maps);
}

Ranges common(const Ranges& a, const Ranges& b) {
  Ranges out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const auto begin = std::max(a[i].first, b[j].first), end = std::min(a[i].second, b[j].second);
    if (begin < end) out.emplace_back(begin, end);
    ++(a[i].second < b[j].second ? i : j);
  }
  return out;
}

Ranges joined(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges out;
  for (const auto& range : ranges) {
    if (range.first >= range.second) continue;
    if (!out.empty() && range.first <= out.back().second)
      out.back().second = std::max(out.back().second, range.second);
    else
      out.push_back(range);
  }
  return out;
}

Ranges whole_pages(const Ranges& ranges) {
  Ranges out;
  for (const auto& [begin, end] : ranges)
    if (page_behind(begin) < page_of(end)) out.emplace_back(page_behind(begin), page_of(end));
  return out;
}

}  // namespace backstay::check
