#include <cstdio>
#include <cstdlib>

#include "target.h"

namespace backstay::fuzz {

void expect(bool holds, const char* sentence) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", sentence);
  std::abort();
}

}  // namespace backstay::fuzz
