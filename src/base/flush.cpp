#include "base/flush.h"

#include <cstdio>

namespace backstay {

void flush_all_files() {
  const bool is_free = ftrylockfile(stdin) == 0;
  if (is_free || ftrylockfile(stdout) == 0) {
    std::fflush(is_free ? nullptr : stdout);
    funlockfile(is_free ? stdin : stdout);
  }
}

}  // namespace backstay
