#include "select/replay_log.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace backstay::select {

namespace {
/// Small numbers take one byte: each byte but the last has its highest bit set.
void append_number(Bytes& out, std::uint64_t n) {
  for (; n >= 0x80; n >>= 7) out.push_back(static_cast<std::byte>(n | 0x80));
  out.push_back(static_cast<std::byte>(n));
}

/// None: it ends too early, or is no number.
std::optional<std::uint64_t> read_number(ByteView bytes, std::size_t& at) {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(bytes[at++]);
    n |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return n;
  }
  return {};
}

/// All surprises are whole, and among the events.
bool is_whole(ByteView surprises, std::uint64_t events) {
  std::uint64_t seen = 0;
  for (std::size_t at = 0; at < surprises.size();) {
    const auto before = read_number(surprises, at), symbol = read_number(surprises, at);
    if (!before || !symbol || *before >= events - seen) return false;
    seen += *before + 1;
  }
  return true;
}
}  // namespace

void Expectation::At::pass(Event event) {
  last = {last[1], last[2], event.symbol()};
  std::uint64_t hash = 0;
  for (const auto symbol : last) hash = (hash ^ symbol) * 0x9e3779b97f4a7c15;
  slot = static_cast<std::size_t>(hash >> 32) % slots;
}

void Expectation::came(Event event) {
  Guess& guess = guesses_[at_.slot];
  if (guess.symbol == event.symbol()) {
    guess.doubted = false;
  } else if (std::exchange(guess.doubted, true)) {
    guess = {event.symbol(), false};
  }
  at_.pass(event);
}

void ReplayLog::computation(std::uint32_t number) { add(Event::computation(number)); }

void ReplayLog::result(ByteView value) {
  add(Event::result(value.size()));
  results_.insert(results_.end(), value.begin(), value.end());
}

void ReplayLog::add(Event event) {
  ++events_;
  if (expectation_.next() == event) {
    ++as_expected_;
  } else {
    append_number(surprises_, std::exchange(as_expected_, 0));
    append_number(surprises_, event.symbol());
  }
  expectation_.came(event);
}

Bytes ReplayLog::encode() const {
  Bytes out;
  append_number(out, events_);
  append_number(out, surprises_.size());
  out.insert(out.end(), surprises_.begin(), surprises_.end());
  out.insert(out.end(), results_.begin(), results_.end());
  return out;
}

Result<Replay> Replay::open(ByteView encoded, std::vector<std::string> names) {
  std::size_t at = 0;
  const auto events = read_number(encoded, at), size = read_number(encoded, at);
  if (!events || !size || *size > encoded.size() - at || !is_whole(encoded.subspan(at, *size), *events))
    return fail(Code::corrupt, "a log of computations is damaged: it cannot be replayed");
  const auto surprises = encoded.subspan(at, *size), results = encoded.subspan(at + *size);
  Replay replay;
  replay.names_ = std::move(names);
  replay.events_ = *events;
  replay.surprises_.assign(surprises.begin(), surprises.end());
  replay.results_.assign(results.begin(), results.end());
  replay.find_surprise();
  return replay;
}

bool Replay::begins(Replay shorter, Replay longer) {
  if (shorter.events_ > longer.events_) return false;
  const auto take = [](Replay& replay, std::size_t bytes) {
    const auto left = ByteView(replay.results_).subspan(replay.next_result_);
    const auto out = left.first(std::min(bytes, left.size()));
    replay.next_result_ += out.size();
    return out;
  };
  while (!shorter.at_end()) {
    const Event event = shorter.next();
    if (!(longer.next() == event)) return false;
    const std::size_t bytes = event.is_result() ? event.value() : 0;
    if (!std::ranges::equal(take(shorter, bytes), take(longer, bytes))) return false;
    shorter.pass();
    longer.pass();
  }
  return true;
}

void Replay::find_surprise() {
  surprise_.reset();
  if (next_surprise_ >= surprises_.size()) return;
  before_surprise_ = *read_number(surprises_, next_surprise_);
  surprise_ = Event::of(*read_number(surprises_, next_surprise_));
}

Event Replay::next() const { return surprise_ && before_surprise_ == 0 ? *surprise_ : expectation_.next(); }

Failure Replay::why_not(Event event) const {
  if (at_end())
    return fail(Code::mismatch, "the replay goes on with ", name_of(event), ", and the run ended after ", events_,
                " computations and results");
  return fail(Code::mismatch, "number ", done_ + 1, " of the computations and results of the replay is ",
              name_of(event), ", and in the run that is replayed it was ", name_of(next()),
              ": the program must go the same way, so its input and its options, place among them, must be the same, "
              "and what decides on "
              "it must come from computations or be told to result(), clocks and random numbers included");
}

void Replay::pass() {
  const Event event = next();
  expectation_.came(event);
  ++done_;
  if (!surprise_ || before_surprise_ > 0) {
    ++as_expected_;
    before_surprise_ -= surprise_ ? 1 : 0;
    return;
  }
  as_expected_ = 0;
  taken_surprises_ = next_surprise_;
  find_surprise();
  ++surprises_met_;
}

namespace {
bool is_computation(Event event) { return !event.is_result() && event.value() > 0; }

/// Whether it can be passed by the one who looks ahead.
bool is_plain(Event event, const std::vector<bool>& known) {
  if (event.is_result()) return event.value() <= detail::Ahead::largest_result;
  return is_computation(event) && event.value() <= known.size() && known[event.value() - 1];
}
}  // namespace

/// Its memory is used again, as surprises come often in some programs.
void Replay::Run::begin_at(const Expectation::At& at, std::uint64_t met) {
  from = at;
  surprises_met = met;
  symbols.clear();
  slots.clear();
  confirmed = 0;
  computations = result_bytes = 0;
  is_open = false;
}

/// To where it comes back to its beginning, if it does, so that it can follow itself.
Replay::Run& Replay::run_from_here(const std::vector<bool>& known, std::uint64_t most) {
  if (runs_.size() >= most_runs) runs_.clear();
  Expectation::At at = expectation_.at();
  const auto [found, is_new] = runs_.try_emplace(at.slot);
  Run& run = found->second;
  if (!is_new && run.from == at && run.surprises_met == surprises_met_ && !run.is_open) return run;
  run.begin_at(at, surprises_met_);
  most = std::min<std::uint64_t>(most, longest_run);
  do {
    const Event event = expectation_.next(at);
    if (run.symbols.size() == most) break;
    if (!is_plain(event, known)) {
      run.is_open = is_computation(event);
      break;
    }
    run.symbols.push_back(static_cast<detail::Ahead::Symbol>(event.symbol()));
    run.slots.push_back(static_cast<std::uint32_t>(at.slot));
    run.computations += event.is_result() ? 0 : 1;
    run.result_bytes += event.is_result() ? event.value() : 0;
    at.pass(event);
  } while (at != run.from);
  run.to = at;
  return run;
}

detail::Ahead Replay::look_ahead(const std::vector<bool>& known, std::uint64_t most) {
  run_ = nullptr;
  most = std::min(most, surprise_ ? before_surprise_ : events_ - done_);
  if (most == 0) return {};
  run_ = &run_from_here(known, most);
  const auto all = std::span(run_->symbols).first(std::min<std::uint64_t>(most, run_->symbols.size()));
  std::size_t count = all.size();
  if (run_->result_bytes > results_.size() - next_result_) {  // of a damaged log, or the last ones of all
    std::size_t bytes = 0;
    const auto missing = std::ranges::find_if(all, [&](detail::Ahead::Symbol symbol) {
      bytes += (symbol & 1) != 0 ? symbol >> 1 : 0;
      return bytes > results_.size() - next_result_;
    });
    count = static_cast<std::size_t>(missing - all.begin());
  }
  return {all.first(count), results_.data() + next_result_};
}

std::uint64_t Replay::pass(const detail::Ahead& ahead) {
  const std::size_t count = ahead.passed();
  if (run_ == nullptr || count == 0) return 0;
  Run& run = *run_;
  for (; run.confirmed < count; ++run.confirmed) expectation_.confirm(run.slots[run.confirmed]);
  const bool is_all = count == run.symbols.size();
  Expectation::At to = is_all ? run.to : run.from;
  for (std::size_t i = count < 3 ? 0 : count - 3; !is_all && i < count; ++i) to.pass(Event::of(run.symbols[i]));
  expectation_.go_to(to);
  done_ += count;
  as_expected_ += count;
  before_surprise_ -= surprise_ ? count : 0;
  next_result_ = static_cast<std::size_t>(ahead.values() - results_.data());
  run_ = nullptr;
  if (is_all) return run.computations;
  return static_cast<std::uint64_t>(std::count_if(run.symbols.begin(),
                                                  run.symbols.begin() + static_cast<std::ptrdiff_t>(count),
                                                  [](detail::Ahead::Symbol symbol) { return (symbol & 1) == 0; }));
}

ReplayLog Replay::log() const {
  ReplayLog out;
  out.expectation_ = expectation_;
  out.events_ = done_;
  out.as_expected_ = as_expected_;
  out.surprises_.assign(surprises_.begin(), surprises_.begin() + static_cast<std::ptrdiff_t>(taken_surprises_));
  out.results_.assign(results_.begin(), results_.begin() + static_cast<std::ptrdiff_t>(next_result_));
  return out;
}

std::optional<ByteView> Replay::next_result(std::size_t bytes) const {
  if (at_end() || !(next() == Event::result(bytes)) || bytes > results_.size() - next_result_) return {};
  return ByteView(results_).subspan(next_result_, bytes);
}

Result<void> Replay::result(MutableByteView value) {
  if (const auto event = Event::result(value.size()); at_end() || !(next() == event)) return why_not(event);
  if (value.size() > results_.size() - next_result_)
    return fail(Code::corrupt, "a log of computations is damaged: a result is not there");
  std::copy_n(results_.begin() + static_cast<std::ptrdiff_t>(next_result_), value.size(), value.begin());
  next_result_ += value.size();
  pass();
  return {};
}

std::string Replay::name_of(Event event) const {
  if (event.is_result()) return cat("a result of ", event.value(), " bytes");
  if (event.value() < names_.size()) return names_[event.value()];
  return cat("computation number ", event.value());
}

}  // namespace backstay::select
