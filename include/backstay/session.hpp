// The session: protect, checkpoint, resume, loop, verify, prune.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "backstay/ahead.hpp"
#include "backstay/config.hpp"  // generated: BACKSTAY_HAVE_MPI, version
#include "backstay/error.hpp"
#include "backstay/types.hpp"

#if BACKSTAY_HAVE_MPI
#include <mpi.h>
#endif

namespace backstay {

/// Options by name, as in the table of docs/options.md. They win over BACKSTAY_* variables.
using Options = std::map<std::string, std::string>;

/// Tag: this process is alone, MPI is neither used nor initialised.
struct Alone {};
inline constexpr Alone alone{};

/// Tag: take a checkpoint at this call, due or not.
struct Now {};
inline constexpr Now now{};

/// What a call of checkpoint() did. The same on every rank, but for `failed`: a rank on which an earlier one did not
/// settle in time is told so, and others may be told that the line was taken; it is given up by all.
enum class Outcome : int {
  not_due = 0,  ///< nothing was due
  taken = 1,    ///< captured; the background makes it durable, or gives it up and says why in status()
  skipped = 2,  ///< due, but an earlier one is still in flight and the policy is `skip`
  failed = 3,   ///< MPI failed, or an earlier one did not settle within the option timeout; see status()
  stop = 4,     ///< a signal asked the job to end, and a last checkpoint was taken: leave the loop (where it
                ///< failed, status().last_error says why, and with on_error=throw this is an Error instead)
};

/// What resume() found. The same on every rank.
struct Resumed {
  bool resumed = false;    ///< false: no line at all, a fresh start
  std::uint64_t line = 0;  ///< the number of the line that was put back
  std::string level;       ///< where it was
  double seconds = 0;      ///< from the call until every rank has its data
  int saved_ranks = 0;     ///< ranks that wrote it
  explicit operator bool() const { return resumed; }
};

/// Counters since the session was opened, and the last error of the background, if any. This rank's own.
struct Status {
  std::uint64_t calls = 0;  ///< calls of checkpoint()
  std::uint64_t taken = 0;  ///< captures
  std::uint64_t skipped = 0;
  std::uint64_t committed = 0;       ///< lines committed, each level counted
  std::uint64_t failed = 0;          ///< lines given up, each level counted
  std::uint64_t in_flight = 0;       ///< captured and not yet committed or given up
  std::uint64_t newest_line = 0;     ///< number of the newest committed line; 0: none
  double blocked_seconds = 0;        ///< time spent inside checkpoint(), and in compute() for a line that waits
  std::uint64_t staging_bytes = 0;   ///< staging memory held
  std::string last_error;            ///< empty: none
  std::uint64_t left_out_bytes = 0;  ///< of regions that the newest checkpoint did not save, see Session::compute()
};

/// What a computation does to one region, see Session::declare().
struct Access {
  enum class Mode : int {
    read = 0,
    write = 1,       ///< all of the range, whatever it held
    read_write = 2,  ///< all of the range, after reading it
    write_some = 3,  ///< some elements of the range, nobody says which
  };
  /// begin <= i < end
  struct Range {
    std::int64_t begin, end;
  };
  /// Relative to an element; both are read, and all between them.
  struct Reach {
    std::int64_t first, last;
  };

  std::string region;
  Mode mode = Mode::read;
  std::vector<Range> range = {};    ///< one for each dimension, of this rank's indices; none: all of the region
  std::vector<Reach> stencil = {};  ///< likewise, what is read around each element of the range; none: itself

  /// The same for a part of the region.
  [[nodiscard]] Access in(std::vector<Range> part) const {
    Access out = *this;
    out.range = std::move(part);
    return out;
  }
  /// The same with what is read around each element: {{-1, 1}, {0, 0}} for a neighbour each way in the first dimension.
  [[nodiscard]] Access around(std::vector<Reach> reach) const {
    Access out = *this;
    out.stencil = std::move(reach);
    return out;
  }
};
inline Access reads(std::string region) { return {std::move(region), Access::Mode::read}; }
inline Access writes(std::string region) { return {std::move(region), Access::Mode::write}; }
inline Access updates(std::string region) { return {std::move(region), Access::Mode::read_write}; }
inline Access writes_some(std::string region) { return {std::move(region), Access::Mode::write_some}; }

/// A declared computation, see Session::declare().
struct Computation {
  int number = -1;
};

/// What verify() found; the same on every rank.
struct Verified {
  std::uint64_t lines = 0;
  std::uint64_t segments = 0;
  std::vector<std::string> damage;  ///< a sentence for each damaged file or segment
};

/// Customisation point for state that is neither trivially copyable nor a container: specialise with
///   static std::string save(const T&);   static void load(T&, std::string_view);
/// The standard random engines and distributions work as they are, through their stream operators.
template <class T, class = void>
struct state {};

/// What is kept as text without a word from the program: engines of <random>, and what is not trivially copyable, if it
/// has both stream operators.
template <class T>
concept IsEngine = requires { typename T::result_type; };
template <class T>
concept KeptAsText = !std::is_trivially_copyable_v<T> || IsEngine<T>;

template <KeptAsText T>
struct state<T, void> {
  static std::string save(const T& x)
    requires requires(std::ostream& out) { out << x; }
  {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(std::numeric_limits<long double>::max_digits10);  // no bit of a number is lost
    out << x;
    if constexpr (!IsEngine<T> && std::is_default_constructible_v<T>) require_that_it_comes_back(x, out.str());
    return out.str();
  }
  static void load(T& x, std::string_view text)
    requires requires(std::istream& in) { in >> x; }
  {
    std::istringstream in{std::string(text)};
    in.imbue(std::locale::classic());
    in >> x;
    // All of it, no more and no less: another engine's state is not this one's.
    if (in.fail() || (!in.eof() && in >> std::ws && in.peek() != std::istringstream::traits_type::eof()))
      throw Error(Code::mismatch, "its text is not that of this type: protect it with the type it was saved with");
  }

 private:
  /// Operators that write what they cannot read (a text with a space in it) must not make checkpoints that are no use.
  static void require_that_it_comes_back(const T& x, const std::string& text) {
    if constexpr (requires(std::istream& in, T& read) { in >> read; }) {
      bool is_equal = true;  // the text of a number that was rounded is that of what comes back
      std::ostringstream again;
      again.imbue(std::locale::classic());
      again.precision(std::numeric_limits<long double>::max_digits10);
      try {
        T read{};
        load(read, text);
        again << read;
        if constexpr (std::equality_comparable<T> && std::copyable<T>) {
          T same = x;  // with what the text leaves out on purpose
          load(same, text);
          is_equal = same == x || !(x == x);
        }
      } catch (const std::exception&) {
        again.setstate(std::ios::failbit);
      }
      if (!again || again.str() != text || !is_equal)
        throw Error(Code::mismatch,
                    "its operator>> does not read what its operator<< wrote: specialise backstay::state for it, or "
                    "protect it by callbacks");
    }
  }
};

/// A piecewise distribution of <random>: its stream operators are no inverse of each other in every library, as GNU's
/// writes densities, and reads weights.
template <class T>
concept HasDensities = IsEngine<T> && KeptAsText<T> && requires(const T& x) {
  x.intervals();
  x.densities();
};

template <HasDensities T>
struct state<T, void> {
  using Real = typename T::result_type;
  static std::string save(const T& x) {
    const auto edges = x.intervals();
    const auto densities = x.densities();
    const bool is_constant = densities.size() < edges.size();  // between two edges
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(std::numeric_limits<long double>::max_digits10);
    out << edges.size() << ' ' << densities.size();
    for (const Real edge : edges) out << ' ' << edge;
    for (std::size_t i = 0; i < densities.size(); ++i)
      out << ' ' << (is_constant ? densities[i] * static_cast<double>(edges[i + 1] - edges[i]) : densities[i]);
    return out.str();
  }
  static void load(T& x, std::string_view text) {
    std::istringstream in{std::string(text)};
    in.imbue(std::locale::classic());
    std::vector<Real> edges;
    std::vector<double> weights;
    std::size_t edge_count = 0, weight_count = 0;
    in >> edge_count >> weight_count;
    while (in && edges.size() < edge_count) in >> edges.emplace_back();
    while (in && weights.size() < weight_count) in >> weights.emplace_back();
    if (in.fail() || edge_count < 2 || weight_count + 1 < edge_count || weight_count > edge_count)
      throw Error(Code::mismatch, "its text is not that of this type: protect it with the type it was saved with");
    x = T(edges.begin(), edges.end(), weights.begin());
  }
};

/// Texts with an allocator of their own.
template <class Allocator>
struct state<std::basic_string<char, std::char_traits<char>, Allocator>, void> {
  using Text = std::basic_string<char, std::char_traits<char>, Allocator>;
  static std::string save(const Text& x) { return {x.data(), x.size()}; }
  static void load(Text& x, std::string_view text) { x.assign(text.data(), text.size()); }
};

template <class T>
concept HasState = requires(const T& a, T& b, std::string_view s) {
  { state<T>::save(a) } -> std::convertible_to<std::string>;
  state<T>::load(b, s);
};

/// Memory of `shape` elements of T at `data`; `strides` in elements (empty: dense, C order).
template <class T>
struct Array {
  T* data;
  Extents shape;
  Extents strides;
};
template <class T>
Array<T> array(T* data, Extents shape, Extents strides = {}) {
  return {data, std::move(shape), std::move(strides)};
}
/// The inside of an array of `shape` elements that has `halo[d]` layers on both sides of dimension d
/// (`shape` counts the halos); only the inside is saved.
template <class T>
Array<T> inside(T* data, const Extents& shape, const Extents& halo) {
  if (shape.size() != halo.size()) throw Error(Code::invalid_argument, "inside(): shape and halo differ in length");
  Array<T> a{data, shape, Extents(shape.size())};
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    a.strides[d] = stride;
    stride *= shape[d];
    a.data += halo[d] * a.strides[d];
    a.shape[d] -= 2 * halo[d];
  }
  return a;
}
/// The first `*count` elements of a pool of `capacity` elements; `*count` is read at every capture, and
/// written when the region is put back.
template <class T, class N>
struct Used {
  T* data;
  N* count;
  std::int64_t capacity;
};
template <class T, class N>
Used<T, N> used(T* data, N& count, std::int64_t capacity) {
  return {data, &count, capacity};
}
/// The filled slots of a cell list: cell c holds `counts[c]` elements at data + c * slots. The counts are
/// saved too, as the region "<name>.counts", and put back first.
template <class T, class N>
struct FilledSlots {
  T* data;
  N* counts;
  std::int64_t cells;
  std::int64_t slots;
};
template <class T, class N>
FilledSlots<T, N> filled_slots(T* data, N* counts, std::int64_t cells, std::int64_t slots) {
  return {data, counts, cells, slots};
}
/// A region that only its owner can write and read. `redistribute` may be empty: then it comes back only
/// on the same number of ranks.
struct Callbacks {
  std::function<std::string()> save;
  std::function<void(std::span<const std::byte>)> load;
  std::function<void(const std::vector<std::span<const std::byte>>&, int rank, int size)> redistribute;
};

namespace detail {
struct Scopes;
/// What a replay can give back.
template <class T>
constexpr bool can_be_kept = std::is_trivially_copyable_v<T> && !std::is_reference_v<T> && !points_elsewhere<T>::value;
/// Equal values are equal bytes, where the compiler can tell what holds no value.
template <class T>
std::array<std::byte, sizeof(T)> bytes_of(T value) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
#endif
#endif
  return std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
}
}  // namespace detail
/// One run of one program (or of one of its coupled codes) under protection.
///
/// The constructors, resume(), checkpoint(), wait(), verify(), prune() and the destructor are collective: every
/// rank of the communicator calls them, in the same order. Not thread-safe: one thread calls at a time. Several
/// sessions may live in one program, each with its own `dir` or `name`. Every call throws backstay::Error;
/// Code::invalid_argument from within a function that the session itself calls (of a region), and Code::rank_lost
/// behind a loop() that ended so, where status() alone still answers.
class BACKSTAY_EXPORT Session {
 public:
#if BACKSTAY_HAVE_MPI
  /// Initialises MPI (MPI_THREAD_MULTIPLE if it can be had) unless it was; uses MPI_COMM_WORLD.
  /// MPI is finalised by the destructor if it was initialised here.
  Session(int argc, char** argv, const Options& options = {});
  /// On the ranks of `comm` only. `comm` is duplicated; it stays the caller's.
  explicit Session(MPI_Comm comm, const Options& options = {});
  /// The communicator to use in the program: as many ranks as work on the problem.
  /// With the option spares another one after each repair: take it, and make communicators from it, inside loop().
  [[nodiscard]] MPI_Comm comm() const;
  /// A communicator that the program made from comm() where backstay does not see it (in Fortran, by mpi4py): a rank
  /// that waits in it is woken when another is lost. MPI calls that make communicators in C and C++ need no word. It is
  /// forgotten with the next repair.
  void include(MPI_Comm made);
#else
  Session(int argc, char** argv, const Options& options = {});
#endif
  explicit Session(Alone, const Options& options = {});
  /// Waits (bounded by the option `timeout`) for what is in flight. Where the last checkpoint was not written in time a
  /// sentence says so, and the process ends with status 1 where it would with 0. It does not belong into a callback,
  /// where a sentence says that nothing is closed, nor into the body of loop(), which throws then.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// Adds a region. The memory must stay valid until the session ends or unprotect().
  void protect(RegionSpec spec);
  void unprotect(std::string_view name);
  /// The same for data that do not change from the first checkpoint() on, such as meshes and operators: they are
  /// written once at each level, with its copies or parity, and never again; a line names where they are. After a loss
  /// only who has them no more reads them; what has changed in spite of that is put back as it was. `args`: as for
  /// protect(). A loop() that is run again protects them again: what is still the same is not written again.
  /// Source: static and dynamic data, ExaFLOW D2.4, section 2.5.
  template <class... Args>
  void protect_static(std::string_view name, Args&&... args) {
    const AsStatic scope(*this);
    protect(name, std::forward<Args>(args)...);
  }
  void protect_static(RegionSpec spec) {
    spec.is_static = true;
    protect(std::move(spec));
  }

  template <class T>
  void protect(std::string_view name, std::vector<T>& x, Placement placement = {}, std::string units = {});
  template <class T>
  void protect(std::string_view name, Array<T> x, Placement placement = {}, std::string units = {});
  template <class T, class N>
  void protect(std::string_view name, Used<T, N> x, Placement placement = {}, std::string units = {});
  template <class T, class N>
  void protect(std::string_view name, FilledSlots<T, N> x, Placement placement = {}, std::string units = {});
  void protect(std::string_view name, std::string& x, Placement placement = {});
  void protect(std::string_view name, Callbacks callbacks);
  /// A scalar, a described or trivially copyable struct, a fixed array, or anything with backstay::state.
  template <class T>
  void protect(std::string_view name, T& x, Placement placement = HasState<T> ? Placement{} : replicated(),
               std::string units = {});

  /// Collective, before loop(): runs `phase`, in which the program sets itself up with messages (meshes, operators,
  /// neighbour lists). With the option spares what each rank receives in it is recorded, and the log kept with other
  /// ranks. Who takes the place of a lost rank runs the phase alone, its calls of MPI answered from the log, while the
  /// others keep what they have; where one is lost inside it, all run it again. So its results must not change after
  /// it; it communicates in comm() alone and in what it makes from it, and frees; and backstay's
  /// collective calls do not belong in it. In C and C++, with MPI called by the thread that calls init(). Otherwise
  /// `phase` is just run. Code::invalid_argument: a log cannot answer what it does; Code::mismatch, for a replacement:
  /// it made other calls than before, as its input was another one. Source: ExaFLOW D2.4, section 2.5.
  void init(const std::function<void()>& phase);
  /// Says what a computation reads and overwrites of protected regions: a loop, a routine, or all between. From the
  /// first declaration on that names a region, every use of that region between a checkpoint and the next belongs into
  /// a compute() whose computation declares it (or the region is not named at all). The same declaration again gives
  /// the same computation. Every rank declares the same computations in the same order; ranges may differ.
  /// Code::invalid_argument: a name in use with other accesses, a range or stencil that the region cannot have;
  /// Code::not_found: a region that is not protected. Source: OPS checkpointing, sections 4 and 8.
  Computation declare(const std::string& name, const std::vector<Access>& accesses);
  /// Runs `body`, which is that computation, and returns what it returns. A region that computations overwrite before
  /// they read it, after a checkpoint, is left out of its line; resume() leaves its memory as it is. Until that is
  /// decided, at the next checkpoint() at the latest, the line waits for it, and is given up where the body throws, or
  /// the memory is exchanged meanwhile (by std::swap, say). checkpoint(now) does not wait.
  ///
  /// After replay() it may be skipped: what it returned then is returned again. What it returns must be trivially
  /// copyable then, and no pointer.
  template <class Body>
  decltype(auto) compute(Computation computation, Body&& body) {
    using Value = std::invoke_result_t<Body>;
    if constexpr (std::is_void_v<Value>) {
      if (ahead_->skip(computation.number)) return;
      const Computing scope(*this, computation);
      if (scope.runs()) std::forward<Body>(body)();
    } else if constexpr (detail::can_be_kept<Value>) {
      std::array<std::byte, sizeof(Value)> bytes{};
      if (ahead_->skip(computation.number)) {
        if (!ahead_->give(bytes)) give_back(bytes);
      } else {
        const Computing scope(*this, computation);
        if (scope.runs()) bytes = detail::bytes_of(std::forward<Body>(body)());
        keep(bytes, true);
      }
      return std::bit_cast<Value>(bytes);
    } else {
      const Computing scope(*this, computation);
      refuse_replay(computation);
      return std::forward<Body>(body)();
    }
  }
  /// The same for a body that stands between the two; without an end() it ends with the next call of the session.
  /// False: it is skipped by a replay (one that runs all the same does no harm, if it needs no other rank).
  /// What may throw stands in compute(): an exception that is caught behind begin() is not seen, and the computation
  /// counts as done.
  bool begin(Computation computation);
  void end();
  /// In place of resume(), by programs that declare all of their computations: the program runs from its beginning as
  /// it did, its computations skipped and their results given back from a log, to the call of checkpoint() at which the
  /// newest line was taken; there the data are put back, and it goes on. So its loops, its calls
  /// and the local variables that it sets between computations are again what they were, and none of them is protected.
  /// What the body of a computation sets, and another one reads, must be a region that both declare, or what compute()
  /// returns: another variable (captured, static, a member) keeps its old value where the body is skipped. Collective,
  /// after the declarations and before the first computation or result(); inside loop(), if there is one. checkpoint()
  /// may stand anywhere outside of computations.
  ///
  /// What decides on the way, and is no result of compute(), must be told to result(): of reductions, of clocks, of
  /// random numbers. What is not in computations runs again: communication and output, too, unless replaying().
  /// Code::mismatch: the line has no such log; and from compute(), checkpoint() and result(), where the program goes
  /// another way than it did. Source: OPS checkpointing, section 4, Algorithm 2.
  Resumed replay();
  /// Computations are skipped.
  [[nodiscard]] bool replaying() const;
  /// The beginning of the program ends here; when the program is started again, all of it up to here runs again.
  /// Between replay() and the first checkpoint(); without replay() before resume(), to have an effect. So what no
  /// computation changes after it need not be saved, and is not, where computations name it and it is protected inside
  /// loop() or there is none; in a replay that is so, without this call, of what no computation changes at all. The
  /// beginning must make the same again: Code::mismatch from where the data are put back. Source: OPS checkpointing,
  /// section 5.1.
  void init_done();
  /// From the next checkpoint() on a line holds these regions and no others (but static ones), captured at once; none:
  /// what computations decide, as without this call. A run that goes on from such a line and reads something else
  /// before it has overwritten it is stopped. So what no declared computation uses, or callbacks save, must be on the
  /// list, or no line is saved. The same list on every rank; behind a rollback or a
  /// repair it is the one of before loop() until it is named again. Code::not_found: a region that is not protected;
  /// Code::invalid_argument: a static one, or the option place=best, which finds what a place needs by itself. Source:
  /// OPS checkpointing, section 5.2.
  void save_only(const std::vector<std::string>& regions);
  /// `value` came from something that may give another one the next time. A replay gives back what it was; without
  /// replay(), and inside of computations, nothing happens. Trivially copyable, or a std::string or a std::vector of
  /// what is.
  template <class T>
  void result(T& value) {
    if constexpr (requires { value.resize(std::size_t{}); }) {
      auto size = static_cast<std::uint64_t>(value.size());
      result(size);
      value.resize(static_cast<std::size_t>(size));
      static_assert(detail::can_be_kept<typename T::value_type>, "what a pointer leads to is not kept");
      tell(std::as_writable_bytes(std::span(value)));
    } else {
      static_assert(detail::can_be_kept<T>, "a replay cannot give this back: keep the numbers that it is made of");
      tell(std::as_writable_bytes(std::span(&value, 1)));
    }
  }
  /// Takes a checkpoint if one is due. Returns after the capture; no barrier (docs/limitations.md
  /// says when a rank waits for one that is more than a step behind).
  Outcome checkpoint();
  /// Takes one now; waits for staging memory if an earlier one is still in flight.
  Outcome checkpoint(Now);
  /// Puts back the newest whole line, if there is one. Code::mismatch and Code::version before any memory is touched
  /// but that of static regions, unless memory that changes its size turns out too small; Code::corrupt: no line can be
  /// put back.
  Resumed resume();
  /// Runs `body`; when it (or a call inside) throws through rollback() of this session, runs it again from its
  /// start, where resume() puts back the newest line. What the body has protected is no longer protected then.
  ///
  /// With the option spares also when a rank was lost: a spare takes its place (or, with shrink=on, the others go on),
  /// and all ranks run the body again. Returns when it has returned on all ranks. Code::rank_lost: nobody could take
  /// the place; Code::timeout: a rank did not come within the option timeout. As a spare runs the program only up to
  /// loop(), nothing before it may need an answer from another rank; what does belongs inside. Nor does it come to a
  /// second loop() of the session: there a loss ends the job, by Code::rank_lost.
  void loop(const std::function<void()>& body);
  /// Collective, inside loop(): gives up the current state. Code::invalid_argument outside.
  [[noreturn]] void rollback(const std::string& why);
  /// Waits until everything captured is committed or given up.
  void wait();

  /// Reads every byte of every line at every level and checks its CRC.
  Verified verify();
  /// Removes all but the newest `keep` (>= 1) whole lines of every level. Every byte of what is left is checked before;
  /// Code::corrupt: something there is damaged, and nothing was removed.
  void prune(int keep);

  /// A signal has asked the job to end (agreed: the same on every rank at the same call of checkpoint()).
  [[nodiscard]] bool stopping() const;
  [[nodiscard]] Status status() const;

  class Impl;

 private:
  /// While it lives, what is protected is static.
  class BACKSTAY_EXPORT AsStatic {
   public:
    explicit AsStatic(Session& run);
    ~AsStatic();
    AsStatic(const AsStatic&) = delete;
    AsStatic& operator=(const AsStatic&) = delete;

   private:
    Session& run_;
  };
  class Computing {
   public:
    Computing(Session& run, Computation computation) : run_(run), runs_(run_.enter(computation)) {}
    ~Computing() { run_.leave(!runs_ || std::uncaught_exceptions() == exceptions_); }
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;
    [[nodiscard]] bool runs() const { return runs_; }

   private:
    Session& run_;
    bool runs_;
    int exceptions_ = runs_ ? std::uncaught_exceptions() : 0;
  };
  friend struct detail::Scopes;
  [[nodiscard]] bool is_calling_back() const;
  [[nodiscard]] bool is_in_call() const;
  void say_not_closed() const;
  bool enter(Computation computation);
  void leave(bool completed);
  void keep(std::span<std::byte> value, bool of_computation);
  /// Of a computation that ahead_ has skipped.
  void give_back(std::span<std::byte> value);
  void tell(std::span<std::byte> value) {
    if (!ahead_->give(value)) keep(value, false);
  }
  void refuse_replay(Computation computation) const;
  std::shared_ptr<Impl> impl_;  ///< its own, but for calls that are under way
  detail::Ahead* ahead_;        ///< of impl_
};

// ---- templates -----------------------------------------------------------------------------------------------

namespace detail {
/// For the Python module. The loss of this process can be repaired, and the others notice it only if a signal ends it;
/// end it so, with what it would have ended with; all meet, as the last thing before an MPI_Finalize of mpi4py.
BACKSTAY_EXPORT bool ends_by_a_signal();
BACKSTAY_EXPORT void end_by_a_signal(int status);
enum class AtTheEnd { met, without_spares, lost };
BACKSTAY_EXPORT AtTheEnd meet_before_the_end();  ///< but for `met`, MPI_Finalize would not end
/// For other languages: Session::compute(), whose body is in Python, and what a destructor cannot answer.
struct Scopes {
  /// It has called a function of a region, which may not call it.
  static bool is_calling_back(const Session& run) { return run.is_calling_back(); }
  /// It has called that, or the phase of init(), which may not close it there.
  static bool is_in_call(const Session& run) { return run.is_in_call(); }
  static void say_not_closed(const Session& run) { run.say_not_closed(); }
  static bool enter(Session& run, Computation computation) { return run.enter(computation); }
  static void leave(Session& run, bool completed) { run.leave(completed); }
  static void keep(Session& run, std::span<std::byte> value, bool of_computation) { run.keep(value, of_computation); }
};

inline View cannot_hold() {
  View v;
  v.valid = false;
  return v;
}
/// A vector has one dimension in memory; placed as a block it has the shape of its box.
inline Extents box_shape(const Placement& placement, std::int64_t count) {
  if (placement.kind != Placement::Kind::block) return {count};
  Extents shape;
  std::int64_t product = 1;
  for (std::size_t d = 0; d < placement.lower.size() && d < placement.upper.size(); ++d) {
    shape.push_back(placement.upper[d] - placement.lower[d]);
    product *= shape.back();
  }
  return product == count ? shape : Extents{count};  // a wrong size is refused with a sentence by protect
}
inline std::int64_t product(const Extents& shape) {
  std::int64_t n = 1;
  for (auto s : shape) n *= s;
  return n;
}
}  // namespace detail

template <class T>
void Session::protect(std::string_view name, std::vector<T>& x, Placement placement, std::string units) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory: use std::vector<char>");
  RegionSpec spec;
  spec.name = name;
  spec.type = type_of<T>();
  spec.padding = detail::padding_of<T>();
  spec.units = std::move(units);
  spec.placement = placement;
  spec.view = [&x, placement] {
    return detail::dense_view(x.data(), detail::box_shape(placement, static_cast<std::int64_t>(x.size())), sizeof(T));
  };
  spec.reshape = [&x](const Extents& shape) {
    x.resize(static_cast<std::size_t>(detail::product(shape)));
    return detail::dense_view(x.data(), shape, sizeof(T));
  };
  protect(std::move(spec));
}

template <class T>
void Session::protect(std::string_view name, Array<T> x, Placement placement, std::string units) {
  RegionSpec spec;
  spec.name = name;
  spec.type = type_of<T>();
  spec.padding = detail::padding_of<T>();
  spec.units = std::move(units);
  spec.placement = std::move(placement);
  spec.view = [x] {
    View v = detail::dense_view(x.data, x.shape, sizeof(T));
    v.valid = x.strides.empty() || x.strides.size() == x.shape.size();
    for (std::size_t d = 0; v.valid && d < x.strides.size(); ++d)
      v.strides[d] = detail::stride_in_bytes(x.strides[d], sizeof(T));
    return v;
  };
  protect(std::move(spec));
}

template <class T, class N>
void Session::protect(std::string_view name, Used<T, N> x, Placement placement, std::string units) {
  RegionSpec spec;
  spec.name = name;
  spec.type = type_of<T>();
  spec.padding = detail::padding_of<T>();
  spec.units = std::move(units);
  spec.placement = std::move(placement);
  spec.view = [x] {
    View v = detail::dense_view(x.data, {static_cast<std::int64_t>(*x.count)}, sizeof(T));
    v.valid = v.shape[0] >= 0 && v.shape[0] <= x.capacity;
    return v;
  };
  spec.reshape = [x](const Extents& shape) {
    if (shape.size() != 1 || shape[0] > x.capacity) return detail::cannot_hold();
    const auto count = static_cast<N>(shape[0]);
    if (static_cast<std::int64_t>(count) != shape[0]) return detail::cannot_hold();  // N is too narrow
    *x.count = count;
    return detail::dense_view(x.data, shape, sizeof(T));
  };
  protect(std::move(spec));
}

template <class T, class N>
void Session::protect(std::string_view name, FilledSlots<T, N> x, Placement placement, std::string units) {
  const std::string counts = std::string(name) + ".counts";
  protect(counts, array(x.counts, {x.cells}),
          placement.kind == Placement::Kind::rank_private ? Placement{} : placement);
  RegionSpec spec;
  spec.name = name;
  spec.companion = counts;
  spec.type = type_of<T>();
  spec.padding = detail::padding_of<T>();
  spec.units = std::move(units);
  spec.placement = std::move(placement);
  spec.view = [x] {
    View v;
    v.data = reinterpret_cast<std::byte*>(x.data);
    v.strides = {x.slots * static_cast<std::int64_t>(sizeof(T))};
    v.shape = {0};
    for (std::int64_t c = 0; c < x.cells; ++c) {
      const auto n = static_cast<std::int64_t>(x.counts[c]);
      v.valid = v.valid && n >= 0 && n <= x.slots;
      v.run_lengths.push_back(n);
      v.shape[0] += n;
    }
    return v;
  };
  spec.reshape = [view = spec.view](const Extents& shape) {
    View v = view();
    return v.valid && v.shape == shape ? v : detail::cannot_hold();
  };
  try {
    protect(std::move(spec));
  } catch (...) {
    unprotect(counts);
    throw;
  }
}

template <class T>
void Session::protect(std::string_view name, T& x, Placement placement, std::string units) {
  static_assert(!detail::points_elsewhere<std::remove_all_extents_t<T>>::value,
                "this would save an address, not the data: use backstay::array(pointer, {length})");
  RegionSpec spec;
  spec.name = name;
  spec.units = std::move(units);
  spec.placement = std::move(placement);
  if constexpr (HasState<T>) {
    spec.type = {Type::Kind::text, 1, {}};
    spec.save = [&x] { return std::string(state<T>::save(x)); };
    spec.load = [&x](std::span<const std::byte> bytes) {
      state<T>::load(x, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    };
  } else {
    using Element = std::remove_all_extents_t<T>;
    spec.type = type_of<Element>();
    spec.padding = detail::padding_of<Element>();
    Extents shape;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (shape.push_back(static_cast<std::int64_t>(std::extent_v<T, I>)), ...);
    }(std::make_index_sequence<std::rank_v<T>>{});
    spec.view = [&x, shape] { return detail::dense_view(&x, shape, sizeof(Element)); };
  }
  protect(std::move(spec));
}

}  // namespace backstay
