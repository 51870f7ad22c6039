#include "select/declared.h"

#include <algorithm>

#include "base/text.h"

namespace backstay::select {

namespace {
bool same(const NamedAccess& a, const NamedAccess& b) {
  return a.region == b.region && a.how.mode == b.how.mode && a.how.range == b.how.range &&
         a.how.stencil == b.how.stencil;
}

const char* word_of(Mode mode) {
  static constexpr const char* words[] = {"reads", "writes", "updates", "writes some of"};
  return words[static_cast<int>(mode)];
}
}  // namespace

Result<std::size_t> Declared::declare(const std::string& name, std::vector<NamedAccess> accesses) {
  if (name.empty()) return fail(Code::invalid_argument, "a computation needs a name");
  if (accesses.empty())
    return fail(Code::invalid_argument, "computation '", name, "' has no accesses: declare what it reads and writes");
  const auto known = std::ranges::find(computations_, name, &Named::name);
  if (known == computations_.end()) {
    computations_.push_back({name, std::move(accesses)});
    ++changes_;
    return computations_.size() - 1;
  }
  if (!std::ranges::equal(known->accesses, accesses, same))
    return fail(Code::invalid_argument, "computation '", name,
                "' was declared before with other accesses: give this one another name");
  return static_cast<std::size_t>(known - computations_.begin());
}

void Declared::keep_first(std::size_t computations) {
  if (computations >= size()) return;
  computations_.resize(computations);
  ++changes_;
}

Result<Computation> Declared::resolve(const Named& named, const std::vector<Region>& regions) {
  Computation resolved{named.name, {}};
  for (const auto& access : named.accesses) {
    const auto region = std::ranges::find(regions, access.region, &Region::name);
    if (region == regions.end())
      return fail(Code::not_found, "computation '", named.name, "' uses a region '", access.region,
                  "' that is not protected: protect it first, or leave it out of the declaration");
    resolved.accesses.push_back(access.how);
    resolved.accesses.back().region = static_cast<std::size_t>(region - regions.begin());
  }
  return resolved;
}

Result<std::vector<Computation>> Declared::resolve(const std::vector<Region>& regions) const {
  std::vector<Computation> out;
  for (const auto& named : computations_) {
    auto resolved = resolve(named, regions);
    if (!resolved) return resolved.failure();
    out.push_back(std::move(*resolved));
  }
  return out;
}

Result<Effects> Declared::effects_on(std::size_t computation, const std::vector<Region>& regions) const {
  const auto resolved = resolve(computations_[computation], regions);
  if (!resolved) return resolved.failure();
  return effects_of(*resolved, regions);
}

std::vector<std::string> Declared::regions_of(std::size_t computation) const {
  std::vector<std::string> out;
  for (const auto& access : computations_[computation].accesses) out.push_back(access.region);
  return out;
}

bool Declared::changes(const std::string& region) const {
  return std::ranges::any_of(computations_, [&](const Named& named) {
    return std::ranges::any_of(named.accesses, [&](const NamedAccess& access) {
      return access.region == region && access.how.mode != Mode::read;
    });
  });
}

std::vector<std::string> Declared::changed_by(std::size_t computation) const {
  std::vector<std::string> out;
  for (const auto& access : computations_[computation].accesses)
    if (access.how.mode != Mode::read) out.push_back(access.region);
  return out;
}

bool Declared::uses(std::size_t computation, const std::string& region) const {
  const auto& accesses = computations_[computation].accesses;
  return std::ranges::find(accesses, region, &NamedAccess::region) != accesses.end();
}

bool Declared::reads(std::size_t computation, const std::string& region) const {
  return std::ranges::any_of(computations_[computation].accesses, [&](const NamedAccess& access) {
    return access.region == region && access.how.mode != Mode::write;
  });
}

bool Declared::names(const std::string& region) const {
  for (std::size_t i = 0; i < size(); ++i)
    if (uses(i, region)) return true;
  return false;
}

std::string Declared::signature_of(std::size_t computation) const {
  const Named& named = computations_[computation];
  std::string line = cat("the computation '", named.name, "'");
  for (const auto& access : named.accesses)
    line += cat(&access == named.accesses.data() ? " that " : ", ", word_of(access.how.mode), " ", access.region);
  return line;
}

std::string Declared::said_of(std::size_t computation, const std::string& region) const {
  std::string out;
  for (const auto& access : computations_[computation].accesses)
    if (access.region == region)
      out += cat(out.empty() ? "" : ", ", word_of(access.how.mode), " ", region, access.how.range ? " in a range" : "");
  return out;
}

std::vector<std::string> Declared::signature() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < size(); ++i) out.push_back(signature_of(i));
  return out;
}

}  // namespace backstay::select
