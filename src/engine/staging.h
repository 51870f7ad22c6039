// Staging memory, and the capture of all regions into it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "format/data_file.h"
#include "region/pack.h"
#include "region/region_set.h"

namespace backstay::engine {

/// Page-aligned memory that is touched when it is made, so that a capture never waits for fresh pages.
class StagingBuffer {
 public:
  /// At least `bytes` of memory, in which the first `used` ones are kept. Code::limit when the system has no more.
  Result<void> reserve(std::uint64_t bytes, std::uint64_t used = 0);
  [[nodiscard]] std::byte* data() const { return memory_ ? memory_->data : nullptr; }
  /// Shared ownership, for a network that may go on reading after a failure.
  [[nodiscard]] std::shared_ptr<const void> keep() const { return memory_; }
  [[nodiscard]] std::uint64_t capacity() const { return memory_ ? memory_->size : 0; }

 private:
  struct Mapping {
    std::byte* data = nullptr;
    std::uint64_t size = 0;
    Mapping() = default;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();
  };
  bool grow(std::uint64_t wanted);

  std::shared_ptr<Mapping> memory_;
};

/// One checkpoint of one rank in staging memory: its area as it will lie in the file.
struct Capture {
  StagingBuffer buffer;
  std::uint64_t size = 0;                 ///< of the area
  std::vector<format::Segment> segments;  ///< offsets from the start of the area
  std::vector<format::LeftOut> left_out;
  void clear() {
    size = 0;
    segments.clear();
    left_out.clear();
  }
  [[nodiscard]] ByteView bytes() { return {buffer.data(), static_cast<std::size_t>(size)}; }
};

struct CaptureOptions {
  int rank = 0;
  int threads = 1;
  std::uint64_t limit = 0;  ///< most bytes of staging memory in one capture; 0: none
};

/// Whether a region like this can be saved as it is now, and read again: found when it is protected, and not only when
/// a line is written. Code::invalid_argument. Callbacks are not called.
Result<void> check_storable(const RegionSpec& spec);

/// Copies all regions into `target`, padding zeroed, CRCs computed on the way.
/// Code::invalid_argument: a region that cannot be saved now; Code::limit; Code::user: a save callback threw.
Result<void> capture_regions(const region::RegionSet& regions, const CaptureOptions& options, Capture& target);

/// A region that is to be captured, or a box of it.
struct Wanted {
  const RegionSpec* spec = nullptr;
  std::optional<region::Box> part = {};  ///< in the shape of its memory, which has no run lengths; none: all of it
};

/// The same for `some` of them, behind what `target` holds: what they are at this moment.
Result<void> capture_more(const std::vector<Wanted>& some, const CaptureOptions& options, Capture& target);

/// Where a segment lies in its region, on the rank that saved it.
region::Box box_in_region(const format::Segment& segment);

/// The inverse, on the rank that captured: what its regions held then. Those that `source` has not are left alone.
/// Code::mismatch and Code::user as for a resume.
Result<void> put_back_regions(const region::RegionSet& regions, Capture& source);

}  // namespace backstay::engine
