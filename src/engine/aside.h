// What a line holds, in memory of its own, until the program's memory is ready to take it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engine/line_reader.h"
#include "region/region_set.h"

namespace backstay::engine {

/// Regions like those of a program, of the same types, shapes and placements, into which a line is read; the program's
/// own stay as they are until put_back().
class Aside {
 public:
  explicit Aside(const region::RegionSet& regions);
  Aside(Aside&&) = delete;  // its regions know where it lies
  Aside& operator=(Aside&&) = delete;

  region::RegionSet& regions() { return regions_; }
  /// The line held nothing of the others: they are not put back.
  void keep_only(const std::vector<std::string>& names);
  std::vector<NotThere> left_out;  ///< of the line
  /// What was read, into the regions of the program that have the same names, in their order; those that are not there
  /// any more are passed over, and what the line had not of a region stays as it is. Code::mismatch, Code::user: as for
  /// a resume.
  [[nodiscard]] Result<void> put_back(const region::RegionSet& regions) const;
  /// The same for one region, which put_back() passes over then. False: the line held nothing of it.
  Result<bool> put_back_now(const std::string& name, const region::RegionSet& regions);

 private:
  struct Kept {
    std::string name;
    Extents shape;
    std::unique_ptr<std::byte[]> memory;  ///< of as many as it has had at most; what nobody writes to takes no pages
    std::uint64_t room = 0;
    Bytes bytes;                   ///< that callbacks saved
    std::vector<Bytes> of_others;  ///< of all old ranks, instead of `bytes`
    int rank = 0, size = 0;        ///< with those
    bool is_read = false;          ///< of callbacks
  };
  static RegionSpec like(const RegionSpec& spec, Kept& kept);
  [[nodiscard]] Result<void> put_back(const RegionSpec& spec, const Kept& kept) const;
  static Result<void> load(const RegionSpec& spec, const Kept& kept);

  std::deque<Kept> kept_;
  region::RegionSet regions_;
};

}  // namespace backstay::engine
