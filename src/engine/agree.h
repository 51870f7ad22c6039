// One answer for all ranks.
#pragma once

#include <exception>
#include <new>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "comm/comm.h"

namespace backstay::engine {

/// Collective: success if every rank brings success; otherwise the failure of the lowest rank that failed, with its
/// number before the sentence, the same on every rank. A failure of `comm` itself is returned as it is.
Result<void> agree(comm::Comm& comm, const Result<void>& mine);

/// Collective: what every rank brings, in rank order, if every rank brings something; otherwise as agree().
Result<std::vector<Bytes>> gather(comm::Comm& comm, const Result<Bytes>& mine);

/// Other ranks wait for this one where it was when memory ran out, so it cannot just go on: a sentence, and the end.
[[noreturn]] void end_where_others_wait(const char* doing, const std::exception& why);

/// Collective: runs `body`, in which ranks wait for each other without a bound.
template <class Body>
auto together(comm::Comm& comm, const char* doing, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc& e) {
    if (comm.size() == 1) throw;
    end_where_others_wait(doing, e);
  }
}

}  // namespace backstay::engine
