// The line that is being taken, on one rank: what of it is saved at once, what waits for declared computations, and
// what is left out. docs/decisions/0016.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/line_reader.h"
#include "engine/line_writer.h"
#include "region/region_set.h"
#include "select/declared.h"

namespace backstay::engine {

/// What declarations are about: type and shape, as they are now; static regions last. Those that callbacks save have no
/// shape.
/// Code::user: a view threw.
Result<std::vector<select::Region>> regions_for_select(const region::RegionSet& regions,
                                                       const region::RegionSet& statics);

/// What a line is made of. Not owned.
struct LineSources {
  const region::RegionSet& regions;
  const region::RegionSet& statics;
  const select::Declared* declared = nullptr;         ///< computations; null: there are none
  const std::vector<std::size_t>* running = nullptr;  ///< of these, inside each other; null: none
};

struct LineHooks {
  std::function<void(std::unique_ptr<Checkpoint>)> hand_over;  ///< a line is decided, or given up
  /// A line begins here. What format::replay_region saves of it is asked for when it is handed over.
  std::function<void()> began;
};

/// Invariant: an element of a region is left out of a line on a rank only if declared computations that have ended have
/// overwritten it since the checkpoint, and none has read it before. What is saved of a region
/// holds, of each element that is not overwritten before it is read, what it held at the checkpoint. Both follow from
/// what is declared alone; what happened the last time (needed_) only says what is worth waiting for.
///
/// A run that goes on from a line without an element goes on as the one that saved it, and overwrites it. If it does
/// not, it is stopped before it reads what is not there.
class OpenLine {
 public:
  OpenLine(LineSources sources, LineHooks hooks) : from_(sources), hooks_(std::move(hooks)) {}

  /// Captures what is decided; the line is handed over when the rest is, at once if it is `at_once`.
  void take(std::unique_ptr<Checkpoint> line, const CaptureOptions& options, bool at_once);
  /// A computation begins: what it reads goes into the line. Code::mismatch: it reads what the line that was put back
  /// had not.
  Result<void> before(std::size_t computation);
  /// It has ended: what it has overwritten does not go into the line, if nobody has read it before. Not `completed`:
  /// nobody knows what it has overwritten.
  void after(std::size_t computation, bool completed);
  /// All that is undecided is saved, as it is now.
  void decide();
  /// The memory of regions that are not named may be gone: if one of them is undecided, the line is given up.
  void give_up_undecided(const std::vector<std::string>& still_there);
  /// A line was put back that had nothing of these regions. Code::mismatch: one was to be as the beginning of the
  /// program makes it, and is not.
  Result<void> came_back_without(const std::vector<NotThere>& regions);
  /// That line was put back: but for those of these that are as made, regions are what computations had made in an
  /// earlier launch, whether any begins in this one or not, as those inside of others that a replay skips do not.
  void others_are_changed(const std::vector<NotThere>& regions);
  /// The way of the program begins here, or its beginning ends: what no computation changes from now on, a run that
  /// goes this way again makes again. Not those of `others`.
  void begin_way(std::set<std::string> others);
  /// The beginning has made what is there now.
  Result<void> note_made();
  /// The memory of this region is another one now.
  void note_exchanged(const std::string& region) { changed_.insert(region); }
  /// Nothing is made again any more.
  void end_way() { is_made_again_ = false; }
  /// The body of loop() runs again, from a beginning that may make and read what the last line that was put back had
  /// not: nobody misses that until another line is put back, or the beginning is over without.
  void begin_again() { begins_again_ = true; }
  void end_beginning() { begins_again_ = false; }
  /// From now on a line holds these regions, captured at once, and leaves out all others; none: what computations
  /// decide.
  void save_only(std::set<std::string> names) { listed_ = std::move(names); }
  /// A computation begins, or is skipped by a replay.
  void note(std::size_t computation);
  /// Regions that no line has, as the beginning of the program makes them.
  [[nodiscard]] std::set<std::string> as_made() const;
  [[nodiscard]] bool waits() const { return line_ != nullptr; }
  /// Which refusal of before() was the last on this rank, for others that declare the same; 0: there was none.
  [[nodiscard]] std::int64_t last_refusal() const { return last_refusal_; }
  /// All ranks have heard of it, and go on.
  void forget_refusal(std::int64_t number) {
    if (last_refusal_ == number) last_refusal_ = 0;
  }
  /// What a rank was told with it.
  [[nodiscard]] Failure refusal(std::int64_t number) const;
  /// The size of a capture of all that no computation overwrites, as it is protected now; 0: it cannot be told. What
  /// callbacks save is not counted.
  [[nodiscard]] std::uint64_t bytes_at_once() const;
  /// Bytes of the regions that the newest line left out so far.
  [[nodiscard]] std::uint64_t left_out_bytes() const { return left_out_bytes_; }

 private:
  /// What the declared computations do.
  struct Effects {
    std::uint64_t changes = 0;                    ///< of the declarations that these are of
    std::vector<select::Region> regions;          ///< as they were protected by then; static ones last
    std::vector<select::Effects> by_computation;  ///< none: it is not known what it does
  };
  /// What is not decided yet, and what is looked at to know what is worth waiting for the next time.
  struct Undecided {
    std::shared_ptr<const Effects> known;
    std::map<std::size_t, const std::byte*> memory;  ///< where those lie that may have to wait
    select::OpenCheckpoint elements{{}};             ///< neither read nor overwritten yet, saved or not
    std::map<std::size_t, select::BoxSet> read;      ///< before they were overwritten
    std::map<std::size_t, select::BoxSet> waiting;   ///< of `elements`, what is not saved; none is empty
    bool teaches = true;                             ///< what is needed the next time; false: it was too much
  };
  /// Elements of a region that are not in the line that was put back, nor made since.
  struct Missing {
    Extents shape;  ///< in which the elements are meant
    select::BoxSet elements;
  };

  Result<void> capture(bool at_once);
  void find_sharing();
  Result<std::vector<Wanted>> wanted_now(const std::set<std::string>& left_out);
  Result<std::unique_ptr<Undecided>> find_undecided(const std::set<std::string>& left_out) const;
  Result<std::shared_ptr<const Effects>> find_effects() const;
  [[nodiscard]] std::map<std::size_t, const std::byte*> worth_waiting_for(const Undecided& undecided,
                                                                          const std::set<std::string>& left_out) const;
  [[nodiscard]] bool is_changed_by_a_running_one(std::size_t region) const;
  Result<std::set<std::string>> leave_out_missing();
  [[nodiscard]] bool is_as_made(const RegionSpec& spec) const;
  Result<void> leave_out_as_made(std::set<std::string>& left_out);
  [[nodiscard]] bool is_listed(const std::string& region) const;
  Result<void> leave_out_unlisted(std::set<std::string>& left_out);
  Result<void> meet_absent(std::optional<std::size_t> computation = {});
  void fit_missing(const select::Region& about);
  Result<select::Effects> effects_on_missing(std::size_t computation);
  [[nodiscard]] bool uses_missing(std::size_t computation) const;
  Result<void> require_there(std::size_t computation);
  Failure refuse(std::size_t computation, const std::string& region);
  void note_overwritten(std::size_t computation);
  bool look_for_exchanged();
  [[nodiscard]] select::Effects seen_from_outside(select::Effects effects) const;
  void save_before_parts_change(std::size_t computation);
  void save(std::size_t region, const select::BoxSet& elements);
  [[nodiscard]] select::BoxSet needed_at_once(std::size_t region, const select::Region& about,
                                              const select::BoxSet& there) const;
  [[nodiscard]] select::BoxSet saved_of(const select::Region& about) const;
  [[nodiscard]] select::BoxSet without_missing(const select::Region& about) const;
  void leave_out(const RegionSpec& spec, const select::Region& region, std::optional<std::uint32_t> made = {},
                 bool unlisted = false);
  void count_left_out(const select::Region& region, std::int64_t saved);
  void leave_out_the_rest();
  void learn(std::size_t region);
  void forget_undecided();
  void hand_over();
  void give_up(const Failure& why);

  LineSources from_;
  CaptureOptions options_;
  LineHooks hooks_;
  std::unique_ptr<Checkpoint> line_;                ///< waits for what is undecided
  std::unique_ptr<Undecided> undecided_;            ///< also behind it, until the next call that all ranks make
  mutable std::shared_ptr<const Effects> effects_;  ///< of the last line
  /// Of regions that were undecided: their shape, and what was read first of them the last time.
  std::map<std::string, std::pair<Extents, select::BoxSet>> needed_;
  std::set<std::string> sharing_;    ///< regions of which others may hold the same memory, by the last line
  std::set<std::string> exchanged_;  ///< regions whose memory was exchanged while a line waited: none waits again
  std::map<std::string, Missing> missing_;  ///< by region; none has no elements
  std::set<std::string> absent_;            ///< regions of which all is missing, and that are not protected yet
  bool begins_again_ = false;               ///< what is missing is so behind the roll-back only
  std::vector<select::Region> seen_;        ///< those of the last computation that uses some of these
  std::set<std::string> listed_;            ///< regions that a line holds; none: what computations decide
  bool is_made_again_ = false;              ///< what no computation changes, where the program is run again
  std::vector<bool> begun_;                 ///< computations, since the way began
  std::set<std::string> changed_;           ///< regions that those may have changed, or that do not belong to the way
  /// Of a region that is as made.
  struct Made {
    Extents shape;
    std::uint32_t crc = 0;
    bool is_of_a_line = false;  ///< and was so when the first line was taken
  };
  std::map<std::string, Made> made_;
  std::uint64_t left_out_bytes_ = 0;
  std::int64_t last_refusal_ = 0;
};

}  // namespace backstay::engine
