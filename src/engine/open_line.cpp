#include "engine/open_line.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/text.h"
#include "format/data_file.h"
#include "region/pack.h"

namespace backstay::engine {

namespace {
/// Nothing for what callbacks save.
Result<View> view_of(const RegionSpec& spec) {
  try {
    return spec.save ? View{} : spec.view();
  } catch (const std::exception& e) {
    return fail(Code::user, "region '", spec.name, "': where it lies cannot be told: ", e.what());
  } catch (...) {
    return fail(Code::user, "region '", spec.name, "': where it lies cannot be told");
  }
}
}  // namespace

Result<std::vector<select::Region>> regions_for_select(const region::RegionSet& regions,
                                                       const region::RegionSet& statics) {
  std::vector<select::Region> out;
  for (const auto* set : {&regions, &statics})
    for (const auto& spec : set->specs()) {
      auto view = view_of(spec);
      if (!view) return view.failure();
      out.push_back({spec.name, std::move(view->shape), static_cast<std::int64_t>(spec.type.size)});
    }
  return out;
}

Result<std::unique_ptr<OpenLine::Undecided>> OpenLine::find_undecided(const std::set<std::string>& left_out) const {
  auto regions = regions_for_select(from_.regions, from_.statics);
  if (!regions) return regions.failure();
  auto out = std::make_unique<Undecided>();
  out->regions = std::move(*regions);
  for (std::size_t c = 0; c < from_.declared->size(); ++c) {
    auto effects = from_.declared->effects_on(c, out->regions);
    out->effects.push_back(effects ? std::move(*effects) : select::Effects{});
  }
  select::Elements elements(out->regions.size());
  for (const auto& [region, memory] : worth_waiting_for(*out, left_out)) {
    out->memory[region] = memory;
    elements[region].add(select::box_of(out->regions[region].shape));
    const auto known = is_needed_.find(out->regions[region].name);
    if (known == is_needed_.end() || !known->second) out->waiting.insert(region);
  }
  out->elements = select::OpenCheckpoint(std::move(elements));
  return out;
}

/// Regions that computations overwrite. A callback may look at anything, what is the same on all ranks must be saved at
/// one moment, cells in use (and their counts) are no range of a region, and of what a computation is changing, one
/// uses that cannot be declared now, or lay elsewhere when it was looked for, nothing is known: those are saved at
/// once.
std::map<std::size_t, const std::byte*> OpenLine::worth_waiting_for(const Undecided& undecided,
                                                                    const std::set<std::string>& left_out) const {
  std::set<std::string> others = exchanged_;
  others.insert(left_out.begin(), left_out.end());
  for (std::size_t c = 0; c < undecided.effects.size(); ++c)
    if (undecided.effects[c].empty())
      for (auto& name : from_.declared->regions_of(c)) others.insert(std::move(name));
  if (from_.running != nullptr)
    for (const std::size_t c : *from_.running)
      for (auto& name : from_.declared->regions_of(c)) others.insert(std::move(name));
  std::map<std::size_t, const std::byte*> out;
  for (const auto& computation : undecided.effects)
    for (const auto& effect : computation) {
      if (effect.overwrites.empty() || effect.region >= from_.regions.specs().size()) continue;
      const auto& spec = from_.regions.specs()[effect.region];
      if (spec.save || spec.placement.kind == Placement::Kind::replicated || others.contains(spec.name) ||
          spec.name.ends_with(".counts") || out.contains(effect.region))
        continue;
      const auto first = view_of(spec), second = view_of(spec);  // one that is elsewhere each time cannot be watched
      if (first && second && first->run_lengths.empty() && first->data == second->data)
        out.emplace(effect.region, first->data);
    }
  return out;
}

void OpenLine::take(std::unique_ptr<Checkpoint> line, const CaptureOptions& options, bool at_once) {
  options_ = options;
  left_out_bytes_ = 0;
  undecided_.reset();
  line_ = std::move(line);
  if (hooks_.began) hooks_.began();
  if (line_->captured) line_->captured = capture(at_once);
  if (!undecided_ || undecided_->waiting.empty()) hand_over();
}

Result<void> OpenLine::capture(bool at_once) {
  line_->capture.clear();
  auto left_out = leave_out_missing();
  if (!left_out) return left_out.failure();
  BACKSTAY_TRY(leave_out_as_made(*left_out));
  if (from_.declared != nullptr) {
    for (auto& text : from_.declared->signature()) line_->signature.push_back(std::move(text));
    if (!at_once && from_.declared->size() > 0) {
      auto undecided = find_undecided(*left_out);
      if (!undecided) return undecided.failure();
      undecided_ = std::move(*undecided);
    }
  }
  std::vector<const RegionSpec*> decided;
  const auto& specs = from_.regions.specs();
  for (std::size_t i = 0; i < specs.size(); ++i)
    if ((!undecided_ || !undecided_->waiting.contains(i)) && !left_out->contains(specs[i].name) &&
        specs[i].name != format::replay_region)
      decided.push_back(&specs[i]);
  const auto captured = capture_more(decided, options_, line_->capture);
  if (!captured) {
    undecided_.reset();
    is_needed_.clear();  // it may have been too much
  }
  return captured;
}

Result<void> OpenLine::before(std::size_t computation) {
  if (!missing_.empty()) BACKSTAY_TRY(require_there(computation));
  if (!undecided_ || computation >= undecided_->effects.size() || look_for_exchanged()) return {};
  for (const auto& [region, elements] : undecided_->elements.read(undecided_->effects[computation])) save(region);
  if (line_ && undecided_->waiting.empty()) hand_over();
  return {};
}

void OpenLine::after(std::size_t computation, bool completed) {
  if (completed && !missing_.empty()) note_overwritten(computation);
  if (!undecided_ || computation >= undecided_->effects.size()) return;
  const auto& effects = undecided_->effects[computation];
  std::vector<std::size_t> open;
  for (const auto& effect : effects)
    if (!effect.changes.empty() && !undecided_->elements.is_decided(effect.region)) open.push_back(effect.region);
  if (!completed) {
    const auto waits = std::ranges::find_if(open, [&](auto region) { return undecided_->waiting.contains(region); });
    if (line_ && waits != open.end())
      give_up(fail(Code::user, "a computation ended by an exception while the line waited for region '",
                   undecided_->regions[*waits].name, "', which it overwrites: what it has overwritten is not known"));
    return;
  }
  undecided_->elements.overwrite(effects);
  for (const std::size_t region : open)
    if (undecided_->elements.is_decided(region)) drop(region);
  if (line_ && undecided_->waiting.empty()) hand_over();
}

/// What waits has to lie where it lay, or nobody knows what is there now. True: the line was given up.
bool OpenLine::look_for_exchanged() {
  for (const std::size_t region : undecided_->waiting) {
    const auto& about = undecided_->regions[region];
    const auto* spec = from_.regions.find(about.name);
    const auto view = spec == nullptr ? Result<View>(View{}) : view_of(*spec);
    if (view && view->data == undecided_->memory[region] && view->shape == about.shape) continue;
    exchanged_.insert(about.name);
    give_up(
        fail(Code::invalid_argument, "the memory of region '", about.name, "' was exchanged, or changed its size, ",
             "while the line waited for it: do that inside of a compute() that declares it, or use checkpoint(now)"));
    return true;
  }
  return false;
}

bool OpenLine::is_changed_by_a_running_one(std::size_t region) const {
  if (from_.running == nullptr) return false;
  return std::ranges::any_of(*from_.running, [&](std::size_t c) {
    return c < undecided_->effects.size() &&
           std::ranges::any_of(
               undecided_->effects[c],
               [&](const auto& effect) { return effect.region == region && !effect.changes.empty(); });
  });
}

/// As it is now: nothing has changed of it but what is overwritten before it is read.
void OpenLine::save(std::size_t region) {
  const std::string& name = undecided_->regions[region].name;
  is_needed_[name] = true;
  undecided_->elements.decide(region);
  if (undecided_->waiting.erase(region) == 0 || !line_->captured) return;
  line_->captured = capture_more({from_.regions.find(name)}, options_, line_->capture);
  if (!line_->captured) is_needed_.clear();
}

/// All of it was overwritten before it was read.
void OpenLine::drop(std::size_t region) {
  const auto& about = undecided_->regions[region];
  is_needed_[about.name] = false;
  if (undecided_->waiting.erase(region) > 0) leave_out(about);  // otherwise it was saved, in vain
}

void OpenLine::leave_out(const select::Region& region, std::optional<std::uint32_t> made) {
  line_->capture.left_out.push_back({options_.rank, region.name, region.shape, made});
  left_out_bytes_ += static_cast<std::uint64_t>(select::volume(select::box_of(region.shape)) * region.element);
}

/// With the way to it, and what came on that way until now: a run that goes on from it comes here by the same events.
void OpenLine::hand_over() {
  const auto* way = from_.regions.find(format::replay_region);
  if (line_->captured && way != nullptr) line_->captured = capture_more({way}, options_, line_->capture);
  hooks_.hand_over(std::move(line_));
}

void OpenLine::give_up(const Failure& why) {
  line_->captured = why;
  hand_over();
  undecided_.reset();
}

void OpenLine::decide() {
  if (line_ && look_for_exchanged()) return;
  if (line_)
    for (const std::size_t region : std::set(undecided_->waiting)) {
      if (is_changed_by_a_running_one(region))
        return give_up(fail(Code::invalid_argument,
                            "a call of the session inside of a computation came while the line ", "waited for region '",
                            undecided_->regions[region].name, "', which that overwrites: make ",
                            "it outside, or use checkpoint(now)"));
      save(region);
    }
  if (line_) hand_over();
  undecided_.reset();
}

void OpenLine::give_up_undecided(const std::vector<std::string>& still_there) {
  if (!line_) return;
  const auto gone = std::ranges::find_if(undecided_->waiting, [&](std::size_t region) {
    return std::ranges::find(still_there, undecided_->regions[region].name) == still_there.end();
  });
  if (gone == undecided_->waiting.end()) return;
  give_up(fail(Code::invalid_argument, "the program left the loop, or its session, before it was decided whether the ",
               "line needs region '", undecided_->regions[*gone].name, "': checkpoint(now) saves all at once"));
}

// ---- what is missing -----------------------------------------------------------------------------------------------

namespace {
Result<std::uint32_t> crc_of(const RegionSpec& spec) {
  const auto view = view_of(spec);
  if (!view) return view.failure();
  Bytes bytes(static_cast<std::size_t>(region::packed_size(*view, spec.type.size)));
  return region::capture(*view, spec.type.size, bytes.data());
}
}  // namespace

Result<void> OpenLine::came_back_without(const std::vector<NotThere>& regions) {
  missing_.clear();
  for (const auto& entry : regions) {
    const auto* spec = from_.regions.find(entry.region);
    if (spec == nullptr) continue;
    const auto view = view_of(*spec);
    if (!view) return view.failure();
    if (!entry.as_made) {
      const select::BoxSet all(select::box_of(view->shape));
      if (!all.empty()) missing_[entry.region] = all;
      continue;
    }
    const auto crc = crc_of(*spec);
    if (!crc) return crc.failure();
    if (entry.crc && *entry.crc != *crc)
      return fail(
          Code::mismatch, "region '", entry.region, "' is not in the line, as the beginning of the program made ",
          "it and no computation had changed it; now the beginning has made something else: its input is another ",
          "one, or it makes it before loop() and protects it inside");
  }
  return {};
}

void OpenLine::begin_way(std::set<std::string> others) {
  begun_.clear();
  changed_ = std::move(others);
  made_.clear();
}

void OpenLine::note(std::size_t computation) {
  if (computation < begun_.size() && begun_[computation]) return;
  begun_.resize(std::max(begun_.size(), computation + 1));
  begun_[computation] = true;
  for (auto& name : from_.declared->changed_by(computation)) changed_.insert(std::move(name));
}

/// Only where there is a way to make it again, and as far as declarations tell that nothing else changes it.
bool OpenLine::is_as_made(const RegionSpec& spec) const {
  return from_.declared != nullptr && from_.regions.find(format::replay_region) != nullptr && !spec.save &&
         !changed_.contains(spec.name) && from_.declared->names(spec.name);
}

std::set<std::string> OpenLine::as_made() const {
  std::set<std::string> out;
  for (const auto& spec : from_.regions.specs())
    if (is_as_made(spec)) out.insert(spec.name);
  return out;
}

Result<void> OpenLine::leave_out_as_made(std::set<std::string>& left_out) {
  for (const auto& spec : from_.regions.specs()) {
    if (!is_as_made(spec) || left_out.contains(spec.name)) continue;
    const auto view = view_of(spec);
    if (!view) return view.failure();
    if (!view->run_lengths.empty() || spec.name.ends_with(".counts")) continue;
    auto made = made_.find(spec.name);
    if (made == made_.end()) {
      const auto crc = crc_of(spec);
      if (!crc) return crc.failure();
      made = made_.emplace(spec.name, std::pair(view->shape, *crc)).first;
    }
    if (made->second.first != view->shape) {
      changed_.insert(spec.name);  // outside of computations
      continue;
    }
    leave_out({spec.name, view->shape, static_cast<std::int64_t>(spec.type.size)}, made->second.second);
    left_out.insert(spec.name);
  }
  return {};
}

Result<const OpenLine::Known*> OpenLine::known() {
  const auto changes = from_.regions.changes() + from_.statics.changes();
  if (known_ && known_->changes == changes && known_->effects.size() == from_.declared->size()) return &*known_;
  auto regions = regions_for_select(from_.regions, from_.statics);
  if (!regions) return regions.failure();
  Known fresh{changes, std::move(*regions), {}};
  for (std::size_t c = 0; c < from_.declared->size(); ++c) {
    auto effects = from_.declared->effects_on(c, fresh.regions);
    fresh.effects.push_back(effects ? std::move(*effects) : select::Effects{});
  }
  return &known_.emplace(std::move(fresh));
}

Result<void> OpenLine::require_there(std::size_t computation) {
  const auto all = known();
  if (!all) return all.failure();
  for (const auto& effect : (*all)->effects[computation]) {
    const auto& name = (*all)->regions[effect.region].name;
    const auto missing = missing_.find(name);
    if (missing == missing_.end() || missing->second.in(effect.reads).empty()) continue;
    return fail(
        Code::mismatch, from_.declared->signature_of(computation), ", needs region '", name, "', which the line ",
        "that this run went on from has not: the run that saved it overwrote it first, so this one goes another ",
        "way; let it go the same way (replay() keeps what decides on it), or save all by checkpoint(now)");
  }
  return {};
}

void OpenLine::note_overwritten(std::size_t computation) {
  const auto all = known();
  if (!all) return;
  for (const auto& effect : (*all)->effects[computation]) {
    const auto missing = missing_.find((*all)->regions[effect.region].name);
    if (missing == missing_.end()) continue;
    missing->second.remove(effect.overwrites);
    if (missing->second.empty()) missing_.erase(missing);
  }
}

/// What was not there and has not been made is not needed either. Their names.
Result<std::set<std::string>> OpenLine::leave_out_missing() {
  std::set<std::string> out;
  if (missing_.empty() || from_.declared == nullptr) return out;
  const auto all = regions_for_select(from_.regions, {});
  if (!all) return all.failure();
  for (const auto& region : *all) {
    const auto missing = missing_.find(region.name);
    if (missing == missing_.end()) continue;
    if (!from_.declared->names(region.name))
      return fail(Code::mismatch, "region '", region.name, "' was left out of the line that this run went on from, as ",
                  "declared computations overwrote it, and none is declared now: declare them as then");
    if (missing->second.volume() != select::volume(select::box_of(region.shape)))
      return fail(Code::invalid_argument, "region '", region.name, "' was left out of the line that this run went on ",
                  "from, and only a part of it has been overwritten since: take a checkpoint later");
    leave_out(region);
    out.insert(region.name);
  }
  return out;
}

}  // namespace backstay::engine
