// Ranks that are threads of one process, for tests.
#pragma once

#include <functional>

#include "comm/comm.h"

namespace backstay::comm {

/// Runs `body(comm)` on `size` threads, each a rank; returns when all have returned. An exception in a body is thrown
/// again here. Messages are copied through a mailbox under one lock; waits are bounded by `timeout`.
void run_ranks(int size, const std::function<void(Comm&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace backstay::comm
