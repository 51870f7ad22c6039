// When a communicator may be revoked.
#pragma once

#include <chrono>

namespace backstay::comm {

/// A communicator was made here at that time. Until it may be revoked, which Open MPI 5.0 does not bear while others
/// are still making it: at once where it can be kept from using such ones. That is where the program was linked with
/// this library; in Python only where `import backstay` came before that of mpi4py. Elsewhere: a quarter of a second
/// after.
void wait_until_revocable(std::chrono::steady_clock::time_point made);

}  // namespace backstay::comm
