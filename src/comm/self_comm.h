// A group of one: no MPI at all.
#pragma once

#include "comm/comm.h"

namespace backstay::comm {

std::unique_ptr<Comm> make_self_comm();

}  // namespace backstay::comm
