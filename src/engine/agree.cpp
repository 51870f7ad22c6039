#include "engine/agree.h"

#include "base/text.h"

namespace backstay::engine {

namespace {
/// "CODE sentence"; empty for success.
std::string packed(const Result<void>& result) {
  return result ? std::string() : cat(static_cast<int>(result.failure().code), ' ', result.failure().what);
}

Failure unpacked(std::string_view text, int rank, int size) {
  const auto space = text.find(' ');
  const auto code = parse_decimal(text.substr(0, space));
  const std::string who = size > 1 ? cat("rank ", rank, ": ") : std::string();
  return {static_cast<Code>(code.value_or(static_cast<int>(Code::internal))), cat(who, text.substr(space + 1))};
}
}  // namespace

Result<void> agree(comm::Comm& comm, const Result<void>& mine) {
  const auto failed = comm.all_max({mine ? 0 : 1});
  if (!failed) return failed.failure();
  if ((*failed)[0] == 0) return {};
  const std::string text = packed(mine);
  const auto all = comm.all_gather(as_bytes(text));
  if (!all) return all.failure();
  for (std::size_t rank = 0; rank < all->size(); ++rank)
    if (!(*all)[rank].empty()) return unpacked(as_text((*all)[rank]), static_cast<int>(rank), comm.size());
  return fail(Code::internal, "a rank reported a failure without a sentence");
}

}  // namespace backstay::engine
