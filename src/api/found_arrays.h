// Arrays that a program has allocated, and that no region has.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "check/allocation.h"
#include "check/memory_map.h"

namespace backstay::api {

/// A program's callers, for the journal: "FILE+0xOFFSET", the innermost first, a line each.
std::string text_of(const std::vector<check::CodePlace>& callers);

class FoundArrays {
 public:
  struct Array {
    std::uint64_t number = 0;  ///< of its allocation
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::string callers;
    std::string why;  ///< nothing can be said of it, and it is looked at no more
  };
  struct Sum {
    std::uint64_t arrays = 0, bytes = 0;
  };
  /// `libraries`: see maker_of().
  explicit FoundArrays(std::string libraries) : libraries_(std::move(libraries)) {}

  /// What is there when a step begins, and the memory of regions. The first time it is found out which arrays are
  /// looked at: no others ever are. Later, those that are gone or protected are dropped, and new ones are counted.
  void look(const std::vector<check::Allocation>& there, const check::Ranges& regions);
  void drop(std::size_t array, std::string why);
  [[nodiscard]] const std::vector<Array>& arrays() const { return arrays_; }
  /// What is not the program's, by who made it.
  [[nodiscard]] const std::map<std::string, Sum>& left_out() const { return left_out_; }
  /// Those that were made later, by their callers: as many as there were at a time.
  [[nodiscard]] const std::map<std::string, Sum>& late() const { return late_; }

 private:
  void look_first(const std::vector<check::Allocation>& there, const check::Ranges& regions);
  void count_late(const std::vector<check::Allocation>& there, const check::Ranges& regions);

  std::string libraries_;
  std::vector<Array> arrays_;
  std::map<std::string, Sum> left_out_, late_;
  std::map<std::uint64_t, std::string> late_callers_;  ///< of allocations; empty: not the program's
  std::uint64_t newest_ = 0;
  bool has_looked_ = false;
};

}  // namespace backstay::api
