#include "engine/aside.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/text.h"
#include "region/pack.h"

namespace backstay::engine {

Aside::Aside(const region::RegionSet& regions) {
  for (const auto& spec : regions.specs())
    (void)regions_.add(like(spec, kept_.emplace_back())).ok();  // as it was there
}

/// A region of dense memory; of one that callbacks save, what they would be given.
RegionSpec Aside::like(const RegionSpec& spec, Kept& kept) {
  kept.name = spec.name;
  RegionSpec out;
  out.name = spec.name;
  out.type = spec.type;
  out.placement = spec.placement;
  if (spec.save) {
    out.save = [] { return std::string(); };
    const auto take = [&kept](const std::vector<ByteView>& all, int rank, int size) {
      kept.bytes.clear();
      kept.of_others.clear();
      for (const auto& bytes : all) kept.of_others.emplace_back(bytes.begin(), bytes.end());
      kept.rank = rank;
      kept.size = size;
      kept.is_read = true;
    };
    if (spec.redistribute) out.redistribute = take;
    if (spec.load)
      out.load = [&kept](ByteView bytes) {
        kept.of_others.clear();
        kept.bytes.assign(bytes.begin(), bytes.end());
        kept.is_read = true;
      };
    return out;
  }
  const View now = spec.view();
  const auto hold = [&kept, element = spec.type.size, in_runs = !now.run_lengths.empty()](const Extents& shape) {
    kept.shape = shape;
    View view = detail::dense_view(nullptr, shape, element);
    if (in_runs) view.run_lengths = shape;  // one, so that it is taken for what it is
    const auto size = region::packed_size(view, element);
    if (size > kept.room || kept.memory == nullptr) {
      kept.memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size));
      kept.room = size;
    }
    view.data = kept.memory.get();
    return view;
  };
  (void)hold(now.shape);
  out.view = [hold, &kept] { return hold(kept.shape); };
  if (spec.reshape) out.reshape = hold;
  return out;
}

void Aside::keep_only(const std::vector<std::string>& names) { regions_.keep_only(names); }

Result<void> Aside::put_back(const region::RegionSet& regions) const {
  for (const auto& kept : kept_) {
    const auto* spec = regions.find(kept.name);
    if (spec != nullptr && regions_.find(kept.name) != nullptr) BACKSTAY_TRY(put_back(*spec, kept));
  }
  return {};
}

Result<bool> Aside::put_back_now(const std::string& name, const region::RegionSet& regions) {
  const auto kept = std::ranges::find(kept_, name, &Kept::name);
  const auto* spec = regions.find(name);
  if (kept == kept_.end() || spec == nullptr || !regions_.remove(name)) return false;
  BACKSTAY_TRY(put_back(*spec, *kept));
  return true;
}

Result<void> Aside::put_back(const RegionSpec& spec, const Kept& kept) const {
  if (spec.save) return load(spec, kept);
  const auto in_parts = std::ranges::find(left_out, kept.name, &NotThere::region);
  if (in_parts != left_out.end() && in_parts->there.empty() && region::stays_as_it_is(spec, kept.shape)) return {};
  const auto memory =
      in_parts == left_out.end() ? region::memory_for(spec, kept.shape) : region::memory_for_a_part(spec, kept.shape);
  if (!memory) return memory.failure();
  const ByteView bytes(kept.memory.get(), static_cast<std::size_t>(region::packed_size(*memory, spec.type.size)));
  if (in_parts == left_out.end()) {
    (void)region::put_back(bytes, *memory, spec.type.size);
    return region::hand_over(spec);
  }
  const region::Box all{Extents(kept.shape.size(), 0), kept.shape};
  for (const auto& part : in_parts->there) region::copy_part(bytes, all, *memory, all, part, spec.type.size);
  return region::hand_over(spec);
}

Result<void> Aside::load(const RegionSpec& spec, const Kept& kept) {
  if (!kept.is_read) return {};
  const bool by_one = kept.of_others.empty() && spec.load;
  const std::vector<ByteView> saved =
      by_one ? std::vector<ByteView>{kept.bytes} : std::vector<ByteView>(kept.of_others.begin(), kept.of_others.end());
  return region::load(spec, saved, by_one, kept.rank, kept.size);
}

}  // namespace backstay::engine
