// The option observe: which regions are read after checkpoint() before they are overwritten, in a program that declares
// nothing.
#pragma once

#include <unistd.h>

#include <string>
#include <vector>

#include "api/journal.h"
#include "check/access_check.h"
#include "region/region_set.h"

namespace backstay::api {

/// A step is what the program does from one call of checkpoint() to the next. It is looked at as a computation that is
/// declared to overwrite every region; what is false of that is what a checkpoint must save. The first step is looked
/// at by whole pages, those after it by each value of the regions that are left: what is live never holds a pattern.
/// On the thread that calls the session. Never throws.
class Observer {
 public:
  Observer(const region::RegionSet& regions, int steps) : regions_(regions), steps_(steps) {}
  void begin_step();
  void end_step(Journal& journal, int rank);
  /// The session ends: the step that runs is no whole one.
  void close(Journal& journal, int rank);

 private:
  struct Seen {
    std::string name, type;
    std::uint64_t bytes = 0, elements = 0;
    int steps = 0;      ///< in which it was looked at
    int read = 0;       ///< in which it was read first
    int unwritten = 0;  ///< in which nothing was written to it, of those that were looked at by pages
    int by_values = 0;  ///< in which it was looked at by values
    std::uint64_t pages = 0,
                  overwritten = 0;  ///< and its pages, and in how many each value was overwritten, the fewest
    std::uint64_t kept = 0;         ///< elements that were left as they were, the most in a step
    std::string program;            ///< where it was read first
    std::uint64_t offset = 0;
    [[nodiscard]] bool is_open() const { return read == 0 && kept == 0; }
  };
  Seen& seen_of(const RegionSpec& spec, const View& view);
  void note(const std::vector<check::Finding>& findings, const std::vector<bool>& moved,
            const std::vector<check::Overwritten>& overwritten);
  void tell(Journal& journal, int rank);

  const region::RegionSet& regions_;
  check::AccessCheck check_;
  std::vector<Seen> seen_;
  std::vector<std::size_t> now_;  ///< of `seen_`: what is looked at
  std::vector<bool> watched_;     ///< as many
  int steps_ = 0, done_ = 0;
  bool told_ = false;
  pid_t process_ = getpid();  ///< a child made by fork() tells nothing
};

}  // namespace backstay::api
