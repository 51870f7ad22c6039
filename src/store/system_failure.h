// What the system refused, as a Failure.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace backstay::store {

/// "cannot ACTION PATH: REASON; what to do", with the Code that belongs to `error`, a value of errno: no_space (ENOSPC,
/// EDQUOT), permission (EACCES, EPERM, EROFS), not_found (ENOENT), io for all others.
Failure system_failure(std::string_view action, const std::string& path, int error);

/// Code::corrupt: only `got` of `wanted` bytes at `offset` of `path` are there.
Failure ends_early(const std::string& path, std::uint64_t offset, std::size_t got, std::size_t wanted);

/// Calls again while a signal interrupts; `call` returns a negative number and sets errno on failure.
template <class Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace backstay::store
