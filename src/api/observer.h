// The option observe: which regions are read after a call of checkpoint() before they are overwritten, in a program
// that declares nothing.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "api/found_arrays.h"
#include "api/journal.h"
#include "check/access_check.h"
#include "check/place.h"
#include "region/region_set.h"

namespace backstay::api {

/// What a step did with a region.
struct RegionInStep {
  std::vector<check::Fate> fates;  ///< of its elements; empty: nothing is known of them
  bool is_unwritten = false;
  check::CodePlace where;  ///< it was read first
};

/// What the program did from a call of checkpoint() to the next one.
struct Step {
  std::size_t place = 0;  ///< of the call that it begins with
  bool counts = true;     ///< false: it tells only what became of what the step before left untouched
  bool follows = false;   ///< the step before this one in the list is the one before this
  std::vector<std::optional<RegionInStep>> regions;  ///< by their numbers; none: it was not looked at
};

/// The fates after the calls at one place, of the steps that count together. Where a step leaves an element untouched,
/// what the steps after it do counts, whichever calls they begin with. By region.
std::vector<RegionInStep> fates_at(std::size_t place, const std::vector<Step>& steps);

/// A step is looked at as a computation that is declared to overwrite every region; what is false of that is what a
/// checkpoint must save. The uses of all values are traced in the first step of each place; those that seem to be
/// overwritten get patterns in the steps after it, and the others are looked at no more: what is live never holds one.
/// Arrays that were only allocated are traced in every step, and hold no pattern in any: nobody said what else may be
/// in them. On the thread that calls the session. Never throws.
class Observer {
 public:
  Observer(const region::RegionSet& regions, const region::RegionSet& statics, int steps);
  void begin_step(const check::CodePlace& place, Journal& journal, int rank);
  void end_step();
  /// The session ends: the step that runs is no whole one.
  void close(Journal& journal, int rank);

 private:
  struct Region {
    std::string name, type;
    std::size_t element = 1;  ///< bytes
    Extents shape;
    std::string why;                        ///< nothing can be known of it
    std::optional<std::size_t> array = {};  ///< it is none, but this one of the arrays that were found
  };
  struct Place {
    check::CodePlace at;
    int steps = 0;
    std::vector<std::vector<check::Fate>> fates;  ///< by region, those of its steps together
  };
  std::size_t place_of(const check::CodePlace& at);
  std::size_t region_of(const RegionSpec& spec, const View& view);
  std::size_t region_of(std::size_t array);
  [[nodiscard]] check::Ranges memory_of_regions() const;
  [[nodiscard]] bool is_to_be_looked_at(std::size_t place) const;
  [[nodiscard]] std::vector<check::Fate>& known_fates(std::size_t place, std::size_t region);
  void look(std::size_t place);
  void add_subject(std::size_t place, std::size_t region, check::Subject subject, std::vector<check::Subject>& subjects,
                   select::Effects& effects);
  void note(const std::vector<check::Finding>& findings, const std::vector<bool>& moved,
            std::vector<RegionInStep> done);
  void tell(Journal& journal, int rank);
  void tell_of(std::size_t place, std::size_t region, const RegionInStep& done, Journal& journal, int rank) const;
  void tell_of_others(Journal& journal, int rank) const;

  const region::RegionSet& regions_;
  const region::RegionSet& statics_;
  FoundArrays found_;
  check::AccessCheck check_;
  std::vector<Region> known_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  std::vector<std::size_t> now_;  ///< of `known_`: what is looked at
  std::vector<bool> watched_;     ///< as many
  int wanted_ = 0, not_counted_ = 0;
  bool is_first_after_gap_ = true, has_news_ = true;
  std::size_t place_ = 0;     ///< of the step that runs
  pid_t process_ = getpid();  ///< a child made by fork() tells nothing
};

}  // namespace backstay::api
