#include "check/access_check.h"

#include <unistd.h>

#include <algorithm>

#include "check/fences.h"

namespace backstay::check {

namespace {
constexpr std::size_t bytes_of_no_chance = 8;  ///< so many do not hold a pattern by chance
}  // namespace

// -------------------------------------------------------------------------------------------------

Result<std::unique_ptr<AccessCheck>> AccessCheck::make() {
#if defined(__x86_64__) && defined(__linux__)
  if (Fences::present != nullptr)
    return fail(Code::invalid_argument, "another session of this process checks accesses: one at a time can");
  if (sysconf(_SC_PAGESIZE) == static_cast<long>(page_size))
    return std::unique_ptr<AccessCheck>(new AccessCheck(std::make_unique<Fences>()));
#endif
  return fail(Code::invalid_argument, "accesses can be checked on x86-64 with Linux only: leave out check_access");
}

AccessCheck::AccessCheck(std::unique_ptr<Fences> fences) : fences_(std::move(fences)) {}
AccessCheck::~AccessCheck() { give_up(); }

void AccessCheck::begin(int number, const std::vector<Layout>& regions, const select::Effects& effects) {
  give_up();
  number_ = number;
  ++runs_;
  auto& guarded = fences_->regions();
  guarded.reserve(regions.size());
  for (const auto& layout : regions) guarded.emplace_back(layout, fences_->memory());
  for (const auto& effect : effects) guarded[effect.region].allow(effect);
  for (auto& region : guarded) {
    region.keep_edges();
    region.poison(runs_ * 0x2545f4914f6cdd1dULL);
  }
  fences_->close_all();
}

std::vector<Finding> AccessCheck::end() {
  auto findings = fences_->open_all();
  for (std::size_t r = 0; r < fences_->regions().size(); ++r)
    for (auto& finding : {look_for_skipped(r), look_at_edges(r)})
      if (finding.elements > 0) findings.push_back(finding);
  fences_->clear();
  return findings;
}

namespace {
/// One more element of it.
void add(Finding& finding, const Layout& layout, const Index& index) {
  if (finding.elements++ == 0)
    finding.index.assign(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(layout.dimensions()));
}
}  // namespace

/// What was changed in pages that cannot be closed.
Finding AccessCheck::look_at_edges(std::size_t number) {
  const Guarded& region = fences_->regions()[number];
  Finding changed{number, Fault::writes, {}, 0, 0};
  region.for_each_changed_at_edges([&](const Index& index) { add(changed, region.layout(), index); });
  return changed;
}

/// What still holds the pattern; it gets back what it held.
Finding AccessCheck::look_for_skipped(std::size_t number) {
  const Guarded& region = fences_->regions()[number];
  const auto& layout = region.layout();
  Finding skipped{number, Fault::skips, {}, 0, 0};
  if (!region.is_poisoned()) return skipped;
  std::map<std::int64_t, std::size_t> suspects;
  auto& before = suspects_[{number_, number}];
  region.for_each_first_written([&](std::byte* element, const Index& index) {
    if (!region.holds_pattern(element)) return;
    region.restore(element);
    if (layout.element() < bytes_of_no_chance) {
      const auto known = before.find(element - layout.begin());
      const auto times = 1 + (known == before.end() ? 0 : known->second);
      suspects.emplace(element - layout.begin(), times);
      if (times * layout.element() < bytes_of_no_chance) return;
    }
    add(skipped, layout, index);
  });
  before = std::move(suspects);
  return skipped;
}

void AccessCheck::give_up() {
  (void)fences_->open_all();
  for (const auto& region : fences_->regions())
    if (region.is_poisoned())
      region.for_each_first_written([&](std::byte* element, const Index&) {
        if (region.holds_pattern(element)) region.restore(element);
      });
  fences_->clear();
}

}  // namespace backstay::check
