// Compares what a computation does with what it declares, by the protection of memory pages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "check/layout.h"
#include "select/liveness.h"

namespace backstay::check {

/// What is not as declared.
enum class Fault {
  reads,        ///< elements that the computation does not declare to read
  writes,       ///< that it does not declare to write
  reads_early,  ///< elements that it declares to overwrite, before it has
  skips,        ///< elements that it declares to overwrite, and does not
};

struct Finding {
  std::size_t region = 0;
  Fault fault = Fault::reads;
  std::vector<std::int64_t> index;  ///< the first that was seen
  std::uint64_t elements = 1;       ///< `skips`: how many; the others: seen, at most one in each page of memory
  std::uintptr_t code = 0;          ///< address of the instruction; 0: there is none
};

/// Where an instruction stands: file and line if `addr2line` can say it, else program and address.
std::string place_of(std::uintptr_t code);

class Fences;

/// One computation at a time. Regions that it does not name may not be touched while it runs, those that it names as
/// declared. Pages that nothing false can happen in are left alone. The others are closed; the first use of a page is
/// looked at, and where all of its elements are alike the page is opened for the rest of the computation. Otherwise it
/// is opened for one instruction, up to `close_looks` times in a computation. What is to be overwritten holds a pattern
/// meanwhile, and what still holds it afterwards has not been; it gets its old bytes back, as it does before it is read
/// early.
///
/// So it sees, of each page, its first use, and of what is to be overwritten whether it was. It does not see what
/// happens in a page after its first right use, and, while one thread passes a page, what others do in it. Pages in
/// which there is other memory, too, at the edges of a region, stay open, as system calls fail on closed ones: there it
/// sees what has changed, and neither what is read nor what is skipped.
class AccessCheck {
 public:
  static constexpr int close_looks = 5000;  ///< of some microseconds each

  /// Code::invalid_argument: another one is there in this process, or this machine is not x86-64 with Linux.
  static Result<std::unique_ptr<AccessCheck>> make();
  ~AccessCheck();
  AccessCheck(const AccessCheck&) = delete;
  AccessCheck& operator=(const AccessCheck&) = delete;

  /// A computation begins, with these effects on these regions, the others of which it does not touch. `number` tells
  /// it from others.
  void begin(int number, const std::vector<Layout>& regions, const select::Effects& effects);
  /// It has ended. In no order.
  std::vector<Finding> end();
  /// It is looked at no further.
  void give_up();

 private:
  explicit AccessCheck(std::unique_ptr<Fences> fences);
  Finding look_for_skipped(std::size_t region);
  Finding look_at_edges(std::size_t region);

  std::unique_ptr<Fences> fences_;
  int number_ = -1;
  std::uint64_t runs_ = 0;
  /// How often elements, by their offsets, have held the pattern in the last runs, one after the other: by computation
  /// and region. One of few bytes may hold it by chance, but not another one each time.
  std::map<std::pair<int, std::size_t>, std::map<std::int64_t, std::size_t>> suspects_;
};

}  // namespace backstay::check
