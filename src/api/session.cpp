#include "backstay/session.hpp"

#include <vector>

#include "api/exit_status.h"
#include "api/session_impl.h"
#include "base/text.h"
#include "format/data_file.h"

namespace backstay {

#if BACKSTAY_HAVE_MPI
Session::Session(int argc, char** argv, const Options& options)
    : impl_(std::make_shared<Impl>(argc, argv, options)), ahead_(&impl_->ahead) {}
Session::Session(MPI_Comm comm, const Options& options)
    : impl_(std::make_shared<Impl>(comm, options)), ahead_(&impl_->ahead) {}
MPI_Comm Session::comm() const { return impl_->user_comm; }
void Session::include(MPI_Comm made) { impl_->include(made); }
#else
Session::Session(int, char**, const Options& options)
    : impl_(std::make_shared<Impl>(alone, options)), ahead_(&impl_->ahead) {}
#endif
Session::Session(Alone, const Options& options)
    : impl_(std::make_shared<Impl>(alone, options)), ahead_(&impl_->ahead) {}

namespace {
/// What a stuck thread, or a call that is under way, still uses outlives the session.
void keep_for_good(std::shared_ptr<Session::Impl> impl) {
  static auto* const kept = new std::vector<std::shared_ptr<Session::Impl>>;
  kept->push_back(std::move(impl));
}
}  // namespace

Session::~Session() {
  const bool may_close = !impl_->is_in_call();
  if (!may_close) {
    impl_->say_not_closed();
    api::fail_at_exit();
  }
  if (may_close && impl_->close())
    impl_->end_all();
  else
    keep_for_good(std::move(impl_));
}

bool Session::is_calling_back() const { return impl_->is_calling_back(); }
bool Session::is_in_call() const { return impl_->is_in_call(); }
void Session::say_not_closed() const { impl_->say_not_closed(); }
int Session::rank() const { return impl_->rank; }
int Session::size() const { return impl_->size; }

void Session::protect(RegionSpec spec) {
  const auto impl = impl_;  // a callback may destroy the session, against what it is told
  impl->require_may_call("protect()");
  impl->require_no_way("protect()");
  impl->guard(spec);
  impl->end();
  const std::string trouble = format::why_not_a_region_name(spec.name);
  if (!trouble.empty()) throw Error(Code::invalid_argument, trouble);
  if (spec.name == format::replay_region)
    throw Error(Code::invalid_argument, cat("backstay keeps the name '", spec.name, "' for itself: take another one"));
  spec.is_static = spec.is_static || impl->protects_statics;
  detail::value_or_throw(impl->require_free(spec));
  auto& regions = spec.is_static ? impl->statics() : impl->regions();
  const std::string name = spec.name;
  detail::value_or_throw(regions.add(std::move(spec)));
  if (const auto storable = engine::check_storable(*regions.find(name)); !storable) {
    (void)regions.remove(name).ok();
    detail::raise(storable.failure());
  }
  impl->note_exchanged(name);
}

void Session::unprotect(std::string_view name) {
  const auto impl = impl_;
  impl->require_may_call("unprotect()");
  impl->require_no_way("unprotect()");
  impl->decide();
  auto& regions = impl->statics().find(name) != nullptr ? impl->statics() : impl->regions();
  const auto* spec = regions.find(name);
  const std::string companion = spec == nullptr ? "" : spec->companion;
  detail::value_or_throw(regions.remove(name));
  impl->note_exchanged(std::string(name));
  if (regions.find(companion) == nullptr) return;
  detail::value_or_throw(regions.remove(companion));
  impl->note_exchanged(companion);
}

Session::AsStatic::AsStatic(Session& run) : run_(run) { run_.impl_->protects_statics = true; }
Session::AsStatic::~AsStatic() { run_.impl_->protects_statics = false; }

void Session::protect(std::string_view name, std::string& x, Placement placement) {
  RegionSpec spec;
  spec.name = name;
  spec.type = {Type::Kind::text, 1, {}};
  spec.placement = std::move(placement);
  spec.save = [&x] { return x; };
  spec.load = [&x](std::span<const std::byte> bytes) {
    x.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  protect(std::move(spec));
}

void Session::protect(std::string_view name, Callbacks callbacks) {
  RegionSpec spec;
  spec.name = name;
  spec.type = {Type::Kind::opaque, 1, {}};
  spec.save = std::move(callbacks.save);
  spec.load = std::move(callbacks.load);
  spec.redistribute = std::move(callbacks.redistribute);
  protect(std::move(spec));
}

void Session::init(const std::function<void()>& phase) { impl_->init(phase); }
Outcome Session::checkpoint() { return impl_->checkpoint(false); }
Outcome Session::checkpoint(Now) { return impl_->checkpoint(true); }
Resumed Session::resume() { return impl_->resume(); }
Resumed Session::replay() { return impl_->replay(); }
void Session::init_done() { impl_->init_done(); }
void Session::save_only(const std::vector<std::string>& regions) { impl_->save_only(regions); }
bool Session::replaying() const { return impl_->replaying(); }
void Session::keep(std::span<std::byte> value, bool of_computation) { impl_->keep(value, of_computation); }
void Session::give_back(std::span<std::byte> value) { impl_->give_back(value); }
void Session::refuse_replay(Computation computation) const { impl_->refuse_replay(computation); }
Computation Session::declare(const std::string& name, const std::vector<Access>& accesses) {
  return impl_->declare(name, accesses);
}
bool Session::begin(Computation computation) {
  const auto impl = impl_;
  impl->require_may_call("begin()");
  impl->end();
  return impl->begin(computation, false);
}
void Session::end() {
  impl_->require_may_call("end()");
  impl_->end();
}
bool Session::enter(Computation computation) {
  impl_->require_may_call("compute()");
  return impl_->begin(computation, true);
}
void Session::leave(bool completed) { impl_->leave(completed); }
void Session::wait() { impl_->wait(); }
Verified Session::verify() { return impl_->verify(); }
void Session::prune(int keep) { impl_->prune(keep); }
bool Session::stopping() const {
  impl_->require_not_ended("stopping()");
  return impl_->stopping();
}
Status Session::status() const { return impl_->status(); }

void Session::loop(const std::function<void()>& body) {
  const auto kept = impl_;  // `body` may close the session
  kept->loop(body);
}

void Session::rollback(const std::string& why) {
  const auto impl = impl_;
  impl->require_may_call("rollback()");
  impl->require_no_init("rollback()");
  if (!impl->looping()) throw Error(Code::invalid_argument, "rollback() was called outside loop(): " + why);
  impl->decide();
  throw detail::RolledBack{why, impl.get()};
}

}  // namespace backstay
