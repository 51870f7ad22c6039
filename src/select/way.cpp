#include "select/way.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/wire.h"

namespace backstay::select {

namespace {
constexpr std::uint32_t checkpoint_event = 0;  // computations follow
std::uint32_t event_of(std::size_t computation) { return static_cast<std::uint32_t>(computation) + 1; }
constexpr std::uint64_t version = 1;

struct Saved {
  std::uint64_t place = 0, beginning = 0;
  std::vector<std::string> declared;
  std::optional<Replay> replay;
};

Result<Saved> parsed(ByteView bytes) {
  WireReader in(bytes);
  if (in.number<std::uint64_t>() != version)
    return fail(Code::version, "the log of computations was written by another version of backstay: use that one");
  Saved out;
  out.place = in.number<std::uint64_t>();
  out.beginning = in.number<std::uint64_t>();
  const auto count = in.number<std::uint64_t>();
  std::vector<std::string> names{"a call of checkpoint()"};
  for (std::uint64_t i = 0; i < count && in.complete(); ++i) {
    out.declared.push_back(in.text());
    names.push_back(out.declared.back());
  }
  const ByteView log = in.bytes();
  if (!in.complete() || !in.at_end()) return fail(Code::corrupt, "the log of computations is damaged");
  auto replay = Replay::open(log, std::move(names));
  if (!replay) return replay.failure();
  if (out.place == 0 || out.place > replay->events() || out.beginning > out.place)
    return fail(Code::corrupt, "the log of computations is damaged");
  out.replay.emplace(std::move(*replay));
  return out;
}

/// Of two ranks, for one line.
bool begins(Saved& shorter, Saved& longer) {
  return shorter.place == longer.place && shorter.beginning == longer.beginning &&
         shorter.declared == longer.declared && Replay::begins(std::move(*shorter.replay), std::move(*longer.replay));
}
}  // namespace

Result<ByteView> Way::furthest(const std::vector<ByteView>& saved) {
  ByteView out = saved.front();
  for (const auto& other : saved) {
    if (std::ranges::equal(other, out)) continue;
    auto a = parsed(out), b = parsed(other);
    if (!a) return a.failure();
    if (!b) return b.failure();
    const bool is_further = b->replay->events() > a->replay->events();
    if (!(is_further ? begins(*a, *b) : begins(*b, *a)))
      return fail(Code::mismatch,
                  "the ranks that saved it went different ways, so that it is replayed on as many ranks only, and they "
                  "were ",
                  saved.size());
    if (is_further) out = other;
  }
  return out;
}

Result<void> Way::go_again(ByteView bytes) {
  auto saved = parsed(bytes);
  if (!saved) return saved.failure();
  place_ = saved->place;
  beginning_ = saved->beginning;
  declared_then_ = std::move(saved->declared);
  is_as_then_.assign(declared_then_.size(), false);
  replay_.emplace(std::move(*saved->replay));
  return {};
}

void Way::look_ahead() {
  if (ahead_ == nullptr || !is_gone_again()) return;
  settle();
  if (beginning_ > 0 && done() < beginning_) return;
  *ahead_ = replay_->look_ahead(is_as_then_, place_ - 1 - done());
}

void Way::settle() {
  if (!replay_ || ahead_ == nullptr) return;
  computations_ += replay_->pass(*ahead_);
  *ahead_ = {};
}

Result<Way::Turn> Way::take(std::uint32_t event) {
  if (is_followed() && !replay_->next_is(event)) leave();
  if (!replay_) {
    log_.computation(event);
    return Turn::run;
  }
  if (!replay_->computation(event)) return replay_->why_not(event);
  const Turn turn = replay_->done() < place_ ? Turn::skip : replay_->done() == place_ ? Turn::stop : Turn::run;
  if (replay_->at_end()) leave();
  return turn;
}

/// What comes is recorded behind what came so far.
void Way::leave() {
  log_ = replay_->log();
  replay_.reset();
}

Result<Way::Turn> Way::computation(std::size_t number, const Declared& declared) {
  settle();
  ++computations_;
  if (replay_ && number < declared_then_.size() && !is_as_then_[number]) {
    const auto now = declared.signature_of(number);
    if (now != declared_then_[number])
      return fail(Code::mismatch, "what is replayed as ", now, " was ", declared_then_[number],
                  " in the run that saved the line: declare the same computations in the same order");
    is_as_then_[number] = true;
  }
  const auto turn = take(event_of(number));
  return turn && is_gone_again() && !skips() ? Turn::run : turn;
}

Result<void> Way::end_beginning() {
  settle();
  const auto events = replay_ ? replay_->done() : log_.events();
  if (beginning_is_over_)
    return fail(Code::invalid_argument, "init_done() was called twice: a program has one beginning");
  if (is_gone_again() && beginning_ > 0 && events != beginning_)
    return fail(Code::mismatch, "init_done() came after event ", events,
                " of the computations and results, and after event ", beginning_,
                " in the run that is replayed: the program must go the same way");
  beginning_ = events;
  beginning_is_over_ = true;
  is_as_then_.assign(is_as_then_.size(), false);
  return {};
}

bool Way::next_is_checkpoint() {
  settle();
  return replay_ && replay_->next_is(checkpoint_event);
}

Result<Way::Turn> Way::checkpoint() {
  settle();
  return take(checkpoint_event);
}

Result<void> Way::result(MutableByteView value) {
  settle();
  if (is_followed() && !replay_->next_result(value.size())) leave();
  if (!replay_) {
    log_.result(value);
    return {};
  }
  BACKSTAY_TRY(replay_->result(value));
  if (replay_->at_end()) leave();
  return {};
}

Result<void> Way::computed(MutableByteView value) {
  settle();
  const auto then = replay_ ? replay_->next_result(value.size()) : std::nullopt;
  if (!replay_ || skips() || (then && std::ranges::equal(*then, value))) return result(value);
  if (is_gone_again())
    return fail(Code::mismatch,
                "a computation of the beginning of the program returned something else than in the run that "
                "saved the line: its input is another one, or it does not compute the same each time");
  leave();
  return result(value);
}

Result<std::string> Way::save(const Declared& declared) {
  settle();
  if (lost_) return fail(Code::invalid_argument, *lost_);
  WireWriter out;
  out.number(version);
  out.number(place_);
  out.number(beginning_ <= place_ ? beginning_ : 0);
  const auto signature = declared.signature();
  out.number(static_cast<std::uint64_t>(signature.size()));
  for (const auto& line : signature) out.text(line);
  out.bytes((replay_ ? replay_->log() : log_).encode());
  return std::string(as_text(out.message()));
}

std::string Way::position() const {
  return replay_ ? cat("after ", done(), " of ", place_, " computations, calls of checkpoint() and results")
                 : std::string();
}

}  // namespace backstay::select
