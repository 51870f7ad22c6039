// What is seen of a program while it runs: its newest computations, and what follows for its checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "select/advice.h"
#include "select/declared.h"

namespace backstay::select {

/// What was seen, and what is best.
struct Seen {
  Trace trace;
  std::optional<Advice> advice;          ///< none: nothing is repeated
  std::size_t first_static = 0;          ///< of the regions in the trace
  std::vector<std::size_t> checkpoints;  ///< of the calls in the trace, those that a checkpoint() came right before
};

class Watcher {
 public:
  /// A computation begins.
  void computation(std::size_t number);
  /// checkpoint() was called.
  void checkpoint();
  [[nodiscard]] std::uint64_t computations() const { return computations_; }
  /// The newest computations are these, the last one included.
  [[nodiscard]] bool is_at(const std::vector<int>& mark) const;
  /// `regions`: as they are protected; those from `first_static` on are static, and `as_made` are as the beginning of
  /// the program made them. Codes as of Declared::resolve() and advise().
  [[nodiscard]] Result<Seen> look(const Declared& declared, std::vector<Region> regions, std::size_t first_static,
                                  const std::set<std::string>& as_made = {}) const;

 private:
  static constexpr std::size_t longest = std::size_t{1} << 16;

  std::uint64_t computations_ = 0;
  std::vector<int> calls_;  ///< the newest ones
  std::vector<bool> after_checkpoint_;
  bool checkpoint_came_ = false;
};

/// What was found, in sentences for people: where a checkpoint needs least, where the program takes it, and what
/// becomes of each region there. `declared` as for look().
std::vector<std::string> table_of(const Seen& seen, const Declared& declared);

}  // namespace backstay::select
