// One answer for all ranks.
#pragma once

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

}  // namespace backstay::engine
