#include "check/place.h"

#include <dlfcn.h>
#include <elf.h>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#include <link.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/text.h"

namespace backstay::check {

namespace {
/// A program that is linked to a fixed place has its addresses as they are.
bool is_at_a_fixed_place(const void* base) {
  ElfW(Ehdr) header;
  std::memcpy(&header, base, sizeof header);
  return header.e_type == ET_EXEC;
}

bool find(std::uintptr_t code, Dl_info& info) {
  return code != 0 && dladdr(reinterpret_cast<const void*>(code), &info) != 0 && info.dli_fname != nullptr;
}

bool is_of_the_c_library(const Dl_info& info) {
  const std::string_view path = info.dli_fname;
  return path.substr(path.rfind('/') + 1).starts_with("libc.so");
}
}  // namespace

CodePlace place_of(std::uintptr_t code, std::uintptr_t caller) {
  Dl_info info{}, of_caller{};
  if (!find(code, info)) return {};
  if (is_of_the_c_library(info) && find(caller, of_caller)) {
    info = of_caller;
    code = caller - 1;
  }
  const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  return {info.dli_fname, is_at_a_fixed_place(info.dli_fbase) ? code : code - base,
          info.dli_sname != nullptr ? info.dli_sname : ""};
}

namespace {
std::string& told_caller() {
  thread_local std::string place;
  return place;
}

thread_local int wrappers = 0;
}  // namespace

void set_caller(std::string place) { told_caller() = std::move(place); }

BehindWrapper::BehindWrapper() { ++wrappers; }
BehindWrapper::~BehindWrapper() { --wrappers; }

CodePlace place_of_caller() {
  if (!told_caller().empty()) return {told_caller(), 0, ""};
#if __has_include(<execinfo.h>)
  constexpr int most = 64;
  std::array<void*, most> frames{};
  const int count = backtrace(frames.data(), most);
  Dl_info own{}, info{};
  if (dladdr(reinterpret_cast<const void*>(&told_caller), &own) == 0) return {};
  int to_pass_over = wrappers;
  for (int i = 0; i < count; ++i) {
    const auto code = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(i)]);
    if (!find(code, info) || info.dli_fbase == own.dli_fbase) continue;
    const std::string_view path = info.dli_fname;
    if (path.substr(path.rfind('/') + 1).starts_with("libbackstay")) continue;
    if (to_pass_over-- == 0) return place_of(code - 1, 0);
  }
#endif
  return {};
}

std::string describe(const CodePlace& place) {
  if (place.program.empty()) return "";
  const auto digits = hex16(place.offset);
  const auto first = digits.find_first_not_of('0');
  return cat("at ", place.program.substr(place.program.rfind('/') + 1), "+0x",
             first == std::string::npos ? "0" : digits.substr(first),
             place.function.empty() ? "" : cat(", in ", place.function));
}

}  // namespace backstay::check
