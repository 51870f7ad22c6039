// Compares what a computation does with what it declares: by the protection of memory pages where the library that
// makes that safe is preloaded, and by the values before and after everywhere else.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "check/allocation.h"
#include "check/finding.h"
#include "check/layout.h"
#include "check/memory_map.h"
#include "check/units.h"
#include "check/watched.h"
#include "select/liveness.h"

namespace backstay::check {

class Fences;
enum class Closely;

/// A region, as it lies in memory.
struct Subject {
  View view;
  std::size_t element = 1;  ///< bytes
  Units units;
  bool is_watched = false;  ///< nothing is said about the others
  bool is_traced = false;   ///< its elements hold no pattern while it is looked what becomes of them
  /// Elements, in C order, of which that is known already: they are not looked at. Empty: none.
  std::vector<bool> settled = {};
  /// The number of one of found(): anything may lie there, and other threads may give it back. It is traced. 0: none.
  std::uint64_t allocation = 0;
};

/// One computation at a time. Regions that it does not name may not be touched while it runs, those that it names as
/// declared. What is not seen: docs/limitations.md. Nothing here changes what a program computes, and nothing fails:
/// what cannot be looked at is not.
class AccessCheck {
 public:
  /// `quick`: so many seconds may be spent at first, whatever the rest of the program takes.
  explicit AccessCheck(double quick = 10);
  ~AccessCheck();
  AccessCheck(const AccessCheck&) = delete;
  AccessCheck& operator=(const AccessCheck&) = delete;

  /// What the program has allocated and not given back, if the preloaded library was told to note who asked for it.
  [[nodiscard]] std::vector<Allocation> found() const;
  /// Not only changes are seen, but all that is done.
  [[nodiscard]] bool sees_all() const { return fences_ != nullptr; }
  /// This computation is to be looked at: once in any case, three times as long as that is quick, and then seldom
  /// enough all together.
  [[nodiscard]] bool is_due(int number);
  /// One begins that is not looked at; and ends. Of those inside each other the inner one counts.
  void pass_over(int number);
  void end_passed_over();
  /// A computation begins, with these effects on these regions. `number` tells it from others. False: it is not looked
  /// at, as somebody else is.
  bool begin(int number, std::vector<Subject> regions, const select::Effects& effects);
  /// The same, and how closely pages are looked at.
  bool begin(int number, std::vector<Subject> regions, const select::Effects& effects, Closely closely);
  [[nodiscard]] bool is_looking() const { return looking_; }
  /// From now on it may do what it likes, and what it has left undone is not held against it. What was seen stays
  /// known.
  void give_up();
  /// The same for whoever is being looked at in this process: memory is about to be read by others.
  static void give_up_all();
  /// All memory can be used again; end() follows.
  void open();
  /// After open(): of each element, in C order; empty: nothing is known of any.
  [[nodiscard]] std::vector<Fate> fates(std::size_t region) const;
  /// After open(): nobody wrote to it.
  [[nodiscard]] bool is_unwritten(std::size_t region) const;
  /// It has ended. `now`: where the regions lie by now; `completed`: not by an exception. In no order. `moved`: for
  /// each region, that nothing can be said of it, as its memory is another.
  std::vector<Finding> end(const std::vector<View>& now, bool completed, std::vector<bool>& moved);

 private:
  /// What is compared: bytes of a region, as they were.
  struct Kept {
    std::size_t region = 0;
    std::byte *from = nullptr, *to = nullptr;
    std::vector<std::byte> bytes;
  };
  void keep(const Ranges& closed);
  void look_at_kept(const std::vector<bool>& moved, std::vector<Finding>& findings) const;

  Fences* fences_ = nullptr;
  bool looking_ = false, given_up_ = false;
  int number_ = -1;
  double began_ = 0, quick_;
  double passed_over_ = 0;  ///< seconds of those that were not looked at, each as the quickest of its kind
  std::optional<int> passing_;
  double passing_since_ = 0;
  /// Of each computation: how often it was looked at, and for how long.
  struct Spent {
    std::uint64_t times = 0, passed_over = 0;
    double seconds = 0;
    double quickest = std::numeric_limits<double>::max();  ///< of those that were passed over; seconds
    std::map<const std::byte*, std::array<std::uint64_t, 16>> suspects;
  };
  std::map<int, Spent> spent_;
  double spent_in_all_ = 0;
  std::vector<Subject> subjects_;
  std::vector<Watched> watched_;  ///< the same; those of the fences lie in their pages
  std::vector<Kept> kept_;
};

}  // namespace backstay::check
