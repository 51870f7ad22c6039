#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/text.h"
#include "check/access_check.h"

namespace backstay::check {

namespace {
/// In single quotes for a shell.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// FILE:LINE, or nothing.
std::string line_in(const std::string& program, std::uintptr_t offset) {
  const std::string command = cat("addr2line -e ", quoted(program), " 0x", hex16(offset), " 2>/dev/null");
  FILE* const answer = popen(command.c_str(), "r");
  if (answer == nullptr) return "";
  std::array<char, 1000> text{};
  const bool said = std::fgets(text.data(), static_cast<int>(text.size()), answer) != nullptr;
  const bool done = pclose(answer) == 0;
  std::string line = said && done ? std::string(text.data()) : std::string();
  line = line.substr(0, line.find_first_of(" \n"));  // behind it may stand a discriminator
  return line.starts_with("?") || line.ends_with(":?") || line.ends_with(":0") ? "" : line;
}
}  // namespace

std::string place_of(std::uintptr_t code) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(code), &info) == 0 || info.dli_fname == nullptr)
    return cat("at address ", code);
  const auto offset = code - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  // A program at a fixed place has its addresses as they are.
  for (const auto at : {offset, code})
    if (const std::string line = line_in(info.dli_fname, at); !line.empty()) return cat("at ", line);
  return cat("at ", info.dli_fname, "+", offset, info.dli_sname != nullptr ? cat(" in ", info.dli_sname) : "");
}

}  // namespace backstay::check
