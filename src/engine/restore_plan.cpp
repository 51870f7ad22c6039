#include "engine/restore_plan.h"

#include <algorithm>

#include "base/text.h"
#include "engine/staging.h"

namespace backstay::engine {

namespace {
using region::Box;

Failure mismatch(const std::string& name, const std::string& why) {
  return fail(Code::mismatch, "region '", name, "' ", why);
}

bool is_text(const Type& type) { return type.kind == Type::Kind::text; }

/// Callbacks take a text of any length; memory holds those of its own.
bool same_type(const RegionSpec& spec, const Type& saved) {
  return spec.type == saved || (spec.save && is_text(spec.type) && is_text(saved));
}

std::string type_word(const Type& type) {
  return is_text(type) ? cat("text of ", counted(type.size, "byte")) : region::describe_type(type);
}

const char* placement_word(Placement::Kind kind) {
  static constexpr const char* words[] = {"private to a rank", "replicated", "a block", "a distributed list"};
  return words[static_cast<int>(kind)];
}

Result<void> check_kind(const RegionSpec& spec, const format::Segment& s) {
  if (!same_type(spec, s.type))
    return mismatch(spec.name, cat("was saved as ", type_word(s.type), " and is protected as ", type_word(spec.type),
                                   ": protect it with the type it was saved with"));
  if (spec.placement.kind != s.placement.kind)
    return mismatch(spec.name, cat("was saved as ", placement_word(s.placement.kind), " and is protected as ",
                                   placement_word(spec.placement.kind)));
  if (spec.placement.global != s.placement.global)
    return mismatch(spec.name,
                    cat("was saved as part of a global array of shape ", region::describe_shape(s.placement.global),
                        " and is protected as part of one of shape ", region::describe_shape(spec.placement.global)));
  return {};
}

/// Where a segment lies in the global array.
Box global_box(const format::Segment& s) {
  Box box{s.placement.lower, s.placement.lower};
  const Box here = box_in_region(s);
  for (std::size_t d = 0; d < box.lower.size(); ++d) {
    box.lower[d] += here.lower[d];
    box.upper[d] += here.upper[d];
  }
  return box;
}

std::optional<std::pair<int, int>> ranks_that_overlap(const std::vector<Piece>& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i)
    for (std::size_t j = i + 1; j < pieces.size(); ++j)
      if (!region::is_empty(region::intersect(pieces[i].part, pieces[j].part)))
        return std::pair{pieces[i].from.about->rank, pieces[j].from.about->rank};
  return {};
}

std::int64_t volume(const Box& box) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < box.lower.size(); ++d) n *= std::max<std::int64_t>(0, box.upper[d] - box.lower[d]);
  return n;
}

Box box_at(const Extents& shape, std::int64_t first) {
  Box box{Extents(shape.size(), 0), shape};
  box.lower[0] += first;
  box.upper[0] += first;
  return box;
}

RegionPlan take_whole(const SegmentRef& ref) {
  RegionPlan plan;
  plan.shape = ref.about->shape;
  plan.target = {Extents(plan.shape.size(), 0), plan.shape};
  plan.pieces.push_back({ref, plan.target, plan.target});
  plan.whole = true;
  return plan;
}

/// What this rank saved of a region, in parts.
RegionPlan take_parts(const std::vector<SegmentRef>& parts) {
  RegionPlan plan;
  plan.shape = parts.front().about->part->of;
  plan.target = {Extents(plan.shape.size(), 0), plan.shape};
  std::int64_t there = 0;
  for (const auto& ref : parts) {
    const Box box = box_in_region(*ref.about);
    there += volume(box);
    plan.pieces.push_back({ref, box, box});
  }
  plan.left_out = there < volume(plan.target);
  return plan;
}

void add_overlaps(RegionPlan& plan, const std::vector<std::pair<SegmentRef, Box>>& sources) {
  for (const auto& [ref, box] : sources) {
    Box part = region::intersect(box, plan.target);
    if (!region::is_empty(part)) plan.pieces.push_back({ref, box, std::move(part)});
  }
  plan.whole = plan.pieces.size() == 1 && plan.pieces[0].source == plan.target;
}

/// What is left of `boxes` without `taken`, in at most two boxes a dimension for each.
std::vector<Box> without(const std::vector<Box>& boxes, const Box& taken) {
  std::vector<Box> left;
  for (Box box : boxes) {
    const Box common = region::intersect(box, taken);
    if (region::is_empty(common)) {
      left.push_back(std::move(box));
      continue;
    }
    for (std::size_t d = 0; d < box.lower.size(); ++d) {
      Box below = box, above = box;
      below.upper[d] = common.lower[d];
      above.lower[d] = common.upper[d];
      box.lower[d] = common.lower[d];
      box.upper[d] = common.upper[d];
      for (Box* side : {&below, &above})
        if (!region::is_empty(*side)) left.push_back(std::move(*side));
    }
  }
  return left;
}

/// Of a rank that left all of it out.
Box block_of(const format::LeftOut& entry) {
  Box out{*entry.lower, *entry.lower};
  for (std::size_t d = 0; d < entry.shape.size(); ++d) out.upper[d] += entry.shape[d];
  return out;
}

/// The blocks of ranks that left out some of the region, or all.
std::vector<Box> blocks_with_gaps(const std::string& region, const SavedRegions& saved) {
  std::vector<Box> out;
  for (const auto& ref : saved.of(region))
    if (ref.about->part) out.push_back({ref.about->placement.lower, ref.about->placement.upper});
  for (const auto& [rank, entry] : saved.left_out(region))
    if (entry->lower) out.push_back(block_of(*entry));
  return out;
}

/// What is as the beginning of the program makes it, and nowhere else.
std::vector<Box> made_parts(const RegionPlan& plan, const std::string& region, const SavedRegions& saved) {
  std::vector<Box> out;
  for (const auto& [rank, entry] : saved.left_out(region))
    if (entry->made) {
      Box part = region::intersect(block_of(*entry), plan.target);
      if (!region::is_empty(part)) out.push_back(std::move(part));
    }
  for (const auto& piece : plan.pieces) out = without(out, piece.part);
  for (const auto& [rank, entry] : saved.left_out(region))
    if (!entry->made) out = without(out, block_of(*entry));
  return out;
}

/// What no rank saved lies in a block that some rank held.
bool is_covered(const RegionPlan& plan, const std::vector<Box>& with_gaps) {
  std::vector<Box> left;
  if (!region::is_empty(plan.target)) left.push_back(plan.target);
  for (const auto& piece : plan.pieces) left = without(left, piece.part);
  for (const auto& box : with_gaps) left = without(left, box);
  return left.empty();
}

Result<RegionPlan> plan_block(const RegionSpec& spec, const SavedRegions& saved) {
  RegionPlan plan;
  plan.target = {spec.placement.lower, spec.placement.upper};
  plan.shape = region::shape_of(plan.target);
  std::vector<std::pair<SegmentRef, Box>> sources;
  for (const auto& ref : saved.of(spec.name)) {
    BACKSTAY_TRY(check_kind(spec, *ref.about));
    sources.emplace_back(ref, global_box(*ref.about));
  }
  add_overlaps(plan, sources);
  if (const auto ranks = ranks_that_overlap(plan.pieces))
    return mismatch(spec.name, cat("was saved in blocks that overlap (those of ranks ", ranks->first, " and ",
                                   ranks->second, "), so that nobody can say which value is right: run on as many ",
                                   "ranks as saved it, and give each rank a block of its own, without halos"));
  std::int64_t covered = 0;
  for (const auto& piece : plan.pieces) covered += volume(piece.part);
  if (covered == volume(plan.target)) return plan;
  if (!is_covered(plan, blocks_with_gaps(spec.name, saved)))
    return mismatch(spec.name, "was saved in blocks that do not cover all of the block that this rank now holds");
  plan.left_out = true;
  plan.made = made_parts(plan, spec.name, saved);
  return plan;
}

/// The total of the list in equal runs, the first ones longer by one where it does not divide.
std::int64_t first_of(std::int64_t total, int rank, int size) {
  return total / size * rank + std::min<std::int64_t>(rank, total % size);
}

Result<RegionPlan> plan_list(const RegionSpec& spec, const std::vector<SegmentRef>& refs, int rank, int size) {
  std::vector<std::pair<SegmentRef, Box>> sources;
  std::int64_t total = 0;
  for (const auto& ref : refs) {
    BACKSTAY_TRY(check_kind(spec, *ref.about));
    sources.emplace_back(ref, box_at(ref.about->shape, total));
    total += ref.about->shape[0];
    if (!std::equal(ref.about->shape.begin() + 1, ref.about->shape.end(), refs[0].about->shape.begin() + 1,
                    refs[0].about->shape.end()))
      return mismatch(spec.name,
                      cat("is a list whose elements have the shape ", region::describe_shape(refs[0].about->shape),
                          " on rank ", refs[0].about->rank, " and ", region::describe_shape(ref.about->shape),
                          " on rank ", ref.about->rank, ", so that it comes back on as many ranks as saved it only"));
  }
  RegionPlan plan;
  plan.shape = refs[0].about->shape;
  const std::int64_t first = first_of(total, rank, size);
  plan.shape[0] = first_of(total, rank + 1, size) - first;
  plan.target = box_at(plan.shape, first);
  add_overlaps(plan, sources);
  return plan;
}

/// The slots, or how many of each cell are filled.
bool is_of_a_cell_list(const RegionSpec& spec) {
  if (spec.save) return false;
  const auto memory = region::look_at(spec);
  return spec.name.ends_with(".counts") || (memory && !memory->run_lengths.empty());
}

/// What there is besides running on as many ranks.
std::string other_way_for_private(const RegionSpec& spec) {
  if (!spec.save && !is_of_a_cell_list(spec)) return "give it a placement (block, distributed_list, replicated)";
  return cat("protect it by callbacks with a redistribute",
             !spec.save ? " (a cell list, filled_slots, comes back on as many ranks as saved it and no others)"
             : is_text(spec.type) ? " (a text in C++ may be replicated())"
                                  : "");
}

/// Private data on other ranks: only an owner who knows how can spread it; that callback gets every piece whole.
Result<RegionPlan> plan_private(const RegionSpec& spec, const std::vector<SegmentRef>& refs, int saved_ranks,
                                int size) {
  if (!spec.redistribute)
    return mismatch(spec.name,
                    cat("is private to a rank and was saved by ", counted(saved_ranks, "rank"), ", and this job has ",
                        size, ": run on ", counted(saved_ranks, "rank"), ", or ", other_way_for_private(spec)));
  RegionPlan plan;
  for (const auto& ref : refs) {
    const Box box{Extents(ref.about->shape.size(), 0), ref.about->shape};
    plan.pieces.push_back({ref, box, box});
  }
  return plan;
}
}  // namespace

SavedRegions::SavedRegions(const std::vector<format::Table>& tables) {
  for (std::size_t f = 0; f < tables.size(); ++f)
    for (std::size_t s = 0; s < tables[f].segments.size(); ++s)
      regions_[tables[f].segments[s].region].push_back({f, s, &tables[f].segments[s]});
  for (const auto& table : tables)
    for (const auto& entry : table.left_out) left_out_[entry.region].emplace(entry.rank, &entry);
  for (auto& [name, refs] : regions_)
    std::stable_sort(refs.begin(), refs.end(),
                     [](const auto& a, const auto& b) { return a.about->rank < b.about->rank; });
}

std::vector<std::string> SavedRegions::names() const {
  std::vector<std::string> out;
  for (const auto& [name, refs] : regions_) out.push_back(name);
  return out;
}

std::vector<std::string> SavedRegions::names_left_out() const {
  std::vector<std::string> out;
  for (const auto& [name, entries] : left_out_)
    if (std::ranges::any_of(entries, [](const auto& entry) { return !entry.second->made; })) out.push_back(name);
  return out;
}

const std::vector<SegmentRef>& SavedRegions::of(const std::string& region) const {
  static const std::vector<SegmentRef> none;
  const auto it = regions_.find(region);
  return it == regions_.end() ? none : it->second;
}

std::vector<SegmentRef> SavedRegions::of(const std::string& region, int rank) const {
  std::vector<SegmentRef> out;
  for (const auto& ref : of(region))
    if (ref.about->rank == rank) out.push_back(ref);
  return out;
}

const std::map<int, const format::LeftOut*>& SavedRegions::left_out(const std::string& region) const {
  static const std::map<int, const format::LeftOut*> none;
  const auto it = left_out_.find(region);
  return it == left_out_.end() ? none : it->second;
}

const format::LeftOut* SavedRegions::left_out(const std::string& region, int rank) const {
  const auto& all = left_out(region);
  const auto entry = all.find(rank);
  return entry == all.end() ? nullptr : entry->second;
}

namespace {
/// How long a region is to be that all ranks left out, and that can have any length: as if it had been saved. Nothing:
/// as long as it is.
Result<std::optional<Extents>> shape_of_left_out(const RegionSpec& spec,
                                                 const std::map<int, const format::LeftOut*>& entries, int saved_ranks,
                                                 int rank, int size) {
  if (!spec.reshape || spec.placement.kind == Placement::Kind::block) return std::optional<Extents>();
  Extents shape = entries.begin()->second->shape;
  bool are_alike = true;
  std::int64_t total = 0;
  for (const auto& [number, entry] : entries) {
    are_alike = are_alike && entry->shape == shape;
    total += entry->shape.empty() ? 0 : entry->shape[0];
  }
  if (spec.placement.kind == Placement::Kind::distributed_list && !shape.empty())
    shape[0] = first_of(total, rank + 1, size) - first_of(total, rank, size);
  else if (spec.placement.kind != Placement::Kind::replicated || !are_alike)
    return mismatch(spec.name, cat("is private to a rank, was left out by ", counted(saved_ranks, "rank"),
                                   " as it was to be overwritten, and this job has ", size,
                                   ": nobody knows how long it is to be; run on ", counted(saved_ranks, "rank"),
                                   ", or give it a placement (block, distributed_list, replicated)"));
  return std::optional(std::move(shape));
}

/// Of what some ranks left out, or saved in parts.
Result<RegionPlan> plan_left_out(const RegionSpec& spec, const SavedRegions& saved, int saved_ranks, int rank,
                                 int size) {
  if (saved_ranks == size)
    if (auto own = plan_own(spec, saved, rank)) return std::move(*own);
  if (spec.save)
    return mismatch(spec.name,
                    "was left out of the line, as a declared computation overwrites it, and is protected by "
                    "callbacks now: protect it as then");
  const auto& refs = saved.of(spec.name);
  const auto& entries = saved.left_out(spec.name);
  const bool some = std::any_of(refs.begin(), refs.end(), [](const auto& ref) { return ref.about->bytes > 0; });
  const bool placed = std::all_of(entries.begin(), entries.end(), [&](const auto& e) {
    return e.second->lower && e.second->lower->size() == spec.placement.lower.size();
  });
  const auto is_made = [](const auto& e) { return e.second->made.has_value(); };
  const bool is_mixed = std::ranges::any_of(entries, is_made) && !std::ranges::all_of(entries, is_made);
  if ((some || is_mixed) && placed && spec.placement.kind == Placement::Kind::block) return plan_block(spec, saved);
  if (some)
    return mismatch(spec.name,
                    cat("was left out in part (by ", counted(saved_ranks, "rank"), "), so that it comes back ",
                        "only on as many ranks, where each has the same part of it"));
  RegionPlan plan;
  plan.left_out = true;
  const auto memory = region::look_at(spec);
  if (!memory) return memory.failure();
  plan.shape = memory->shape;
  if (std::ranges::all_of(entries, is_made)) {
    plan.as_made = entries.begin()->second;
    return plan;
  }
  auto shape = shape_of_left_out(spec, entries, saved_ranks, rank, size);
  if (!shape) return shape.failure();
  if (*shape) plan.shape = std::move(**shape);
  return plan;
}

bool was_saved_in_parts(const std::vector<SegmentRef>& refs) {
  return std::any_of(refs.begin(), refs.end(), [](const auto& ref) { return ref.about->part.has_value(); });
}
}  // namespace

Result<RegionPlan> plan_region(const RegionSpec& spec, const SavedRegions& saved, int saved_ranks, int rank, int size) {
  const auto& refs = saved.of(spec.name);
  if (!saved.left_out(spec.name).empty() || was_saved_in_parts(refs))
    return plan_left_out(spec, saved, saved_ranks, rank, size);
  if (refs.size() != static_cast<std::size_t>(saved_ranks))
    return mismatch(spec.name, cat("was saved by ", refs.size(), " of ", saved_ranks, " ranks"));
  BACKSTAY_TRY(check_kind(spec, *refs[0].about));
  if (spec.placement.kind == Placement::Kind::block) return plan_block(spec, saved);
  if (saved_ranks == size) {
    const auto& mine = refs[static_cast<std::size_t>(rank)];
    BACKSTAY_TRY(check_kind(spec, *mine.about));
    return take_whole(mine);
  }
  if (spec.placement.kind == Placement::Kind::distributed_list) return plan_list(spec, refs, rank, size);
  if (spec.placement.kind == Placement::Kind::rank_private) return plan_private(spec, refs, saved_ranks, size);
  for (const auto& ref : refs)
    if (ref.about->crc != refs[0].about->crc || ref.about->shape != refs[0].about->shape)
      return mismatch(spec.name, cat("is replicated (as every scalar without a placement), but rank ", ref.about->rank,
                                     " saved another value than rank 0, so that it cannot come back on ",
                                     counted(size, "rank"), " instead of ", saved_ranks));
  return take_whole(refs[static_cast<std::size_t>(rank % saved_ranks)]);
}

std::optional<RegionPlan> plan_own(const RegionSpec& spec, const SavedRegions& saved, int rank) {
  if (const auto* entry = saved.left_out(spec.name, rank); entry != nullptr && !spec.save) {
    RegionPlan plan;
    plan.shape = entry->shape;
    if (spec.placement.kind == Placement::Kind::block) {
      const auto memory = region::look_at(spec);
      if (!memory || (entry->lower && block_of(*entry) != Box{spec.placement.lower, spec.placement.upper})) return {};
      plan.shape = memory->shape;
    }
    plan.left_out = plan.is_own = true;
    plan.as_made = entry->made ? entry : nullptr;
    return plan;
  }
  const auto mine = saved.of(spec.name, rank);
  if (mine.empty() || (spec.save && was_saved_in_parts(mine))) return {};
  const auto& first = *mine.front().about;
  for (const auto& ref : mine)
    if (!check_kind(spec, *ref.about) || !(spec.placement == ref.about->placement) ||
        ref.about->part.has_value() != first.part.has_value() || (first.part && ref.about->part->of != first.part->of))
      return {};
  return first.part ? take_parts(mine) : take_whole(mine.front());
}

Result<void> check_all_taken(const std::string& region, const SavedRegions& saved, const std::vector<Box>& held,
                             int rank, int size) {
  const auto& refs = saved.of(region);
  for (auto i = static_cast<std::size_t>(rank); i < refs.size(); i += static_cast<std::size_t>(size)) {
    const SegmentRef& ref = refs[i];
    std::vector<Box> left{global_box(*ref.about)};
    if (region::is_empty(left.front())) continue;
    for (const Box& box : held) {
      if (left.empty()) break;
      left = without(left, box);
    }
    if (!left.empty())
      return mismatch(
          region, cat("was saved by rank ", ref.about->rank, " from ", region::describe_shape(left.front().lower),
                      " up to ", region::describe_shape(left.front().upper), " too, which is in no block of this job ",
                      "and would be lost: give its ranks blocks that cover all that was saved, or set the ",
                      "option regions=lenient to leave it out"));
  }
  return {};
}

namespace {
/// `which`: what the others are.
std::string hint(const char* which, const std::string& name, const std::vector<std::string>& others) {
  return others.empty() ? std::string() : cat(" (the nearest ", which, " is '", nearest(name, others), "')");
}
}  // namespace

Result<void> check_names(const region::RegionSet& regions, const SavedRegions& saved, bool statics,
                         const region::RegionSet* others) {
  const auto names = saved.names();
  std::vector<std::string> protected_names;
  for (const auto& spec : regions.specs()) protected_names.push_back(spec.name);
  const bool has_way = std::ranges::find(names, format::replay_region) != names.end();
  if (!statics && has_way != (regions.find(format::replay_region) != nullptr))
    return fail(Code::mismatch, "it was saved by a program that ",
                has_way ? "called replay()" : "did not call replay()", ", and this one ", has_way ? "does not" : "does",
                ": ", has_way ? "call it" : "call resume()", " as then, or start in another directory");
  for (const auto& name : protected_names)
    if (saved.of(name).empty() && saved.left_out(name).empty())
      return fail(Code::mismatch, "region '", name, "' is protected ",
                  statics ? "as static, and is not among the static regions of the line" : "but is not in the line",
                  hint("there", name, names), ": ", statics ? "protect it as then, or rename" : "rename",
                  " it, or set the option regions=lenient to keep the program's own value");
  for (const auto& name : names) {
    if (others != nullptr && others->find(name) != nullptr)
      return fail(Code::mismatch, "region '", name, "' is ", statics ? "static" : "not static", " in the line, and is ",
                  statics ? "not" : "static", " in this program: protect it as then");
    if (regions.find(name) == nullptr)
      return fail(Code::mismatch, "region '", name, "' is in the line but is not protected",
                  hint("protected one", name, protected_names),
                  ": protect it, or set the option regions=lenient to leave it out");
  }
  return {};
}

}  // namespace backstay::engine
