// Memory to be filled, used again and again.
#pragma once

#include <memory>

#include "base/bytes.h"

namespace backstay {

/// Grows when more is asked for, and then holds anything; what is never asked for costs nothing. Not zeroed, unlike
/// Bytes: the memory is touched by who fills it only.
class Scratch {
 public:
  MutableByteView of(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return {memory_.get(), bytes};
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace backstay
