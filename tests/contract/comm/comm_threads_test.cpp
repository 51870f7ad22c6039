// The contract on one process and on threads.
#include "../comm_contract.h"
#include "comm/fake_comm.h"
#include "comm/self_comm.h"

namespace backstay::comm::contract {
namespace {

Ranks threads(int size) {
  return {cat("threads_", size), [size](const Body& body, milliseconds timeout) { run_ranks(size, body, timeout); }};
}

Ranks one_process() {
  return {"one_process", [](const Body& body, milliseconds) { body(*make_self_comm()); }};
}

INSTANTIATE_TEST_SUITE_P(Self, CommContract, ::testing::Values(one_process()), name_of);
INSTANTIATE_TEST_SUITE_P(Fake, CommContract,
                         ::testing::Values(threads(1), threads(2), threads(3), threads(4), threads(8)), name_of);

}  // namespace
}  // namespace backstay::comm::contract
