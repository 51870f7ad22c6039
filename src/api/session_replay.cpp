// Session::replay(): the program goes the way it went, without computing, to where its newest line was taken.
#include <utility>

#include "api/session_impl.h"
#include "base/text.h"
#include "format/data_file.h"

namespace backstay {

/// The way goes with each line, as a region. It is private to a rank; on other ranks it comes back if all went the
/// same.
void Session::Impl::protect_way() {
  RegionSpec spec;
  spec.name = format::replay_region;
  spec.type = {Type::Kind::opaque, 1, {}};
  spec.save = [this] { return detail::value_or_throw(way_->save(declared_)); };
  spec.load = [this](ByteView saved) { detail::value_or_throw(way_->go_again(saved)); };
  spec.redistribute = [this](const std::vector<ByteView>& all, int, int) {
    for (const auto& other : all)
      if (as_text(other) != as_text(all.front()))
        throw Error(
            Code::mismatch,
            cat("the ranks that saved it went different ways, so that it is replayed on as many ranks only, and "
                "they were ",
                all.size()));
    detail::value_or_throw(way_->go_again(all.front()));
  };
  detail::value_or_throw(regions_.add(std::move(spec)));
}

Resumed Session::Impl::replay() {
  require_no_init("replay()");
  const InCall in_call(*this, "replay()");
  if (way_) throw Error(Code::invalid_argument, "replay() was called twice: one way leads to a line");
  if (has_begun_)
    throw Error(
        Code::invalid_argument,
        "replay() was called after a computation or checkpoint(): it is where the way begins, so call it before");
  way_.emplace();
  protect_way();
  aside_ = std::make_unique<engine::Aside>(regions_);
  const Resumed out = found(engine_->resume(aside_.get()));
  if (!out) {
    aside_.reset();
    return out;
  }
  replayed_line_ = out.line;
  replay_began_ = std::chrono::steady_clock::now();
  if (!detail::value_or_throw(aside_->put_back_now(format::replay_region, regions_)))
    throw Error(Code::mismatch,
                cat("line ", out.line, " was saved by a program that did not call replay(), so there is ",
                    "no way to it: call resume(), or start in another directory"));
  return out;
}

/// At a call of checkpoint(). False: the line was taken further on.
bool Session::Impl::goes_on_here() {
  if (!running_.empty())
    throw Error(Code::invalid_argument,
                "checkpoint() was called inside of a computation, which a replay skips: call it between two");
  if (detail::value_or_throw(way_->checkpoint()) == select::Way::Turn::skip) return false;
  if (!aside_) return true;
  const auto aside = std::exchange(aside_, nullptr);
  value_here(engine_->put_back(*aside));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - replay_began_).count();
  journal_->say(cat("replayed ", counted(way_->computations(), "computation"), " in ", human_seconds(seconds),
                    ": the data of line ", replayed_line_, " are back, and the run goes on"));
  journal_->event("replay", {api::Journal::number("line", static_cast<double>(replayed_line_)),
                             api::Journal::number("computations", static_cast<double>(way_->computations())),
                             api::Journal::number("seconds", seconds)});
  return true;
}

void Session::Impl::keep(MutableByteView value, bool of_computation) {
  if (!of_computation) end();
  if (way_ && running_.size() == (of_computation ? 1 : 0)) detail::value_or_throw(way_->result(value));
}

void Session::Impl::refuse_replay(Computation computation) const {
  if (way_)
    throw Error(
        Code::invalid_argument,
        cat(declared_.signature_of(static_cast<std::size_t>(computation.number)),
            ", returns what a replay cannot give back: let it return a number, a struct of numbers, or nothing"));
}

/// The program is at its end.
void Session::Impl::require_arrival() const {
  if (!replaying() || a_rank_is_lost()) return;
  throw Error(Code::mismatch,
              cat("the program came to its end before the place where line ", replayed_line_, " was taken, ",
                  way_->position(), ": give it the input and the options that it had then; the line is as it was"));
}

void Session::Impl::forget_way() {
  if (way_ && regions_.find(format::replay_region) != nullptr) (void)regions_.remove(format::replay_region).ok();
  way_.reset();
  aside_.reset();
  has_begun_ = false;
}

}  // namespace backstay
