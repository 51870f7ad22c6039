// The regions of a session, in the order in which they were protected.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backstay/types.hpp"
#include "base/bytes.h"
#include "base/result.h"

namespace backstay::region {

/// "u" for sentences, with shape: "float64 [64, 64, 32]".
std::string describe_type(const Type& type);
std::string describe_shape(const Extents& shape);
/// Number of elements; 1 for a scalar.
std::uint64_t element_count(const Extents& shape);

class RegionSet {
 public:
  /// At the end; a name that was removed comes back to where it was, as another process may never have removed it.
  /// Code::invalid_argument: a name in use, a name below another region's (a file cannot have both), no way to read or
  /// write it, more than 7 dimensions, a placement that does not fit, a type that no file can describe.
  Result<void> add(RegionSpec spec);
  /// The first two of these reasons alone.
  [[nodiscard]] Result<void> require_free(const std::string& name) const;
  /// Code::not_found.
  Result<void> remove(std::string_view name);
  /// Those whose names are not in `names` are removed, and their places forgotten.
  void keep_only(const std::vector<std::string>& names);
  [[nodiscard]] std::vector<std::string> names() const;

  [[nodiscard]] const std::vector<RegionSpec>& specs() const { return specs_; }
  /// Grows whenever a region is added or removed.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  [[nodiscard]] const RegionSpec* find(std::string_view name) const;

  /// One line for each region with all that must be the same on every rank: name, type, placement, global shape.
  [[nodiscard]] std::vector<std::string> signature() const;

 private:
  [[nodiscard]] const std::string* nested_with(const std::string& name) const;

  std::vector<RegionSpec> specs_;
  std::uint64_t changes_ = 0;
  std::map<std::string, std::size_t, std::less<>> at_;  ///< where each name stands in specs_
  std::map<std::string, std::uint64_t, std::less<>>
      turn_;  ///< of each name, removed ones too: specs_ are in this order
  std::uint64_t next_turn_ = 0;
};

/// Whether memory that looks like `view` can be saved for `spec`: shape, strides, block, list. A sentence if not.
Result<void> check_view(const RegionSpec& spec, const View& view);

/// What was saved with `shape` does not fit the memory of `spec`.
Failure cannot_hold(const RegionSpec& spec, const Extents& shape);
/// Its memory now. Code::user where the program's own function throws.
Result<View> look_at(const RegionSpec& spec);
/// It is protected with that shape now.
bool has_shape(const RegionSpec& spec, const Extents& shape);
/// Of a region of which a line has nothing but the `shape`: it has that shape now; or it is a cell list, which keeps
/// the counts that the program has.
bool stays_as_it_is(const RegionSpec& spec, const Extents& shape);
/// The memory of `spec`, made ready to take `shape`. Code::mismatch where it cannot, Code::user where that threw.
Result<View> memory_for(const RegionSpec& spec, const Extents& shape);
/// The same for a part of the elements: the others are as they were, if the shape is the same.
Result<View> memory_for_a_part(const RegionSpec& spec, const Extents& shape);
/// Gaps of the elements (RegionSpec::padding), which hold what was there by chance, become zeros.
void clear_padding(const RegionSpec& spec, std::span<std::byte> elements);

/// The CRC-32C of its elements, packed, with zeros where the type has padding. `view` is the region's.
std::uint32_t checksum_without_padding(const RegionSpec& spec, const View& view);
/// That memory holds now what was to be put back into it. Code::user where the program cannot take it.
Result<void> hand_over(const RegionSpec& spec);
/// What a region's callbacks saved, given back to them: what this rank saved (`by_one`), or what each of the old ranks
/// did, in their order, to rank `rank` of `ranks`. Code::user where they fail.
Result<void> load(const RegionSpec& spec, std::span<const ByteView> saved, bool by_one, int rank, int ranks);

}  // namespace backstay::region
