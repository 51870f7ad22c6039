#include "api/found_arrays.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"

namespace backstay::api {

namespace {
/// The largest ones: every use of memory is looked up among them.
constexpr std::size_t most_arrays = 256;

bool is_in(const check::Ranges& regions, const check::Allocation& one) {
  return !check::common(regions, {{one.data, one.data + one.bytes}}).empty();
}

void add(FoundArrays::Sum& sum, std::size_t bytes) {
  ++sum.arrays;
  sum.bytes += bytes;
}
}  // namespace

std::string text_of(const std::vector<check::CodePlace>& callers) {
  std::string out;
  for (const auto& place : callers) {
    const auto digits = hex16(place.offset);
    out += cat(out.empty() ? "" : "\n", place.program, "+0x",
               digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1)));
  }
  return out;
}

void FoundArrays::look(const std::vector<check::Allocation>& there, const check::Ranges& regions) {
  if (!has_looked_) return look_first(there, regions);
  for (auto& array : arrays_) {
    const auto found = std::ranges::find(there, array.number, &check::Allocation::number);
    if (!array.why.empty()) continue;
    if (found == there.end())
      array.why = "it was freed, or moved, between two steps";
    else if (is_in(regions, *found))
      array.why = "it was protected later";
  }
  count_late(there, regions);
}

void FoundArrays::look_first(const std::vector<check::Allocation>& there, const check::Ranges& regions) {
  has_looked_ = true;
  for (const auto& one : there) {
    newest_ = std::max(newest_, one.number);
    if (is_in(regions, one)) continue;
    const auto maker = check::maker_of(one, libraries_);
    if (maker.is_program)
      arrays_.push_back({one.number, one.data, one.bytes, text_of(maker.callers), ""});
    else
      add(left_out_[maker.name], one.bytes);
  }
  std::ranges::sort(arrays_, [](const Array& a, const Array& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.number < b.number;
  });
  for (std::size_t i = most_arrays; i < arrays_.size(); ++i)
    arrays_[i].why = cat("there are ", most_arrays, " larger ones");
}

void FoundArrays::count_late(const std::vector<check::Allocation>& there, const check::Ranges& regions) {
  std::map<std::string, Sum> now;
  for (const auto& one : there) {
    if (one.number <= newest_ || is_in(regions, one)) continue;
    const auto [known, is_new] = late_callers_.try_emplace(one.number);
    if (is_new) {
      const auto maker = check::maker_of(one, libraries_);
      known->second = maker.is_program ? text_of(maker.callers) : "";
    }
    if (!known->second.empty()) add(now[known->second], one.bytes);
  }
  for (const auto& [callers, sum] : now) {
    auto& most = late_[callers];
    if (sum.bytes > most.bytes) most = sum;
  }
}

void FoundArrays::drop(std::size_t array, std::string why) {
  if (arrays_[array].why.empty()) arrays_[array].why = std::move(why);
}

}  // namespace backstay::api
