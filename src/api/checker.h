// The option check_access: what a session's computations do is compared with what they declare, and told.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/journal.h"
#include "check/access_check.h"
#include "region/region_set.h"
#include "select/declared.h"

namespace backstay::api {

/// Where a region lies now; one that is not valid where that cannot be told.
View memory_of(const RegionSpec& spec);

/// What a session knows; it outlives the checker.
struct Checked {
  const select::Declared& declared;
  const region::RegionSet& regions;
  const region::RegionSet& statics;
};

/// On the thread that calls the session. Never throws: what cannot be looked at is not.
class Checker {
 public:
  explicit Checker(Checked session) : session_(session) {}
  void begin(std::size_t computation, Journal& journal, int rank);
  /// The one that began last, if it is looked at.
  void end(std::size_t computation, bool completed, Journal& journal, int rank);
  /// The session ends, and what ran last was not ended before: regions may be gone, and what was done since is
  /// nobody's.
  void drop();
  /// Before the session ends.
  void sum_up(Journal& journal, int rank);

 private:
  [[nodiscard]] std::vector<const RegionSpec*> specs() const;
  void finish(bool completed, Journal& journal, int rank);
  void tell(const check::Finding& finding, const std::string& region, Journal& journal, int rank);

  Checked session_;
  check::AccessCheck check_;
  std::optional<std::size_t> running_;  ///< what is looked at
  std::vector<std::string> names_;      ///< of the regions then
  std::uint64_t looked_at_ = 0, passed_over_ = 0, found_ = 0;
  std::set<std::string> told_;  ///< each once
  bool said_how_ = false;
  pid_t process_ = getpid();  ///< a child made by fork() tells nothing
};

}  // namespace backstay::api
