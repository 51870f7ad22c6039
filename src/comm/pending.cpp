#include "comm/comm.h"
#include "comm/patience.h"

namespace backstay::comm {

Result<void> finish(const std::vector<std::unique_ptr<Pending>>& under_way) {
  for (Backoff backoff;; backoff.sleep()) {
    bool all = true;
    for (const auto& operation : under_way) {  // each is looked at, as that carries it on
      const auto done = operation->test();
      if (!done) return done.failure();
      all = all && *done;
    }
    if (all) return {};
  }
}

}  // namespace backstay::comm
