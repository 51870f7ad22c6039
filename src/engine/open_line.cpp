#include "engine/open_line.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "format/data_file.h"
#include "region/footprint.h"
#include "region/pack.h"

namespace backstay::engine {

namespace {
/// Parts in which a rank saves a region, as each is a dataset of its own. More are saved only where between them lies
/// what was overwritten.
constexpr std::size_t most_parts = 32;
/// Bytes of what is as the beginning of the program made it. People count steps outside of computations.
constexpr std::uint64_t looked_at_again = 65536;

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

/// What is spread over other ranks, or given to a callback, is given whole.
bool can_be_in_parts(const RegionSpec& spec, const Extents& shape) {
  const bool is_private = spec.placement.kind == Placement::Kind::rank_private && !spec.redistribute;
  return (is_private || spec.placement.kind == Placement::Kind::block) && !spec.save && !shape.empty();
}

bool is_all_of(const select::BoxSet& elements, const select::Region& region) {
  return elements.volume() == select::volume(select::box_of(region.shape));
}

/// These elements of a region, as they are captured.
std::vector<Wanted> as_wanted(const RegionSpec& spec, const select::Region& about, const select::BoxSet& elements) {
  if (is_all_of(elements, about)) return {{&spec}};
  std::vector<Wanted> out;
  for (const auto& box : elements.boxes()) {
    region::Box part;
    for (const auto& range : box) {
      part.lower.push_back(range.begin);
      part.upper.push_back(range.end);
    }
    out.push_back({&spec, std::move(part)});
  }
  return out;
}

select::Box as_box(const Extents& lower, const Extents& upper) {
  select::Box out;
  for (std::size_t d = 0; d < lower.size(); ++d) out.push_back({lower[d], upper[d]});
  return out;
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

/// From one line to the next they are mostly the same. A body of loop() that runs again may declare others.
Result<std::shared_ptr<const OpenLine::Effects>> OpenLine::find_effects() const {
  auto regions = regions_for_select(from_.regions, from_.statics);
  if (!regions) return regions.failure();
  const std::size_t count = from_.declared != nullptr ? from_.declared->size() : 0;
  const std::uint64_t changes = count > 0 ? from_.declared->changes() : 0;
  if (effects_ && effects_->changes == changes && effects_->regions == *regions) return effects_;
  auto out = std::make_shared<Effects>();
  out->changes = changes;
  out->regions = std::move(*regions);
  for (std::size_t c = 0; c < count; ++c) {
    auto effects = from_.declared->effects_on(c, out->regions);
    out->by_computation.push_back(effects ? std::move(*effects) : select::Effects{});
  }
  effects_ = out;
  return effects_;
}

Result<std::unique_ptr<OpenLine::Undecided>> OpenLine::find_undecided(const std::set<std::string>& left_out) const {
  auto known = find_effects();
  if (!known) return known.failure();
  auto out = std::make_unique<Undecided>();
  out->known = std::move(*known);
  select::Elements elements(out->known->regions.size());
  for (const auto& [region, memory] : worth_waiting_for(*out, left_out)) {
    const auto& about = out->known->regions[region];
    out->memory[region] = memory;
    elements[region] = without_missing(about);
    auto waiting = elements[region];
    waiting.remove(needed_at_once(region, about, elements[region]));
    if (!waiting.empty()) out->waiting.emplace(region, std::move(waiting));
  }
  out->elements = select::OpenCheckpoint(std::move(elements));
  return out;
}

/// Of `there`, what was read first the last time, or all where that cannot be saved in parts.
select::BoxSet OpenLine::needed_at_once(std::size_t region, const select::Region& about,
                                        const select::BoxSet& there) const {
  const auto known = needed_.find(about.name);
  if (known == needed_.end() || known->second.first != about.shape) return {};
  auto needed = there.in(known->second.second);
  if (needed.empty()) return needed;
  const bool in_parts = can_be_in_parts(from_.regions.specs()[region], about.shape);
  return in_parts && needed.boxes().size() <= most_parts ? needed : there;
}

/// What is declared of a region says nothing of another one that lies in the same memory: those are saved as they are,
/// at once. Views that throw are refused elsewhere.
void OpenLine::find_sharing() {
  sharing_.clear();
  if (from_.declared == nullptr || from_.declared->size() == 0) return;
  std::vector<region::Footprint> all;
  std::vector<const RegionSpec*> specs;
  for (const auto& spec : from_.regions.specs()) {
    const auto view = view_of(spec);
    if (!view || spec.save) continue;
    all.push_back(region::footprint_of(*view, spec.type.size));
    specs.push_back(&spec);
  }
  for (const std::size_t i : region::that_share_memory(all)) {
    sharing_.insert(specs[i]->name);
    changed_.insert(specs[i]->name);  // by computations of the others, perhaps
  }
}

/// Regions that computations overwrite. A callback may look at anything, what is the same on all ranks must be saved at
/// one moment, cells in use (and their counts) are no range of a region, and of what a computation is changing, one
/// uses that cannot be declared now, or lay elsewhere when it was looked for, nothing is known: those are saved at
/// once.
std::map<std::size_t, const std::byte*> OpenLine::worth_waiting_for(const Undecided& undecided,
                                                                    const std::set<std::string>& left_out) const {
  std::set<std::string> others = exchanged_;
  others.insert(sharing_.begin(), sharing_.end());
  others.insert(left_out.begin(), left_out.end());
  for (std::size_t c = 0; c < undecided.known->by_computation.size(); ++c)
    if (undecided.known->by_computation[c].empty())
      for (auto& name : from_.declared->regions_of(c)) others.insert(std::move(name));
  if (from_.running != nullptr)
    for (const std::size_t c : *from_.running)
      for (auto& name : from_.declared->regions_of(c)) others.insert(std::move(name));
  std::map<std::size_t, const std::byte*> out;
  for (const auto& computation : undecided.known->by_computation)
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
  forget_undecided();
  line_ = std::move(line);
  if (hooks_.began) hooks_.began();
  if (line_->captured) line_->captured = capture(at_once);
  if (!undecided_ || undecided_->waiting.empty()) hand_over();
}

Result<void> OpenLine::capture(bool at_once) {
  line_->capture.clear();
  find_sharing();
  if (!absent_.empty()) BACKSTAY_TRY(meet_absent());
  auto left_out = leave_out_missing();
  if (!left_out) return left_out.failure();
  BACKSTAY_TRY(leave_out_as_made(*left_out));
  if (!listed_.empty()) BACKSTAY_TRY(leave_out_unlisted(*left_out));
  if (from_.declared != nullptr) {
    for (auto& text : from_.declared->signature()) line_->signature.push_back(std::move(text));
    if (!at_once && listed_.empty() && from_.declared->size() > 0) {
      auto undecided = find_undecided(*left_out);
      if (!undecided) return undecided.failure();
      undecided_ = std::move(*undecided);
    }
  }
  const auto decided = wanted_now(*left_out);
  const Result<void> captured =
      decided ? capture_more(*decided, options_, line_->capture) : Result<void>(decided.failure());
  if (!captured) {
    undecided_.reset();
    needed_.clear();  // it may have been too much
  }
  return captured;
}

Result<std::vector<Wanted>> OpenLine::wanted_now(const std::set<std::string>& left_out) {
  std::vector<Wanted> out;
  const auto& specs = from_.regions.specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (left_out.contains(specs[i].name) || specs[i].name == format::replay_region) continue;
    const bool may_wait = undecided_ && undecided_->memory.contains(i);
    if (!may_wait && !missing_.contains(specs[i].name)) {
      out.push_back({&specs[i]});
      continue;
    }
    const auto view = view_of(specs[i]);
    if (!view) return view.failure();
    const select::Region about{specs[i].name, view->shape, static_cast<std::int64_t>(specs[i].type.size)};
    auto elements = without_missing(about);
    if (!may_wait) count_left_out(about, elements.volume());
    if (may_wait && undecided_->waiting.contains(i)) elements.remove(undecided_->waiting.at(i));
    for (auto& wanted : as_wanted(specs[i], about, elements)) out.push_back(std::move(wanted));
  }
  return out;
}

std::uint64_t OpenLine::bytes_at_once() const {
  const auto made = as_made();
  auto undecided = find_undecided(made);
  if (!undecided) return 0;
  std::vector<std::uint64_t> sizes;
  const auto& specs = from_.regions.specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& region = (*undecided)->known->regions[i];
    if (!specs[i].save && !made.contains(region.name) && !(*undecided)->waiting.contains(i))
      sizes.push_back(static_cast<std::uint64_t>(select::volume(select::box_of(region.shape)) * region.element));
  }
  return format::layout_area(sizes).size;
}

Result<void> OpenLine::before(std::size_t computation) {
  if (!absent_.empty()) BACKSTAY_TRY(meet_absent(computation));
  if (!missing_.empty() && !begins_again_) BACKSTAY_TRY(require_there(computation));
  if (!undecided_ || computation >= undecided_->known->by_computation.size() || look_for_exchanged()) return {};
  const auto& effects = undecided_->known->by_computation[computation];
  const bool is_inside = from_.running != nullptr && !from_.running->empty();
  const auto read =
      is_inside ? undecided_->elements.read(seen_from_outside(effects)) : undecided_->elements.read(effects);
  for (const auto& [region, elements] : read) {
    undecided_->read[region].add(elements);
    if (undecided_->elements.is_decided(region)) learn(region);
    save(region, elements);
  }
  if (line_) save_before_parts_change(computation);
  if (line_ && undecided_->waiting.empty()) hand_over();
  return {};
}

void OpenLine::after(std::size_t computation, bool completed) {
  if (completed && !absent_.empty()) (void)meet_absent(computation).ok();  // it may have protected, or grown, one
  if (completed && !missing_.empty()) note_overwritten(computation);
  if (!undecided_ || computation >= undecided_->known->by_computation.size()) return;
  const auto& effects = undecided_->known->by_computation[computation];
  if (!completed) {
    const auto spoils = [&](const select::Effect& effect) {
      const auto waiting = undecided_->waiting.find(effect.region);
      return waiting != undecided_->waiting.end() && !waiting->second.in(effect.changes).empty();
    };
    const auto spoilt = std::ranges::find_if(effects, spoils);
    if (line_ && spoilt != effects.end())
      give_up(fail(Code::user, "a computation ended by an exception while the line waited for region '",
                   undecided_->known->regions[spoilt->region].name,
                   "', which it overwrites: what it has overwritten is not known"));
    return;
  }
  for (const auto& effect : effects) {
    if (effect.overwrites.empty() || undecided_->elements.is_decided(effect.region)) continue;
    undecided_->elements.overwrite(effect);
    if (undecided_->elements.is_decided(effect.region)) learn(effect.region);
    const auto waiting = undecided_->waiting.find(effect.region);
    if (waiting == undecided_->waiting.end()) continue;
    waiting->second.remove(effect.overwrites);
    if (waiting->second.empty()) undecided_->waiting.erase(waiting);
  }
  if (line_ && undecided_->waiting.empty()) hand_over();
}

/// What waits has to lie where it lay, or nobody knows what is there now. True: the line was given up.
bool OpenLine::look_for_exchanged() {
  for (const auto& [region, elements] : undecided_->waiting) {
    const auto& about = undecided_->known->regions[region];
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
    return c < undecided_->known->by_computation.size() &&
           std::ranges::any_of(
               undecided_->known->by_computation[c],
               [&](const auto& effect) { return effect.region == region && !effect.changes.empty(); });
  });
}

/// Inside of others: what those overwrite it finds as they have left it, which they may have done by now.
select::Effects OpenLine::seen_from_outside(select::Effects out) const {
  for (const std::size_t c : *from_.running)
    if (c < undecided_->known->by_computation.size())
      for (const auto& outer : undecided_->known->by_computation[c])
        for (auto& effect : out)
          if (effect.region == outer.region) effect.reads.remove(outer.overwrites);
  return out;
}

/// What cannot be saved in parts is saved before it is overwritten in part.
void OpenLine::save_before_parts_change(std::size_t computation) {
  for (const auto& effect : undecided_->known->by_computation[computation]) {
    const auto waiting = undecided_->waiting.find(effect.region);
    if (effect.overwrites.empty() || waiting == undecided_->waiting.end()) continue;
    if (is_changed_by_a_running_one(effect.region)) continue;  // before that one began it was saved, or need not be
    const auto& about = undecided_->known->regions[effect.region];
    if (can_be_in_parts(*from_.regions.find(about.name), about.shape)) continue;
    auto rest = waiting->second;
    rest.remove(effect.overwrites);
    if (!rest.empty()) save(effect.region, select::BoxSet(waiting->second));
  }
}

/// Those that wait of `elements`, as they are now: of what waits nothing has changed. Where that would be many parts,
/// all that waits.
void OpenLine::save(std::size_t region, const select::BoxSet& elements) {
  const auto waiting = undecided_->waiting.find(region);
  if (waiting == undecided_->waiting.end()) return;
  const auto& about = undecided_->known->regions[region];
  const auto* spec = from_.regions.find(about.name);
  auto wanted = waiting->second.in(elements);
  if (wanted.empty()) return;
  const auto saved = saved_of(about);
  if (!can_be_in_parts(*spec, about.shape) || saved.boxes().size() + wanted.boxes().size() > most_parts)
    wanted = waiting->second;
  waiting->second.remove(wanted);
  if (waiting->second.empty()) undecided_->waiting.erase(waiting);
  if (!line_->captured) return;
  line_->captured = capture_more(as_wanted(*spec, about, wanted), options_, line_->capture);
  if (line_->captured) return;
  needed_.clear();
  undecided_->teaches = false;
}

/// What the line has of a region.
select::BoxSet OpenLine::saved_of(const select::Region& about) const {
  select::BoxSet out;
  for (const auto& segment : line_->capture.segments)
    if (segment.region == about.name) {
      const auto box = box_in_region(segment);
      out.add(as_box(box.lower, box.upper));
    }
  return out;
}

/// All but what the line that was put back had not, and nobody has made since.
select::BoxSet OpenLine::without_missing(const select::Region& about) const {
  select::BoxSet out(select::box_of(about.shape));
  if (const auto missing = missing_.find(about.name); missing != missing_.end() && missing->second.shape == about.shape)
    out.remove(missing->second.elements);
  return out;
}

/// What is to be expected of a region the next time: what was read of it, and what nobody has decided.
void OpenLine::learn(std::size_t region) {
  if (!undecided_->teaches) return;
  const auto& about = undecided_->known->regions[region];
  auto needed = undecided_->read[region];
  needed.add(undecided_->elements.undecided(region));
  needed_[about.name] = {about.shape, std::move(needed)};
}

void OpenLine::forget_undecided() {
  if (undecided_)
    for (const auto& [region, memory] : undecided_->memory) learn(region);
  undecided_.reset();
}

void OpenLine::leave_out(const RegionSpec& spec, const select::Region& region, std::optional<std::uint32_t> made,
                         bool unlisted) {
  line_->capture.left_out.push_back({options_.rank, region.name, region.shape, made, unlisted});
  if (spec.placement.kind == Placement::Kind::block) line_->capture.left_out.back().lower = spec.placement.lower;
  count_left_out(region, 0);
}

void OpenLine::count_left_out(const select::Region& region, std::int64_t saved) {
  left_out_bytes_ +=
      static_cast<std::uint64_t>((select::volume(select::box_of(region.shape)) - saved) * region.element);
}

/// Of what waited: it was overwritten before it was read.
void OpenLine::leave_out_the_rest() {
  for (const auto& [region, memory] : undecided_->memory) {
    const auto& about = undecided_->known->regions[region];
    const auto saved = saved_of(about).volume();
    const auto* spec = from_.regions.find(about.name);
    if (saved == 0 && spec != nullptr && select::volume(select::box_of(about.shape)) > 0)
      leave_out(*spec, about);
    else
      count_left_out(about, saved);
  }
}

/// With the way to it, and what came on that way until now: a run that goes on from it comes here by the same events.
void OpenLine::hand_over() {
  const auto* way = from_.regions.find(format::replay_region);
  if (line_->captured && undecided_) leave_out_the_rest();
  if (line_->captured && way != nullptr) line_->captured = capture_more({{way}}, options_, line_->capture);
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
    for (const auto& [region, elements] : std::map(undecided_->waiting)) {
      if (is_changed_by_a_running_one(region))
        return give_up(fail(Code::invalid_argument,
                            "a call of the session inside of a computation came while the line ", "waited for region '",
                            undecided_->known->regions[region].name, "', which that overwrites: make ",
                            "it outside, or use checkpoint(now)"));
      save(region, elements);
    }
  if (line_) hand_over();
  forget_undecided();
}

void OpenLine::give_up_undecided(const std::vector<std::string>& still_there) {
  if (!line_) return;
  const auto gone = std::ranges::find_if(undecided_->waiting, [&](const auto& entry) {
    return std::ranges::find(still_there, undecided_->known->regions[entry.first].name) == still_there.end();
  });
  if (gone == undecided_->waiting.end()) return;
  give_up(fail(Code::invalid_argument, "the program left the loop, or its session, before it was decided whether the ",
               "line needs region '", undecided_->known->regions[gone->first].name,
               "': checkpoint(now) saves all at once"));
}

// ---- what is missing -----------------------------------------------------------------------------------------------

namespace {
Result<std::uint32_t> crc_of(const RegionSpec& spec) {
  const auto view = view_of(spec);
  if (!view) return view.failure();
  return region::checksum_without_padding(spec, *view);
}
}  // namespace

Result<void> OpenLine::came_back_without(const std::vector<NotThere>& regions) {
  missing_.clear();
  absent_.clear();
  begins_again_ = false;
  last_refusal_ = 0;
  for (const auto& entry : regions) {
    const auto* spec = from_.regions.find(entry.region);
    if (spec == nullptr && !entry.as_made) absent_.insert(entry.region);
    if (spec == nullptr) continue;
    const auto view = view_of(*spec);
    if (!view) return view.failure();
    if (!entry.as_made) {
      select::BoxSet missing(select::box_of(view->shape));
      for (const auto* boxes : {&entry.there, &entry.made})
        for (const auto& box : *boxes) missing.remove(as_box(box.lower, box.upper));
      if (!missing.empty()) missing_[entry.region] = {view->shape, std::move(missing)};
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

void OpenLine::others_are_changed(const std::vector<NotThere>& regions) {
  for (const auto& spec : from_.regions.specs())
    if (!std::ranges::any_of(regions, [&](const auto& e) { return e.as_made && e.region == spec.name; }))
      changed_.insert(spec.name);
}

void OpenLine::begin_way(std::set<std::string> others) {
  is_made_again_ = true;
  begun_.clear();
  changed_ = std::move(others);
  made_.clear();
}

Result<void> OpenLine::note_made() {
  for (const auto& spec : from_.regions.specs()) {
    if (!is_as_made(spec)) continue;
    const auto view = view_of(spec);
    if (!view) return view.failure();
    if (!view->run_lengths.empty()) continue;
    const auto crc = crc_of(spec);
    if (!crc) return crc.failure();
    made_[spec.name] = {view->shape, *crc};
  }
  return {};
}

void OpenLine::note(std::size_t computation) {
  if (computation < begun_.size() && begun_[computation]) return;
  begun_.resize(std::max(begun_.size(), computation + 1));
  begun_[computation] = true;
  for (auto& name : from_.declared->changed_by(computation)) changed_.insert(std::move(name));
}

/// Only where the program makes it again, and as far as declarations tell that nothing else changes it.
bool OpenLine::is_as_made(const RegionSpec& spec) const {
  return from_.declared != nullptr && is_made_again_ && !spec.save && !changed_.contains(spec.name) &&
         from_.declared->names(spec.name);
}

std::set<std::string> OpenLine::as_made() const {
  std::set<std::string> out;
  for (const auto& spec : from_.regions.specs())
    if (is_as_made(spec)) out.insert(spec.name);
  return out;
}

Result<void> OpenLine::leave_out_as_made(std::set<std::string>& left_out) {
  for (const auto& spec : from_.regions.specs()) {
    if (!is_as_made(spec) || left_out.contains(spec.name) || (!listed_.empty() && is_listed(spec.name))) continue;
    const auto view = view_of(spec);
    if (!view) return view.failure();
    if (!view->run_lengths.empty() || spec.name.ends_with(".counts")) continue;
    const auto [made, is_new] = made_.try_emplace(spec.name, Made{view->shape});
    bool is_changed = made->second.shape != view->shape;  // outside of computations
    if (!is_changed && (!made->second.is_of_a_line || region::packed_size(*view, spec.type.size) <= looked_at_again)) {
      const auto crc = crc_of(spec);
      if (!crc) return crc.failure();
      is_changed = !is_new && *crc != made->second.crc;
      made->second.crc = *crc;
      made->second.is_of_a_line = true;
    }
    if (is_changed) {
      changed_.insert(spec.name);
      continue;
    }
    leave_out(spec, {spec.name, view->shape, static_cast<std::int64_t>(spec.type.size)}, made->second.crc);
    left_out.insert(spec.name);
  }
  return {};
}

/// Cells are not to be had without their counts.
bool OpenLine::is_listed(const std::string& region) const {
  constexpr std::string_view counts = ".counts";
  return listed_.contains(region) || region == format::replay_region ||
         (region.ends_with(counts) && listed_.contains(region.substr(0, region.size() - counts.size())));
}

/// What nobody may miss without being told: a computation that reads it before it is made is refused, and nothing else
/// is.
Result<void> OpenLine::leave_out_unlisted(std::set<std::string>& left_out) {
  std::string only = "a line of nothing but";
  for (const auto& name : listed_) {
    if (from_.regions.find(name) == nullptr)
      return fail(Code::invalid_argument, "save_only() names region '", name, "', which is not protected any more");
    only += " " + name;
  }
  line_->signature.push_back(std::move(only));
  for (const auto& spec : from_.regions.specs()) {
    if (is_listed(spec.name) || left_out.contains(spec.name)) continue;
    if (spec.save || from_.declared == nullptr || !from_.declared->names(spec.name))
      return fail(Code::invalid_argument, "save_only() does not name region '", spec.name, "', and ",
                  spec.save ? "callbacks save it" : "no declared computation uses it",
                  ", so that nobody would notice that a line has it not: name it there, or do not protect it");
    const auto view = view_of(spec);
    if (!view) return view.failure();
    leave_out(spec, {spec.name, view->shape, static_cast<std::int64_t>(spec.type.size)}, {}, true);
    left_out.insert(spec.name);
  }
  return {};
}

/// Those that are protected by now, of those that `computation` uses, or of all. What no computation changes the
/// program makes itself, as it did when the line was saved.
Result<void> OpenLine::meet_absent(std::optional<std::size_t> computation) {
  for (auto name = absent_.begin(); name != absent_.end();) {
    const auto here = name++;
    const auto* spec = from_.regions.find(*here);
    if (spec == nullptr || spec->save || from_.declared == nullptr || !from_.declared->changes(*here)) continue;
    if (computation && !from_.declared->uses(*computation, *here)) continue;
    const auto view = view_of(*spec);
    if (!view) return view.failure();
    const select::BoxSet all(select::box_of(view->shape));
    if (all.empty()) continue;
    missing_[*here] = {view->shape, all};
    absent_.erase(here);
  }
  return {};
}

/// Regions of missing elements may have changed their size. In a row elements stay what they are, as those of a vector
/// do; else nobody knows where they are now.
void OpenLine::fit_missing(const select::Region& about) {
  const auto found = missing_.find(about.name);
  if (found == missing_.end() || found->second.shape == about.shape) return;
  auto& missing = found->second;
  const auto all = select::box_of(about.shape);
  const bool is_a_row = about.shape.size() == 1 && missing.shape.size() == 1;
  missing = {about.shape, is_a_row ? missing.elements.in(all) : select::BoxSet(all)};
  if (missing.elements.empty()) missing_.erase(found);
}

bool OpenLine::uses_missing(std::size_t computation) const {
  return std::ranges::any_of(missing_,
                             [&](const auto& entry) { return from_.declared->uses(computation, entry.first); });
}

/// What it does to the regions that it names, which are in seen_. Code::mismatch: it cannot do it as they are now.
Result<select::Effects> OpenLine::effects_on_missing(std::size_t computation) {
  seen_.clear();
  for (const auto* set : {&from_.regions, &from_.statics})
    for (const auto& spec : set->specs()) {
      if (!from_.declared->uses(computation, spec.name)) continue;
      auto view = view_of(spec);
      if (!view) return view.failure();
      seen_.push_back({spec.name, std::move(view->shape), static_cast<std::int64_t>(spec.type.size)});
      fit_missing(seen_.back());
    }
  return from_.declared->effects_on(computation, seen_);
}

namespace {
constexpr std::int64_t most_accesses = 1 << 16;  ///< of a computation, as far as refusals tell them apart
}

Failure OpenLine::refuse(std::size_t computation, const std::string& region) {
  const auto used = from_.declared->regions_of(computation);
  const auto at = static_cast<std::int64_t>(std::ranges::find(used, region) - used.begin());
  last_refusal_ = static_cast<std::int64_t>(computation) * most_accesses + std::min(at, most_accesses - 2) + 1;
  return refusal(last_refusal_);
}

Failure OpenLine::refusal(std::int64_t number) const {
  const auto computation = static_cast<std::size_t>((number - 1) / most_accesses);
  const auto at = static_cast<std::size_t>((number - 1) % most_accesses);
  std::string what = "a computation", region = "a region";
  if (from_.declared != nullptr && computation < from_.declared->size()) {
    what = from_.declared->signature_of(computation);
    if (const auto used = from_.declared->regions_of(computation); at < used.size())
      region = cat("region '", used[at], "'");
  }
  return fail(Code::mismatch, what, ", needs ", region, ", which the line that this run went on from has not: the run ",
              "that saved it overwrote it first, so this one goes another way; let it go the same way (replay() keeps ",
              "what decides on it), or save all by checkpoint(now); where save_only() says what a line holds, name it ",
              "there, and protect it before resume()");
}

Result<void> OpenLine::require_there(std::size_t computation) {
  if (!uses_missing(computation)) return {};
  std::map<std::string, select::BoxSet> overwritten;  // by those that this one is inside of
  if (from_.running != nullptr)
    for (const std::size_t outer : *from_.running)
      if (const auto effects = effects_on_missing(outer))
        for (const auto& effect : *effects) overwritten[seen_[effect.region].name].add(effect.overwrites);
  const auto effects = effects_on_missing(computation);
  if (!effects && effects.failure().code == Code::user) return effects.failure();
  if (!effects) {  // what it does to regions as they are now cannot be told; it changes them first, perhaps
    for (const auto& [region, missing] : missing_)
      if (from_.declared->reads(computation, region)) return refuse(computation, region);
    return {};
  }
  for (const auto& effect : *effects) {
    const auto& name = seen_[effect.region].name;
    const auto missing = missing_.find(name);
    if (missing == missing_.end()) continue;
    auto needed = missing->second.elements.in(effect.reads);
    needed.remove(overwritten[name]);
    if (!needed.empty()) return refuse(computation, name);
  }
  return {};
}

void OpenLine::note_overwritten(std::size_t computation) {
  if (!uses_missing(computation)) return;
  const auto effects = effects_on_missing(computation);
  if (!effects) return;
  for (const auto& effect : *effects) {
    const auto missing = missing_.find(seen_[effect.region].name);
    if (missing == missing_.end()) continue;
    missing->second.elements.remove(effect.overwrites);
    if (missing->second.elements.empty()) missing_.erase(missing);
  }
}

/// What was not there and has not been made is not needed either. Names of those of which that is all.
Result<std::set<std::string>> OpenLine::leave_out_missing() {
  std::set<std::string> out;
  if (missing_.empty() || from_.declared == nullptr) return out;
  const auto all = regions_for_select(from_.regions, {});
  if (!all) return all.failure();
  for (const auto& region : *all) {
    fit_missing(region);
    const auto missing = missing_.find(region.name);
    if (missing == missing_.end() || (!listed_.empty() && !is_listed(region.name))) continue;
    if (!from_.declared->names(region.name))
      return fail(Code::mismatch, "region '", region.name, "' was left out of the line that this run went on from, as ",
                  "declared computations overwrote it, and none is declared now: declare them as then");
    const auto* spec = from_.regions.find(region.name);
    if (is_all_of(missing->second.elements, region)) {
      leave_out(*spec, region);
      out.insert(region.name);
    } else if (!can_be_in_parts(*spec, region.shape)) {
      return fail(Code::invalid_argument, "region '", region.name, "' was left out of the line that this run went on ",
                  "from, and only a part of it has been overwritten since: take a checkpoint later");
    }
  }
  return out;
}

}  // namespace backstay::engine
