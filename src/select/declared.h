// The computations that a program has declared, by the names of the regions they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "select/access.h"
#include "select/liveness.h"

namespace backstay::select {

/// An access as a program says it. `how.region` is not used.
struct NamedAccess {
  std::string region;
  Access how;
};

class Declared {
 public:
  /// Its number, from 0 on; declared again in the same way it keeps that. Code::invalid_argument: no name, no accesses,
  /// or a name in use with others.
  Result<std::size_t> declare(const std::string& name, std::vector<NamedAccess> accesses);
  [[nodiscard]] std::size_t size() const { return computations_.size(); }
  /// All of them, with the numbers that regions have here. Code::not_found as effects_on().
  [[nodiscard]] Result<std::vector<Computation>> resolve(const std::vector<Region>& regions) const;
  [[nodiscard]] const std::string& name(std::size_t computation) const { return computations_[computation].name; }
  /// "reads u, writes u", as it was declared; empty: nothing was.
  [[nodiscard]] std::string said_of(std::size_t computation, const std::string& region) const;
  /// What it does to these regions. Code::not_found: a region is not among them; others as effects_of().
  [[nodiscard]] Result<Effects> effects_on(std::size_t computation, const std::vector<Region>& regions) const;
  /// The names of the regions that it uses.
  [[nodiscard]] std::vector<std::string> regions_of(std::size_t computation) const;
  [[nodiscard]] bool uses(std::size_t computation, const std::string& region) const;
  /// It needs something of what the region holds before.
  [[nodiscard]] bool reads(std::size_t computation, const std::string& region) const;
  /// Some computation uses it.
  [[nodiscard]] bool names(const std::string& region) const;
  /// Some computation may change it.
  [[nodiscard]] bool changes(const std::string& region) const;
  /// The names of those that it may change.
  [[nodiscard]] std::vector<std::string> changed_by(std::size_t computation) const;
  /// Forgets all but the first ones. Those that are declared then have their numbers.
  void keep_first(std::size_t computations);
  /// Grows with each computation that is added or forgotten: what a number stands for is the same while it stays.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  /// One line for each with what must be the same on every rank; ranges need not be.
  [[nodiscard]] std::vector<std::string> signature() const;
  [[nodiscard]] std::string signature_of(std::size_t computation) const;

 private:
  struct Named {
    std::string name;
    std::vector<NamedAccess> accesses;
  };

  static Result<Computation> resolve(const Named& named, const std::vector<Region>& regions);

  std::vector<Named> computations_;
  std::uint64_t changes_ = 0;
};

}  // namespace backstay::select
