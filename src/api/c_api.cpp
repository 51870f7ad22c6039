// The C ABI: every function turns its arguments into the C++ call and what the call throws into a code and a sentence.
#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "api/options.h"
#include "backstay/backstay.h"
#include "backstay/session.hpp"
#include "base/result.h"
#include "base/thread_value.h"
#include "check/place.h"
#if BACKSTAY_HAVE_MPI
#include "backstay/backstay_mpi.h"
#include "comm/message_log.h"
#endif

struct backstay_session {
  template <class... Arguments>
  explicit backstay_session(Arguments&&... arguments) : session(std::forward<Arguments>(arguments)...) {}
  backstay::Session session;
};

struct backstay_stream {
  std::string bytes;
};

namespace {
using backstay::cat;
using backstay::Code;
using backstay::Error;
using backstay::Extents;

static_assert(static_cast<int>(Code::internal) == BACKSTAY_INTERNAL);
static_assert(static_cast<int>(Code::rank_lost) == BACKSTAY_RANK_LOST);
static_assert(static_cast<int>(backstay::Type::Kind::compound) == BACKSTAY_COMPOUND);
static_assert(static_cast<int>(backstay::Outcome::stop) == BACKSTAY_STOP);

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Code::invalid_argument, sentence); }

/// Copies a text into a field that ends with a zero byte; what does not fit is cut between characters and ends in
/// "...".
template <std::size_t capacity>
void copy_text(char (&field)[capacity], std::string_view text) {
  constexpr std::string_view more = "...";
  std::size_t length = std::min(text.size(), capacity - 1);
  if (length < text.size()) {
    length = capacity - 1 - more.size();
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  std::memcpy(field, text.data(), length);
  field[length] = '\0';
  if (length < text.size()) std::memcpy(field + length, more.data(), more.size() + 1);
}

/// Of the calls of this thread: why the last one that failed did. Empty, where there was no memory for it, or none.
struct LastFailure {
  std::string sentence;
};

void keep_failure(std::string_view sentence) noexcept {
  auto* const last = backstay::of_this_thread<LastFailure>();
  if (last == nullptr) return;
  try {
    last->sentence = sentence;
  } catch (...) {
    last->sentence.clear();
  }
}

std::string take_failure() {
  auto* const last = backstay::of_this_thread<LastFailure>();
  return last != nullptr ? std::exchange(last->sentence, {}) : std::string{};
}

int report(backstay_error* error, Code code, std::string_view sentence) noexcept {
  if (code != Code::ok) keep_failure(sentence);
  if (error != nullptr) {
    error->code = static_cast<int>(code);
    copy_text(error->message, sentence);
  }
  return static_cast<int>(code);
}

/// Runs the body of a call: whatever it throws stops here.
template <class Body>
int guarded(backstay_error* error, const Body& body) noexcept {
  try {
    body();
    return report(error, Code::ok, "");
  } catch (const Error& e) {
    return report(error, e.code(), e.what());
  } catch (const backstay::RankLost&) {
    return report(error, Code::rank_lost,
                  "a rank was lost: return from the body of backstay_loop, which runs it again");
  } catch (const std::bad_alloc&) {
    return report(error, Code::limit, "there is no memory left for this call");
  } catch (const std::exception& e) {
    return report(error, Code::internal, e.what());
  } catch (...) {
    return report(error, Code::internal, "something unknown was thrown");
  }
}

template <class T>
T& given(T* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) refuse(cat(function, ": the argument `", argument, "` is NULL"));
  return *pointer;
}

/// Fortran has no NULL: its handle is one before open and after close.
template <class T>
auto& of(T* session, const char* function) {
  if (session == nullptr) refuse(cat(function, ": the session is not open (`session` is NULL): open it before"));
  return session->session;
}

backstay::Options read_options(const char* const* options) {
  backstay::Options out;
  for (; options != nullptr && *options != nullptr; ++options) {
    const std::string_view text(*options);
    const auto equals = text.find('=');
    if (equals == text.npos || equals == 0) refuse(cat("the option '", text, "' is not understood: write name=value"));
    out[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  out.emplace("lost_rank", "return");  // exceptions have no way through C
  return out;
}

/// `make` gives a new backstay_session from options.
template <class Make>
int open(const char* function, const char* const* options, backstay_session** session, backstay_error* error,
         const Make& make) {
  return guarded(error, [&] {
    given(session, function, "session") = nullptr;
    *session = make(read_options(options));
  });
}

// ---- regions -----------------------------------------------------------------------------------------------------

std::size_t read_dimensions(const std::string& what, int ndim) {
  if (ndim < 0 || static_cast<std::size_t>(ndim) > backstay::max_dimensions)
    refuse(cat(what, ": ndim is ", ndim, ", and must be 0 to ", backstay::max_dimensions));
  return static_cast<std::size_t>(ndim);
}

Extents read_extents(const std::string& what, const int64_t* lengths, int ndim) {
  read_dimensions(what, ndim);
  if (ndim > 0 && lengths == nullptr) refuse(cat(what, ": ndim is ", ndim, " and its list of lengths is NULL"));
  return ndim == 0 ? Extents{} : Extents(lengths, lengths + ndim);
}

backstay::Type read_type(const std::string& what, const backstay_type& type, int depth = 0) {
  constexpr int deepest = 16;
  if (type.kind < BACKSTAY_INTEGER || type.kind > BACKSTAY_COMPOUND)
    refuse(cat(what, ": its type has the kind ", type.kind, ", which does not exist"));
  backstay::Type out{static_cast<backstay::Type::Kind>(type.kind), type.size, {}};
  if (type.kind != BACKSTAY_COMPOUND) return out;
  if (type.members == nullptr || depth > deepest)
    refuse(cat(what, ": its struct has no list of members, or is nested too deeply"));
  for (std::size_t i = 0; i < type.member_count; ++i) {
    const backstay_member& m = type.members[i];
    if (m.name == nullptr) refuse(cat(what, ": member ", i, " of its struct has no name"));
    const std::string member = cat(what, ", member '", m.name, "'");
    out.members.push_back(
        {m.name, m.offset, read_extents(member, m.shape, m.ndim), read_type(member, m.type, depth + 1)});
  }
  return out;
}

backstay::Placement read_placement(const std::string& what, const backstay_region& region) {
  switch (region.placement) {
    case BACKSTAY_DEFAULT:
      return region.ndim == 0 ? backstay::replicated() : backstay::rank_private();
    case BACKSTAY_RANK_PRIVATE:
      return backstay::rank_private();
    case BACKSTAY_REPLICATED:
      return backstay::replicated();
    case BACKSTAY_DISTRIBUTED_LIST:
      return backstay::distributed_list();
    case BACKSTAY_BLOCK:
      return backstay::block(read_extents(what + ": global", region.global, region.ndim),
                             read_extents(what + ": lower", region.lower, region.ndim),
                             read_extents(what + ": upper", region.upper, region.ndim));
  }
  refuse(cat(what, ": its placement ", region.placement, " does not exist"));
}

backstay::View fixed_view(const std::string& what, const backstay_region& region, std::size_t element) {
  auto view = backstay::detail::dense_view(region.data, read_extents(what, region.shape, region.ndim), element);
  if (region.strides == nullptr) return view;
  view.strides = read_extents(what, region.strides, region.ndim);
  for (auto& stride : view.strides) stride = backstay::detail::stride_in_bytes(stride, element);
  return view;
}

void add_fixed_memory(backstay::RegionSpec& spec, const std::string& what, const backstay_region& region) {
  const auto view = fixed_view(what, region, spec.type.size);
  spec.view = [view] { return view; };
}

void add_moving_memory(backstay::RegionSpec& spec, const std::string& what, const backstay_region& region) {
  if (region.look == nullptr || region.resize == nullptr)
    refuse(what + " has one of `look` and `resize`; it needs both");
  if (region.strides != nullptr) refuse(what + " has `strides` and `look`: memory that changes is dense");
  const auto dimensions = read_dimensions(what, region.ndim);
  const auto element = spec.type.size;
  spec.view = [look = region.look, user = region.user, dimensions, element] {
    void* data = nullptr;
    Extents shape(dimensions);
    const int answer = look(user, &data, shape.data());
    if (answer != 0) throw Error(Code::user, cat("`look` returned ", answer));
    return backstay::detail::dense_view(data, std::move(shape), element);
  };
  spec.reshape = [resize = region.resize, user = region.user, dimensions, element](const Extents& shape) {
    void* data = nullptr;
    if (shape.size() != dimensions || resize(user, shape.data(), &data) != 0) return backstay::detail::cannot_hold();
    return backstay::detail::dense_view(data, shape, element);
  };
}

backstay::RegionSpec read_region(const backstay_region& region) {
  if (region.name == nullptr) refuse("backstay_protect: the region has no name");
  const std::string what = cat("region '", region.name, "'");
  backstay::RegionSpec spec;
  spec.name = region.name;
  spec.units = region.units == nullptr ? "" : region.units;
  spec.type = read_type(what, region.type);
  spec.placement = read_placement(what, region);
  if (region.look == nullptr && region.resize == nullptr)
    add_fixed_memory(spec, what, region);
  else
    add_moving_memory(spec, what, region);
  return spec;
}

backstay::RegionSpec text_region(const char* name, char* text, std::size_t capacity) {
  if (capacity == 0) refuse(cat("text '", name, "': a buffer of 0 bytes cannot hold a text"));
  backstay::RegionSpec spec;
  spec.name = name;
  spec.type = {backstay::Type::Kind::text, 1, {}};
  spec.save = [text, capacity] {
    const std::size_t length = strnlen(text, capacity);
    if (length == capacity)
      throw Error(Code::user, cat("its ", capacity, " bytes hold no zero byte that ends the text"));
    return std::string(text, length);
  };
  spec.load = [text, capacity](std::span<const std::byte> bytes) {
    if (bytes.size() >= capacity)
      throw Error(Code::user, cat("the text of ", bytes.size(), " bytes does not fit the buffer of ", capacity));
    if (!bytes.empty()) std::memcpy(text, bytes.data(), bytes.size());
    text[bytes.size()] = '\0';
  };
  return spec;
}

void require(int answer, const char* callback) {
  if (answer != 0) throw Error(Code::user, cat("`", callback, "` returned ", answer));
}

void call_redistribute(const backstay_callbacks& c, const std::vector<std::span<const std::byte>>& pieces, int rank,
                       int size) {
  std::vector<const void*> bytes;
  std::vector<std::size_t> sizes;
  for (const auto& piece : pieces) {
    bytes.push_back(piece.data());
    sizes.push_back(piece.size());
  }
  require(c.redistribute(c.user, bytes.size(), bytes.data(), sizes.data(), rank, size), "redistribute");
}

backstay::Callbacks read_callbacks(const backstay_callbacks& c) {
  if (c.save == nullptr || c.load == nullptr) refuse("backstay_protect_callbacks: `save` and `load` are both needed");
  backstay::Callbacks out;
  out.save = [c] {
    backstay_stream stream;
    require(c.save(c.user, &stream), "save");
    return std::move(stream.bytes);
  };
  out.load = [c](std::span<const std::byte> bytes) { require(c.load(c.user, bytes.data(), bytes.size()), "load"); };
  if (c.redistribute == nullptr) return out;
  out.redistribute = [c](const std::vector<std::span<const std::byte>>& pieces, int rank, int size) {
    call_redistribute(c, pieces, rank, size);
  };
  return out;
}

// ---- results -----------------------------------------------------------------------------------------------------

backstay_resumed to_c(const backstay::Resumed& from) {
  backstay_resumed to{};
  to.resumed = from.resumed ? 1 : 0;
  to.line = from.line;
  copy_text(to.level, from.level);
  to.seconds = from.seconds;
  to.saved_ranks = from.saved_ranks;
  return to;
}

backstay::Access access_of(const char* computation, const backstay_access& from) {
  if (from.region == nullptr)
    refuse(backstay::cat("backstay_declare: computation '", computation, "' has an access whose region is NULL"));
  backstay::Access to{from.region, static_cast<backstay::Access::Mode>(from.mode)};
  const bool has_range = from.begin != nullptr && from.end != nullptr;
  const bool has_reach = from.reach_below != nullptr && from.reach_above != nullptr;
  const bool half = has_range != (from.begin != nullptr || from.end != nullptr) ||
                    has_reach != (from.reach_below != nullptr || from.reach_above != nullptr);
  if (half || ((has_range || has_reach) != (from.ndim > 0)))
    refuse(backstay::cat("backstay_declare: computation '", computation, "', region '", from.region,
                         "': `ndim` is the length of `begin` and `end`, or of `reach_below` and `reach_above`, each "
                         "given both or not at all"));
  for (int d = 0; d < from.ndim; ++d) {
    if (has_range) to.range.push_back({from.begin[d], from.end[d]});
    if (has_reach) to.stencil.push_back({from.reach_below[d], from.reach_above[d]});
  }
  return to;
}

backstay_counters to_c(const backstay::Status& from) {
  backstay_counters to{};
  to.calls = from.calls;
  to.taken = from.taken;
  to.skipped = from.skipped;
  to.committed = from.committed;
  to.failed = from.failed;
  to.in_flight = from.in_flight;
  to.newest_line = from.newest_line;
  to.blocked_seconds = from.blocked_seconds;
  to.staging_bytes = from.staging_bytes;
  to.left_out_bytes = from.left_out_bytes;
  copy_text(to.last_error, from.last_error);
  return to;
}

const backstay::api::OptionInfo* option(std::size_t index) {
  const auto& table = backstay::api::option_table();
  return index < table.size() ? &table[index] : nullptr;
}
}  // namespace

extern "C" {

const char* backstay_version(void) { return BACKSTAY_VERSION; }

// ---- open and close ----------------------------------------------------------------------------------------------

int backstay_open_alone(const char* const* options, backstay_session** session, backstay_error* error) {
  return open("backstay_open_alone", options, session, error,
              [](const auto& o) { return new backstay_session(backstay::alone, o); });
}

int backstay_open_world(int argc, char** argv, const char* const* options, backstay_session** session,
                        backstay_error* error) {
  return open("backstay_open_world", options, session, error, [&](const auto& o) {
    static char* none[] = {nullptr};
    return new backstay_session(argv == nullptr ? 0 : argc, argv == nullptr ? none : argv, o);
  });
}

#if BACKSTAY_HAVE_MPI
int backstay_open_mpi(MPI_Comm comm, const char* const* options, backstay_session** session, backstay_error* error) {
  return open("backstay_open_mpi", options, session, error, [&](const auto& o) {
    if (comm == MPI_COMM_NULL) refuse("backstay_open_mpi: `comm` is MPI_COMM_NULL: only its ranks may call");
    return new backstay_session(comm, o);
  });
}

int backstay_comm(const backstay_session* session, MPI_Comm* comm, backstay_error* error) {
  return guarded(error, [&] { given(comm, "backstay_comm", "comm") = of(session, "backstay_comm").comm(); });
}

int backstay_include(backstay_session* session, MPI_Comm made, backstay_error* error) {
  return guarded(error, [&] { of(session, "backstay_include").include(made); });
}

namespace {
/// MPI ends a process that turns handles into each other while it is not there.
void require_mpi(const char* what) {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (begun == 0 || ended != 0)
    refuse(cat(what, " is of no use here, as MPI ", begun == 0 ? "was not initialised" : "has ended",
               ": there are no communicators"));
}

MPI_Comm handle_of(MPI_Fint comm, const char* what) {
  require_mpi(what);
  const MPI_Comm handle = MPI_Comm_f2c(comm);
  return handle == MPI_Comm{} ? MPI_COMM_NULL : handle;  // of a number that is none of a communicator
}
}  // namespace

int backstay_open_fortran(MPI_Fint comm, const char* const* options, backstay_session** session,
                          backstay_error* error) {
  MPI_Comm handle = MPI_COMM_NULL;
  const int code = guarded(error, [&] { handle = handle_of(comm, "open() with a communicator"); });
  return code == BACKSTAY_OK ? backstay_open_mpi(handle, options, session, error) : code;
}

int backstay_comm_fortran(const backstay_session* session, MPI_Fint* comm, backstay_error* error) {
  return guarded(error, [&] {
    const MPI_Comm handle = of(session, "backstay_comm_fortran").comm();
    require_mpi("comm()");
    given(comm, "backstay_comm_fortran", "comm") = MPI_Comm_c2f(handle);
  });
}

int backstay_include_fortran(backstay_session* session, MPI_Fint made, backstay_error* error) {
  MPI_Comm handle = MPI_COMM_NULL;
  const int code = guarded(error, [&] { handle = handle_of(made, "include()"); });
  return code == BACKSTAY_OK ? backstay_include(session, handle, error) : code;
}
#endif

void backstay_keep_failure(const char* sentence) { keep_failure(sentence); }

void backstay_calls_are_unseen() {
#if BACKSTAY_HAVE_MPI
  backstay::comm::message_log::calls_are_unseen();
#endif
}

int backstay_close_fortran(backstay_session* session) {
  bool stays_open = false;
  (void)guarded(nullptr, [&] {
    using backstay::detail::Scopes;
    stays_open = session != nullptr && Scopes::is_in_call(session->session);
    if (stays_open) return Scopes::say_not_closed(session->session);
    delete session;
  });
  return stays_open ? 1 : 0;
}

void backstay_close(backstay_session* session) { (void)backstay_close_fortran(session); }

int backstay_rank(const backstay_session* session, int* rank, backstay_error* error) {
  return guarded(error, [&] { given(rank, "backstay_rank", "rank") = of(session, "backstay_rank").rank(); });
}

int backstay_size(const backstay_session* session, int* size, backstay_error* error) {
  return guarded(error, [&] { given(size, "backstay_size", "size") = of(session, "backstay_size").size(); });
}

// ---- what is protected -------------------------------------------------------------------------------------------

int backstay_protect(backstay_session* session, const backstay_region* region, backstay_error* error) {
  return guarded(error, [&] {
    of(session, "backstay_protect").protect(read_region(given(region, "backstay_protect", "region")));
  });
}

int backstay_protect_static(backstay_session* session, const backstay_region* region, backstay_error* error) {
  constexpr const char* function = "backstay_protect_static";
  return guarded(error, [&] { of(session, function).protect_static(read_region(given(region, function, "region"))); });
}

int backstay_protect_text(backstay_session* session, const char* name, char* text, size_t capacity,
                          backstay_error* error) {
  return guarded(error, [&] {
    given(name, "backstay_protect_text", "name");
    given(text, "backstay_protect_text", "text");
    of(session, "backstay_protect_text").protect(text_region(name, text, capacity));
  });
}

int backstay_write(backstay_stream* stream, const void* bytes, size_t size) {
  return guarded(nullptr, [&] {
    given(stream, "backstay_write", "stream");
    if (size > 0) given(static_cast<const char*>(bytes), "backstay_write", "bytes");
    if (size > 0) stream->bytes.append(static_cast<const char*>(bytes), size);
  });
}

int backstay_protect_callbacks(backstay_session* session, const char* name, const backstay_callbacks* callbacks,
                               backstay_error* error) {
  constexpr const char* function = "backstay_protect_callbacks";
  return guarded(error, [&] {
    given(name, function, "name");
    of(session, function).protect(name, read_callbacks(given(callbacks, function, "callbacks")));
  });
}

int backstay_unprotect(backstay_session* session, const char* name, backstay_error* error) {
  return guarded(error, [&] {
    given(name, "backstay_unprotect", "name");
    of(session, "backstay_unprotect").unprotect(name);
  });
}

// ---- declared computations ---------------------------------------------------------------------------------------

int backstay_declare(backstay_session* session, const char* name, const backstay_access* accesses, size_t count,
                     int* computation, backstay_error* error) {
  return guarded(error, [&] {
    if (name == nullptr) refuse("backstay_declare: the argument `name` is NULL");
    if (accesses == nullptr && count > 0) refuse("backstay_declare: the argument `accesses` is NULL");
    if (computation == nullptr) refuse("backstay_declare: the argument `computation` is NULL");
    std::vector<backstay::Access> all;
    for (size_t i = 0; i < count; ++i) all.push_back(access_of(name, accesses[i]));
    *computation = of(session, "backstay_declare").declare(name, all).number;
  });
}

int backstay_begin(backstay_session* session, int computation, backstay_error* error) {
  return guarded(error, [&] { of(session, "backstay_begin").begin({computation}); });
}

int backstay_end(backstay_session* session, backstay_error* error) {
  return guarded(error, [&] { of(session, "backstay_end").end(); });
}

// ---- checkpoint and resume ---------------------------------------------------------------------------------------

int backstay_checkpoint(backstay_session* session, int* outcome, backstay_error* error) {
  return guarded(error, [&] {
    const auto done = of(session, "backstay_checkpoint").checkpoint();
    if (outcome != nullptr) *outcome = static_cast<int>(done);
  });
}

int backstay_checkpoint_now(backstay_session* session, int* outcome, backstay_error* error) {
  return guarded(error, [&] {
    const auto done = of(session, "backstay_checkpoint_now").checkpoint(backstay::now);
    if (outcome != nullptr) *outcome = static_cast<int>(done);
  });
}

int backstay_checkpoint_fortran(backstay_session* session, int* outcome, backstay_error* error) {
  const backstay::check::BehindWrapper behind;
  return backstay_checkpoint(session, outcome, error);
}

int backstay_checkpoint_now_fortran(backstay_session* session, int* outcome, backstay_error* error) {
  const backstay::check::BehindWrapper behind;
  return backstay_checkpoint_now(session, outcome, error);
}

int backstay_resume(backstay_session* session, backstay_resumed* resumed, backstay_error* error) {
  return guarded(error, [&] {
    const auto found = of(session, "backstay_resume").resume();
    if (resumed != nullptr) *resumed = to_c(found);
  });
}

int backstay_replay(backstay_session* session, backstay_resumed* resumed, backstay_error* error) {
  return guarded(error, [&] {
    const auto found = of(session, "backstay_replay").replay();
    if (resumed != nullptr) *resumed = to_c(found);
  });
}

int backstay_replaying(const backstay_session* session, int* replaying, backstay_error* error) {
  return guarded(error, [&] {
    if (replaying == nullptr) refuse("backstay_replaying: the argument `replaying` is NULL");
    *replaying = of(session, "backstay_replaying").replaying() ? 1 : 0;
  });
}

int backstay_save_only(backstay_session* session, const char* const* regions, size_t count, backstay_error* error) {
  return guarded(error, [&] {
    if (regions == nullptr && count > 0) refuse("backstay_save_only: the argument `regions` is NULL");
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      if (regions[i] == nullptr) refuse("backstay_save_only: one of the regions is NULL");
      names.emplace_back(regions[i]);
    }
    of(session, "backstay_save_only").save_only(names);
  });
}

int backstay_init_done(backstay_session* session, backstay_error* error) {
  return guarded(error, [&] { of(session, "backstay_init_done").init_done(); });
}

int backstay_result(backstay_session* session, void* value, size_t bytes, backstay_error* error) {
  return guarded(error, [&] {
    if (value == nullptr && bytes > 0) refuse("backstay_result: the argument `value` is NULL");
    backstay::detail::Scopes::keep(of(session, "backstay_result"), {static_cast<std::byte*>(value), bytes}, false);
  });
}

namespace {
/// Calls a function of the program, which may have thrown away why a call of the session in it failed.
void call_back(backstay_body body, void* user, const char* what) {
  take_failure();
  const int returned = body(user);
  if (returned == 0) return;
  const std::string why = take_failure();
  throw Error(Code::user, cat(what, " returned ", returned,
                              why.empty() ? "" : cat("; the last call of backstay in it that failed said: ", why)));
}
}  // namespace

int backstay_loop(backstay_session* session, backstay_body body, void* user, backstay_error* error) {
  return guarded(error, [&] {
    if (body == nullptr) refuse("backstay_loop: the argument `body` is NULL");
    of(session, "backstay_loop").loop([&] { call_back(body, user, "the body of backstay_loop"); });
  });
}

int backstay_init(backstay_session* session, backstay_body phase, void* user, backstay_error* error) {
  return guarded(error, [&] {
    if (phase == nullptr) refuse("backstay_init: the argument `phase` is NULL");
    of(session, "backstay_init").init([&] { call_back(phase, user, "the phase of backstay_init"); });
  });
}

int backstay_wait(backstay_session* session, backstay_error* error) {
  return guarded(error, [&] { of(session, "backstay_wait").wait(); });
}

// ---- looking after lines -----------------------------------------------------------------------------------------

int backstay_verify(backstay_session* session, backstay_verified* verified, backstay_hear hear, void* user,
                    backstay_error* error) {
  return guarded(error, [&] {
    const auto found = of(session, "backstay_verify").verify();
    if (verified != nullptr) *verified = {found.lines, found.segments, found.damage.size()};
    for (const auto& sentence : found.damage)
      if (hear != nullptr) hear(user, sentence.c_str());
  });
}

int backstay_prune(backstay_session* session, int keep, backstay_error* error) {
  return guarded(error, [&] { of(session, "backstay_prune").prune(keep); });
}

int backstay_stopping(const backstay_session* session, int* stopping, backstay_error* error) {
  constexpr const char* function = "backstay_stopping";
  return guarded(error, [&] { given(stopping, function, "stopping") = of(session, function).stopping() ? 1 : 0; });
}

int backstay_status(const backstay_session* session, backstay_counters* counters, backstay_error* error) {
  constexpr const char* function = "backstay_status";
  return guarded(error, [&] { given(counters, function, "counters") = to_c(of(session, function).status()); });
}

// ---- options -----------------------------------------------------------------------------------------------------

size_t backstay_option_count(void) { return backstay::api::option_table().size(); }

const char* backstay_option_name(size_t index) {
  const auto* found = option(index);
  return found == nullptr ? nullptr : found->name.c_str();
}

const char* backstay_option_initial(size_t index) {
  const auto* found = option(index);
  return found == nullptr ? nullptr : found->initial.c_str();
}

const char* backstay_option_meaning(size_t index) {
  const auto* found = option(index);
  return found == nullptr ? nullptr : found->meaning.c_str();
}

}  // extern "C"
