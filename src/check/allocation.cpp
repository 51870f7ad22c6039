#include "check/allocation.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <array>

namespace backstay::check {

namespace {
std::string_view file_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool begins_with_one_of(std::string_view text, const auto& beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view begin) { return text.starts_with(begin); });
}

bool is_listed(std::string_view file, std::string_view libraries) {
  while (!libraries.empty()) {
    const auto end = std::min(libraries.find(':'), libraries.size());
    if (libraries.substr(0, end) == file) return true;
    libraries.remove_prefix(std::min(end + 1, libraries.size()));
  }
  return false;
}

/// The file that was started.
const void* program_base() {
  static const void* const base = [] {
    Dl_info info{};
    const auto headers = getauxval(AT_PHDR);
    return dladdr(reinterpret_cast<const void*>(headers), &info) != 0 ? info.dli_fbase : nullptr;
  }();
  return base;
}

/// That is none of ours to judge: its arrays are objects of the language.
bool is_interpreter(const void* base) {
  Dl_info info{};
  void* const known = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  return known != nullptr && dladdr(known, &info) != 0 && info.dli_fbase == base;
}

/// In the runtime of C++ these take memory for whoever calls them: operator new, and what strings are made of.
bool passes_on(std::string_view file, std::string_view function) {
  constexpr std::array runtimes{"libstdc++.so", "libc++.so", "libc++abi.so"};
  constexpr std::array operators{"_Znw", "_Zna"};
  return begins_with_one_of(file, runtimes) &&
         (begins_with_one_of(function, operators) || function.find("basic_string") != function.npos);
}

std::string name_of(std::string_view file) {
  constexpr std::array c{"libc.so", "libc-", "ld-linux", "libm.so", "libpthread"};
  constexpr std::array cpp{"libstdc++.so", "libc++.so", "libc++abi.so"};
  constexpr std::array fortran{"libgfortran.so", "libflang", "libifcore"};
  if (begins_with_one_of(file, c)) return "the C library";
  if (begins_with_one_of(file, cpp)) return "the C++ library";
  if (begins_with_one_of(file, fortran)) return "the Fortran library";
  if (file.starts_with("libbackstay")) return "backstay";
  return std::string(file);
}
}  // namespace

Maker maker_of(const Allocation& allocation, std::string_view libraries) {
  Maker out;
  for (const void* const code : allocation.stack) {
    Dl_info info{};
    // The call stands before the place where it returns to.
    const auto at = reinterpret_cast<std::uintptr_t>(code) - 1;
    const bool is_known = dladdr(reinterpret_cast<const void*>(at), &info) != 0 && info.dli_fname != nullptr;
    const std::string_view file = is_known ? file_of(info.dli_fname) : std::string_view();
    const bool is_program =
        is_known && (info.dli_fbase == program_base() ? !is_interpreter(info.dli_fbase) : is_listed(file, libraries));
    if (is_program) {
      out.is_program = true;
      out.callers.push_back(place_of(at, 0));
    } else if (!out.is_program) {
      if (is_known && passes_on(file, info.dli_sname != nullptr ? info.dli_sname : "")) continue;
      out.name = is_known ? name_of(file) : "code of no file";
      if (is_known && info.dli_fbase == program_base()) out.name = "Python";
      return out;
    }
  }
  if (!out.is_program) out.name = "code that is not known";
  return out;
}

}  // namespace backstay::check
