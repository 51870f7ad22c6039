// Session::replay(): the program goes the way it went, without computing, to where its newest line was taken.
#include <algorithm>
#include <utility>
#include <vector>

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
    detail::value_or_throw(way_->go_again(detail::value_or_throw(select::Way::furthest(all))));
  };
  detail::value_or_throw(regions_.add(std::move(spec)));
}

Resumed Session::Impl::replay() {
  require_no_init("replay()");
  const InCall in_call(*this, "replay()");
  if (way_) throw Error(Code::invalid_argument, "replay() was called twice: one way leads to a line");
  if (beginning_is_over_)
    throw Error(Code::invalid_argument, "replay() was called after init_done(): the beginning is part of the way");
  if (has_begun_)
    throw Error(
        Code::invalid_argument,
        "replay() was called after a computation, result() or checkpoint(): it is where the way begins, so call it "
        "before");
  keep_what_the_body_protects();
  way_.emplace(&ahead);
  try {
    return find_way();
  } catch (...) {
    // Nothing was put back, and nothing may be at the first checkpoint() of a program that begins anew instead.
    if (a_rank_is_lost()) throw;
    forget_way();
    engine_->forget_resumed();
    throw;
  }
}

/// The way to the newest line, if there is one.
Resumed Session::Impl::find_way() {
  begin_way();
  if (settings_.places_itself && !watcher_) watcher_.emplace();
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

/// What was made before loop() is not made again when its body is.
void Session::Impl::begin_way() { engine_->begin_way(looping() ? outside_ : std::set<std::string>()); }

void Session::Impl::init_done() {
  require_may_call("init_done()");
  end();
  if (!running_.empty())
    throw Error(Code::invalid_argument, "init_done() was called inside of a computation: call it between two");
  beginning_is_over_ = true;
  if (way_)
    on_the_way(way_->end_beginning());
  else if (was_resumed_)
    return;  // what is there now is not what the beginning makes
  begin_way();
  detail::value_or_throw(engine_->note_made());
}

void Session::Impl::save_only(const std::vector<std::string>& names) {
  require_may_call("save_only()");
  for (const auto& name : names) {
    if (statics_.find(name) != nullptr)
      throw Error(Code::invalid_argument,
                  cat("save_only() names region '", name, "', which is static: that is written ",
                      "once, beside the lines, so leave it off the list"));
    if (regions_.find(name) == nullptr)
      throw Error(Code::not_found,
                  cat("save_only() names region '", name, "', which is not protected: protect it before"));
  }
  if (settings_.places_itself && !names.empty())
    throw Error(
        Code::invalid_argument,
        "save_only() says what a line holds, and place=best finds where it needs least, and what that is: use one "
        "of them, as a list is that of one place");
  decide();
  only_ = {names.begin(), names.end()};
  engine_->save_only(only_);
}

/// At a call of checkpoint(). False: the line was taken further on.
bool Session::Impl::goes_on_here() {
  if (!running_.empty())
    throw Error(Code::invalid_argument,
                "checkpoint() was called inside of a computation, which a replay skips: call it between two");
  if (on_the_way(way_->checkpoint()) == select::Way::Turn::skip) return false;
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

// ---- the place --------------------------------------------------------------------------------------------------

/// A computation begins, outside of others. Where the way is known, so are its checkpoints; else they come at the mark.
/// All ranks compute the same in the same order, so that they come to it together.
void Session::Impl::watch(std::size_t computation) {
  const bool known = way_ && way_->is_known();
  if (known && places_itself() && way_->next_is_checkpoint()) (void)take(false);
  if (is_on_its_way()) return;
  watcher_->computation(computation);
  const auto count = watcher_->computations();
  if (!mark_.empty() && count - met_at_ > patience_) forget_mark();
  if (count >= look_at_) look();
  if (known || !places_itself() || !(mark_.empty() || watcher_->is_at(mark_))) return;
  met_at_ = count;
  (void)take(false);
}

/// What is repeated, as far as it is known by now.
void Session::Impl::look() {
  look_at_ = 4 * watcher_->computations();
  auto regions = engine::regions_for_select(regions_, statics_);
  std::size_t dynamic = regions_.specs().size();
  // How much callbacks save is not known, and the same everywhere.
  for (std::size_t r = dynamic; regions && r-- > 0;)
    if (regions_.specs()[r].save && !declared_.names((*regions)[r].name)) {
      regions->erase(regions->begin() + static_cast<std::ptrdiff_t>(r));
      --dynamic;
    }
  auto seen = regions ? watcher_->look(declared_, std::move(*regions), dynamic, engine_->as_made()) : regions.failure();
  std::vector<std::int64_t> bytes;
  seen_.reset();
  if (seen) seen_.emplace(std::move(*seen));
  if (seen_ && seen_->advice)
    for (const auto& place : seen_->advice->places) bytes.push_back(place.bytes);
  if (!places_itself()) return;
  const auto sums = value_here(engine_->add_up(bytes));
  if (sums.empty()) return mark_.clear();
  select::Advice advice = *seen_->advice;
  for (std::size_t i = 0; i < sums.size(); ++i) advice.places[i].bytes = sums[i];
  const auto least = std::min_element(sums.begin(), sums.end()) - sums.begin();
  mark_ = select::mark_of(advice, seen_->trace, static_cast<std::size_t>(least));
  met_at_ = watcher_->computations();
  patience_ = std::max<std::uint64_t>(patience_, 8 * sums.size());
}

/// The program does something else now.
void Session::Impl::forget_mark() {
  mark_.clear();
  patience_ *= 2;
  look_at_ = watcher_->computations() + patience_;
}

void Session::Impl::say_advice() {
  if (!settings_.advises || std::uncaught_exceptions() > 0) return;
  if (!seen_) return journal_->say("no advice on checkpoints: too few declared computations were seen");
  for (const auto& line : select::table_of(*seen_, declared_)) journal_->say(line);
}

void Session::Impl::keep(MutableByteView value, bool of_computation) {
  if (!of_computation) {
    require_may_call("result()");
    end();
    has_begun_ = true;
  }
  if (!way_ || running_.size() != (of_computation ? 1 : 0)) return;
  ahead.go_on();
  const bool given = ahead.give(value) || (looks_ahead() && ahead.give(value));
  if (of_computation) ahead.pause();
  if (!given) on_the_way(of_computation ? way_->computed(value) : way_->result(value));
}

void Session::Impl::give_back(MutableByteView value) {
  if (!looks_ahead() || !ahead.give(value)) on_the_way(way_->computed(value));
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
  if (!is_on_its_way() || a_rank_is_lost()) return;
  throw Error(Code::mismatch,
              cat("the program came to its end before the place where line ", replayed_line_, " was taken, ",
                  way_->position(), ": give it the input and the options that it had then; the line is as it was"));
}

void Session::Impl::forget_way() {
  if (way_ && regions_.find(format::replay_region) != nullptr) (void)regions_.remove(format::replay_region).ok();
  way_.reset();
  ahead = {};
  aside_.reset();
  has_begun_ = beginning_is_over_ = was_resumed_ = went_astray_ = false;
  if (engine_) engine_->end_way();
  if (watcher_) watcher_.emplace();
  mark_.clear();
  look_at_ = 16;
  patience_ = 256;
}

}  // namespace backstay
