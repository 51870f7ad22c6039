// The C++ session for Python. backstay.session makes of it what users see; nothing else imports this module.
//
// The GIL: every call that may wait lets go of it (init() does not wait in Python: with spares it is refused). What the
// library calls back on the program's thread (look, save, load, the body of loop()) takes it again. The background
// thread knows nothing of Python.
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/options.h"
#include "backstay/backstay.h"
#include "backstay/backstay.hpp"
#include "base/result.h"
#include "check/place.h"
#include "region/region_set.h"

namespace nb = nanobind;

namespace {
using backstay::Code;
using backstay::Error;
using backstay::Extents;
using backstay::Options;
using backstay::Placement;
using backstay::RegionSpec;
using backstay::Session;
using backstay::Type;
using backstay::View;

// ---- Python objects in C++ functions -----------------------------------------------------------------------------

/// A Python object that may be let go on any thread, with or without the GIL.
using Kept = std::shared_ptr<nb::object>;
Kept keep(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* kept) {
            const nb::gil_scoped_acquire gil;
            delete kept;
          }};
}

nb::object error_type() { return nb::module_::import_("backstay.session").attr("Error"); }

/// Also of names of files, whose bytes that are no text Python keeps as surrogates.
std::string bytes_of(const nb::str& text) {
  const auto bytes = nb::steal<nb::bytes>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return {bytes.c_str(), bytes.size()};
}

std::string sentence_of(const nb::python_error& e) {
  const std::string text = bytes_of(nb::str(e.value()));
  if (nb::isinstance(e.value(), error_type())) return text;  // our own: a sentence as it is
  return backstay::cat(nb::type_name(e.type()).c_str(), text.empty() ? "" : ": ", text);
}

template <class Body>
auto without_gil(const Body& body) {
  const nb::gil_scoped_release released;
  return body();
}

/// Runs `body` where the scope ends.
template <class Body>
class AtEnd {
 public:
  explicit AtEnd(Body body) : body_(std::move(body)) {}
  ~AtEnd() { body_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  Body body_;
};

/// How session.py gives memory: address of the first element, shape, strides in bytes.
using Memory = std::tuple<std::uintptr_t, Extents, Extents>;
View view_of(const Memory& memory) {
  View view;
  view.data = reinterpret_cast<std::byte*>(std::get<0>(memory));
  view.shape = std::get<1>(memory);
  view.strides = std::get<2>(memory);
  return view;
}

// ---- the session -------------------------------------------------------------------------------------------------

class PySession {
 public:
  explicit PySession(std::unique_ptr<Session> session) : session_(std::move(session)) {}
  ~PySession() {
    without_gil([&] { session_.reset(); });
  }
  PySession(const PySession&) = delete;
  PySession& operator=(const PySession&) = delete;

  void close();
  /// As when an exception leaves the session's scope: the other ranks, who may know nothing of it, are not waited for.
  void leave();
  [[nodiscard]] bool closed() const { return session_ == nullptr; }
  [[nodiscard]] Session& get() const {
    if (closed()) throw Error(Code::invalid_argument, "the session is closed: open another one");
    return *session_;
  }

  void require_outside_of(bool is_asking, const char* name) const {
    if (caller_ == 0 && is_asking)
      throw Error(Code::invalid_argument, backstay::cat(name, " was called from within another call of the session, ",
                                                        "which had called back into the program: that may not"));
  }
  /// Refuses the call `name` while another is under way. Needs the GIL, as call() does.
  void require_no_call(const char* name) const {
    require_outside_of(!closed() && backstay::detail::Scopes::is_calling_back(*session_), name);
    const auto me = PyThread_get_thread_ident();
    // In the library's part of its own loop() a thread runs the destructors of what a body has left.
    const auto busy = caller_ == 0 && away_ != me ? away_ : caller_;
    if (busy == 0) return;
    throw Error(Code::invalid_argument,
                busy == me
                    ? backstay::cat(name, " was called from within checkpoint() or resume(): a callback may not")
                    : backstay::cat(name, " was called while another thread is in a call of this session: one thread ",
                                    "at a time may, so have them share a threading.Lock"));
  }

  /// For what else marks something in the session.
  void require_nobody_away(const char* name) const {
    if (away_ != 0 && away_ != PyThread_get_thread_ident()) require_no_call(name);
  }

  /// Runs `body`, a call that may wait, without the GIL.
  template <class Body>
  auto call(const char* name, const Body& body) {
    require_no_call(name);
    caller_ = PyThread_get_thread_ident();
    const AtEnd ended([this] { caller_ = 0; });
    return run([&] { return without_gil(body); });
  }

  /// As call(), for loop(), which makes the session anew, and runs a part of the program by give_way(). A call of
  /// another thread may go on when that ends.
  template <class Body>
  void call_around(const char* name, const Body& body) {
    require_no_call(name);
    note_what_is_seen();
    const AtEnd back([this, before = std::exchange(away_, PyThread_get_thread_ident())] { away_ = before; });
    run([&] { without_gil(body); });
  }
  /// Runs `body`, in which the session may be called, from code that holds no GIL.
  template <class Body>
  void give_way(const Body& body) {
    const nb::gil_scoped_acquire gil;
    const AtEnd back([this, before = std::exchange(away_, 0)] {
      note_what_is_seen();
      away_ = before;
    });
    body();
  }

  /// What can be asked of a session at any time.
  struct Seen {
    int rank = 0, size = 1;
    bool stopping = false, replaying = false;
    backstay::Status status;
#if BACKSTAY_HAVE_MPI
    MPI_Comm comm = MPI_COMM_NULL;
#endif
  };
  /// What `ask` gives. While another thread is in the library's part of loop(), as it was when that began: the session
  /// is being made anew there, and who asks must not wait, as that part may wait for an answer of his.
  template <class T, class Ask>
  T look(T Seen::* known, const Ask& ask) const {
    Session& session = get();
    return away_ != 0 && away_ != PyThread_get_thread_ident() ? seen_.*known : std::invoke(ask, session);
  }

  void protect(RegionSpec spec);
  bool protects_statics = false;  ///< what is protected now is static

  /// Runs `body`, which calls Python, from code that holds no GIL. What it raises becomes an Error, and the same on
  /// every compiler: a python_error would need the GIL wherever it ends. Other ranks must not wait for what this one
  /// does not finish, so a KeyboardInterrupt or SystemExit is kept until the end of the call.
  template <class Body>
  auto ask(const Body& body) {
    const nb::gil_scoped_acquire gil;
    const AtEnd back([this, before = away_] { away_ = before; });
    if (away_ == PyThread_get_thread_ident()) away_ = 0;  // what `body` asks of the session is as it is now
    try {
      return body();
    } catch (const nb::python_error& e) {
      if (!e.matches(PyExc_Exception) && !kept_) kept_ = std::current_exception();
      throw Error(Code::user, sentence_of(e));
    } catch (const nb::builtin_exception& e) {
      throw Error(Code::user, e.what());
    } catch (const std::bad_cast&) {
      throw Error(Code::user, "what the callback returned has the wrong type");
    }
  }

 private:
  void note_what_is_seen() {
    if (closed()) return;
    try {
      seen_ = {session_->rank(), session_->size(), session_->stopping(), session_->replaying(), session_->status()};
#if BACKSTAY_HAVE_MPI
      seen_.comm = session_->comm();
#endif
    } catch (const std::exception&) {  // it has ended, or there is no memory: nothing new is seen
    }
  }

  /// Runs `body`; what ask() kept meanwhile comes out at its end.
  template <class Body>
  auto run(const Body& body) {
    try {
      if constexpr (std::is_void_v<decltype(body())>) {
        body();
        let_out();
      } else {
        auto result = body();
        let_out();
        return result;
      }
    } catch (const Error&) {
      let_out();
      throw;
    }
  }
  void let_out() {
    if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
  }

  std::unique_ptr<Session> session_;
  // Both change while the GIL is held.
  unsigned long caller_ = 0;  // the thread that is in a call(); 0: none
  unsigned long away_ = 0;    // the thread that is in the library's part of call_around(), but for callbacks; 0: none
  Seen seen_;                 // as away_ was set
  std::exception_ptr kept_;   // a KeyboardInterrupt or the like that left a callback
};

void PySession::close() {
  require_outside_of(!closed() && backstay::detail::Scopes::is_in_call(*session_),
                     "close()");  // the phase of init(), too
  call("close()", [&] { session_.reset(); });
}

void PySession::leave() {
  call("close()", [&] {
    try {
      const auto session = std::move(session_);
      throw 0;  // the destructor of a session sees that an exception is on its way
    } catch (int) {
    }
  });
}

void PySession::protect(RegionSpec spec) {
  require_no_call("protect()");
  spec.is_static = protects_statics;
  run([&] { get().protect(std::move(spec)); });
}

RegionSpec spec_of(std::string name, Type type, std::string units, Placement placement) {
  RegionSpec spec;
  spec.name = std::move(name);
  spec.type = std::move(type);
  spec.units = std::move(units);
  spec.placement = std::move(placement);
  return spec;
}

void protect_memory(PySession& self, std::string name, Type type, std::string units, Placement placement,
                    const Memory& memory) {
  auto spec = spec_of(std::move(name), std::move(type), std::move(units), std::move(placement));
  const View view = view_of(memory);
  spec.view = [view] { return view; };
  self.protect(std::move(spec));
}

/// `look()` and `resize(shape)` give a Memory; deliver() when that is filled.
void protect_moving(PySession& self, std::string name, Type type, std::string units, Placement placement,
                    nb::object look, nb::object resize, nb::object deliver) {
  auto spec = spec_of(std::move(name), std::move(type), std::move(units), std::move(placement));
  spec.view = [&self, look = keep(std::move(look))] {
    return self.ask([&] { return view_of(nb::cast<Memory>((*look)())); });
  };
  spec.reshape = [&self, resize = keep(std::move(resize))](const Extents& shape) {
    try {
      return self.ask([&] { return view_of(nb::cast<Memory>((*resize)(nb::cast(shape)))); });
    } catch (const Error&) {  // there is no memory for it; the library says what it is about
      return backstay::detail::cannot_hold();
    }
  };
  spec.delivered = [&self, deliver = keep(std::move(deliver))] { self.ask([&] { (*deliver)(); }); };
  self.protect(std::move(spec));
}

nb::bytes bytes_of(std::span<const std::byte> bytes) { return nb::bytes(bytes.data(), bytes.size()); }

/// `redistribute` may be None.
void protect_callbacks(PySession& self, std::string name, nb::object save, nb::object load, nb::object redistribute) {
  backstay::Callbacks callbacks;
  const bool spreads = !redistribute.is_none();
  callbacks.save = [&self, save = keep(std::move(save))] {
    return self.ask([&] {
      const auto bytes = nb::cast<nb::bytes>((*save)());
      return std::string(bytes.c_str(), bytes.size());
    });
  };
  callbacks.load = [&self, load = keep(std::move(load))](std::span<const std::byte> bytes) {
    self.ask([&] { (*load)(bytes_of(bytes)); });
  };
  if (spreads)
    callbacks.redistribute = [&self, spread = keep(std::move(redistribute))](const auto& pieces, int rank, int size) {
      self.ask([&] {
        nb::list list;
        for (const auto& piece : pieces) list.append(bytes_of(piece));
        (*spread)(list, rank, size);
      });
    };
  self.require_no_call("protect()");
  if (self.protects_statics)
    self.get().protect_static(name, std::move(callbacks));
  else
    self.get().protect(name, std::move(callbacks));
}

void unprotect(PySession& self, const std::string& name) {
  self.require_no_call("unprotect()");
  self.get().unprotect(name);
}

void init(PySession& self, const nb::object& phase) {
  self.require_no_call("init()");
  self.get().init([&] { phase(); });
}

/// Runs `body` again for as long as it ends in the Python exception `rolled_back`.
void loop(PySession& self, const nb::object& body, const nb::object& rolled_back) {
  Session& session = self.get();
  self.call_around("loop()", [&] {
    session.loop([&] {
      std::optional<std::string> why;
      self.give_way([&] {
        try {
          body();
        } catch (const nb::python_error& e) {
          if (!e.matches(rolled_back)) throw;
          why = nb::str(e.value()).c_str();
        }
      });
      if (why && !self.closed()) session.rollback(*why);
    });
  });
}

/// Raises the Python exception `rolled_back` where the library would throw what its loop() catches.
void rollback(PySession& self, const std::string& why, const nb::object& rolled_back) {
  self.require_no_call("rollback()");
  try {
    self.get().rollback(why);
  } catch (const Error&) {
    throw;
  } catch (...) {
    PyErr_SetString(rolled_back.ptr(), why.c_str());
    throw nb::python_error();
  }
}

/// What the library says, which names files, whose names can be any bytes.
nb::str text_of(const std::string& sentence) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(sentence.data(), static_cast<Py_ssize_t>(sentence.size()), "backslashreplace"));
}

// ---- results, as tuples in the order of the dataclasses in session.py
// ------------------------------------------------

auto resume(PySession& self) {
  const auto r = self.call("resume()", [&] { return self.get().resume(); });
  return std::tuple(r.resumed, r.line, r.level, r.seconds, r.saved_ranks);
}

auto verify(PySession& self) {
  const auto v = self.call("verify()", [&] { return self.get().verify(); });
  nb::list damage;
  for (const auto& sentence : v.damage) damage.append(text_of(sentence));
  return std::tuple(v.lines, v.segments, damage);
}

auto status(const PySession& self) {
  const auto s = self.look(&PySession::Seen::status, &Session::status);
  return std::tuple(s.calls, s.taken, s.skipped, s.committed, s.failed, s.in_flight, s.newest_line, s.blocked_seconds,
                    s.staging_bytes, text_of(s.last_error), s.left_out_bytes);
}

/// Ranges and reaches are lists of pairs.
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

int declare(PySession& self, const std::string& name,
            const std::vector<std::tuple<std::string, int, Pairs, Pairs>>& accesses) {
  std::vector<backstay::Access> all;
  for (const auto& [region, mode, range, stencil] : accesses) {
    auto& access = all.emplace_back(backstay::Access{region, static_cast<backstay::Access::Mode>(mode)});
    for (const auto& [begin, end] : range) access.range.push_back({begin, end});
    for (const auto& [first, last] : stencil) access.stencil.push_back({first, last});
  }
  return self.call("declare()", [&] { return self.get().declare(name, all).number; });
}

bool enter(PySession& self, int computation) {
  return self.call("compute()", [&] { return backstay::detail::Scopes::enter(self.get(), {computation}); });
}

/// Bytes that a replay gives back: those that are given, or in a replay those of then.
nb::bytes kept(PySession& self, nb::bytes value, bool of_computation) {
  std::string bytes(value.c_str(), value.size());
  self.call("result()", [&] {
    auto size = static_cast<std::uint64_t>(bytes.size());
    const auto keep = [&](void* at, std::size_t count) {
      backstay::detail::Scopes::keep(self.get(), {static_cast<std::byte*>(at), count}, of_computation);
    };
    keep(&size, sizeof size);
    bytes.resize(static_cast<std::size_t>(size));
    keep(bytes.data(), bytes.size());
  });
  return nb::bytes(bytes.data(), bytes.size());
}

auto replay(PySession& self) {
  const auto r = self.call("replay()", [&] { return self.get().replay(); });
  return std::tuple(r.resumed, r.line, r.level, r.seconds, r.saved_ranks);
}

void leave_computation(PySession& self, bool completed) {
  self.call("compute()", [&] { backstay::detail::Scopes::leave(self.get(), completed); });
}

backstay::Outcome checkpoint(PySession& self, bool now) {
  return self.call("checkpoint()",
                   [&] { return now ? self.get().checkpoint(backstay::now) : self.get().checkpoint(); });
}

// ---- opening -------------------------------------------------------------------------------------------------------

template <class... Arguments>
PySession* open(const Arguments&... arguments) {
  return new PySession(without_gil([&] { return std::make_unique<Session>(arguments...); }));
}

PySession* open_alone(const Options& options) { return open(backstay::alone, options); }

PySession* open_world(const Options& options) {
  static char* no_arguments[] = {nullptr};
  char** const arguments = no_arguments;
  return open(0, arguments, options);
}

#if BACKSTAY_HAVE_MPI
/// An MPI_Comm is a pointer in some implementations and a number in others.
template <class Handle>
Handle handle_of(std::uintptr_t value) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(value);
  else
    return static_cast<Handle>(value);
}

template <class Handle>
std::uintptr_t value_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<std::uintptr_t>(handle);
  else
    return static_cast<std::uintptr_t>(static_cast<unsigned>(handle));
}

/// The value of the MPI_Comm that the program is to use.
std::uintptr_t comm_of(const PySession& self) { return value_of(self.look(&PySession::Seen::comm, &Session::comm)); }

void include(PySession& self, std::uintptr_t made) {
  self.require_nobody_away("include()");
  self.get().include(handle_of<MPI_Comm>(made));
}

/// `handle`: the value of an MPI_Comm, as mpi4py gives it.
PySession* open_comm(std::uintptr_t handle, const Options& options) {
  return open(handle_of<MPI_Comm>(handle), options);
}

std::string mpi_library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text;
}
#endif

// ---- the module ----------------------------------------------------------------------------------------------------

void raise_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& e) {
    const auto type = error_type();
    PyErr_SetObject(type.ptr(), type(e.code(), text_of(e.what())).ptr());
  } catch (const backstay::RankLost&) {
    PyErr_SetNone(nb::module_::import_("backstay.session").attr("RankLost").ptr());
  }
}

void add_enums(nb::module_& m) {
  nb::enum_<Code>(m, "Code", nb::is_arithmetic(), "What kind of thing went wrong.")
      .value("ok", Code::ok)
      .value("invalid_argument", Code::invalid_argument)
      .value("unknown_option", Code::unknown_option)
      .value("not_found", Code::not_found)
      .value("corrupt", Code::corrupt)
      .value("version", Code::version)
      .value("mismatch", Code::mismatch)
      .value("io", Code::io)
      .value("no_space", Code::no_space)
      .value("permission", Code::permission)
      .value("locked", Code::locked)
      .value("comm", Code::comm)
      .value("timeout", Code::timeout)
      .value("limit", Code::limit)
      .value("user", Code::user)
      .value("internal", Code::internal)
      .value("rank_lost", Code::rank_lost);
  nb::enum_<backstay::Outcome>(m, "Outcome", nb::is_arithmetic(), "What a call of checkpoint() did.")
      .value("not_due", backstay::Outcome::not_due)
      .value("taken", backstay::Outcome::taken)
      .value("skipped", backstay::Outcome::skipped)
      .value("failed", backstay::Outcome::failed)
      .value("stop", backstay::Outcome::stop);
  nb::enum_<Type::Kind>(m, "Kind")
      .value("integer", Type::Kind::integer)
      .value("unsigned_integer", Type::Kind::unsigned_integer)
      .value("floating", Type::Kind::floating)
      .value("complex", Type::Kind::complex)
      .value("boolean", Type::Kind::boolean)
      .value("text", Type::Kind::text)
      .value("opaque", Type::Kind::opaque)
      .value("compound", Type::Kind::compound);
}

std::string describe(const Placement& p) {
  using backstay::region::describe_shape;
  static constexpr const char* names[] = {"rank_private()", "replicated()", "block", "distributed_list()"};
  const std::string name = names[static_cast<int>(p.kind)];
  if (p.kind != Placement::Kind::block) return name;
  return name + "(" + describe_shape(p.global) + ", " + describe_shape(p.lower) + ", " + describe_shape(p.upper) + ")";
}

void add_types(nb::module_& m) {
  using Member = std::tuple<std::string, std::size_t, Extents, Type>;
  nb::class_<Type>(m, "Type").def(
      "__init__",
      [](Type* self, Type::Kind kind, std::size_t size, const std::vector<Member>& members) {
        new (self) Type{kind, size, {}};
        for (const auto& [name, offset, shape, type] : members) self->members.push_back({name, offset, shape, type});
      },
      nb::arg("kind"), nb::arg("size"), nb::arg("members") = std::vector<Member>{});
  nb::class_<Placement>(m, "Placement", "Which part of something larger a region is.")
      .def(nb::self == nb::self)
      .def("__repr__", describe);
  m.def("block", backstay::block, nb::arg("global_shape"), nb::arg("lower"), nb::arg("upper"),
        "The box [lower, upper) of a global array; comes back on any number of ranks.");
  m.def("distributed_list", backstay::distributed_list,
        "A piece of a list whose order is rank order; on other ranks its total is split evenly.");
  m.def("replicated", backstay::replicated, "The same on every rank: what a scalar is by default.");
  m.def("rank_private", backstay::rank_private, "This rank's own: what an array is by default.");
}

/// Python ends as ever, with all that is registered for its end; behind that all meet, before mpi4py ends MPI: what is
/// registered last is called first. MPI would wait for those who leave without it, and for a spare that does not come;
/// the process ends there then. `has_failed`: by an exception that nobody caught. False: nothing more can be
/// registered.
bool meet_behind_python(bool has_failed) {
  static bool failed = false;
  failed = has_failed;
  return Py_AtExit([] {
           using backstay::detail::AtTheEnd;
           const auto ends = backstay::detail::meet_before_the_end();
           if (ends != AtTheEnd::met) std::exit(failed || ends == AtTheEnd::lost ? EXIT_FAILURE : EXIT_SUCCESS);
         }) == 0;
}

void add_session(nb::module_& m) {
  nb::class_<PySession>(m, "Session")
      .def("close", &PySession::close)
      .def("leave", &PySession::leave)
      .def_prop_ro("closed", &PySession::closed)
      .def_prop_ro("rank", [](const PySession& self) { return self.look(&PySession::Seen::rank, &Session::rank); })
      .def_prop_ro("size", [](const PySession& self) { return self.look(&PySession::Seen::size, &Session::size); })
      .def("protect_memory", protect_memory)
      .def("protect_moving", protect_moving)
      .def("protect_callbacks", protect_callbacks, nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("unprotect", unprotect)
      .def_rw("protects_statics", &PySession::protects_statics)
      .def("declare", declare)
      .def("enter", enter)
      .def("leave_computation", leave_computation)
      .def("checkpoint", checkpoint)
      .def("resume", resume)
      .def("replay", replay)
      .def("init_done", [](PySession& self) { self.call("init_done()", [&] { self.get().init_done(); }); })
      .def("save_only",
           [](PySession& self, const std::vector<std::string>& regions) {
             self.call("save_only()", [&] { self.get().save_only(regions); });
           })
      .def("replaying",
           [](const PySession& self) { return self.look(&PySession::Seen::replaying, &Session::replaying); })
      .def("kept", kept)
      .def("init", init)
      .def("loop", loop)
      .def("rollback", rollback)
      .def("wait", [](PySession& self) { self.call("wait()", [&] { self.get().wait(); }); })
      .def("verify", verify)
      .def("prune", [](PySession& self, int count) { self.call("prune()", [&] { self.get().prune(count); }); })
      .def("stopping", [](const PySession& self) { return self.look(&PySession::Seen::stopping, &Session::stopping); })
      .def("status", status);
  m.def("set_caller", backstay::check::set_caller);
  m.def("open_alone", open_alone, nb::rv_policy::take_ownership);
  m.def("open_world", open_world, nb::rv_policy::take_ownership);
  m.def("ends_by_a_signal", backstay::detail::ends_by_a_signal);
  m.def("end_by_a_signal", backstay::detail::end_by_a_signal);
  nb::enum_<backstay::detail::AtTheEnd>(m, "AtTheEnd")
      .value("met", backstay::detail::AtTheEnd::met)
      .value("without_spares", backstay::detail::AtTheEnd::without_spares)
      .value("lost", backstay::detail::AtTheEnd::lost);
  m.def("meet_before_the_end", backstay::detail::meet_before_the_end, nb::call_guard<nb::gil_scoped_release>());
  m.def("meet_behind_python", meet_behind_python);
  m.attr("have_mpi") = BACKSTAY_HAVE_MPI != 0;
#if BACKSTAY_HAVE_MPI
  m.def("comm_of", comm_of);
  m.def("include", include);
  m.def("open_comm", open_comm, nb::rv_policy::take_ownership);
  m.def("mpi_library", mpi_library);
#endif
}
}  // namespace

NB_MODULE(_core, m) {
  // A session that the program never closed is closed at exit, and its object may outlive the module.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(raise_error);
  backstay_calls_are_unseen();  // mpi4py calls MPI past this library
  add_enums(m);
  add_types(m);
  add_session(m);
  m.attr("version") = BACKSTAY_VERSION;
  m.def("option_names", [] {
    std::vector<std::string> names;
    for (const auto& option : backstay::api::option_table()) names.push_back(option.name);
    return names;
  });
  m.def("option_table", [] {
    std::vector<std::tuple<std::string, std::string, std::string>> rows;
    for (const auto& option : backstay::api::option_table())
      rows.emplace_back(option.name, option.initial, option.meaning);
    return rows;
  });
}
