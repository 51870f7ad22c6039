#include "engine/agree.h"

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "base/wire.h"

namespace backstay::engine {

namespace {
/// "CODE sentence".
std::string packed(const Failure& failure) { return cat(static_cast<int>(failure.code), ' ', failure.what); }

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
  const std::string text = mine ? std::string() : packed(mine.failure());
  const auto all = comm.all_gather(as_bytes(text));
  if (!all) return all.failure();
  for (std::size_t rank = 0; rank < all->size(); ++rank)
    if (!(*all)[rank].empty()) return unpacked(as_text((*all)[rank]), static_cast<int>(rank), comm.size());
  return fail(Code::internal, "a rank reported a failure without a sentence");
}

Result<std::vector<Bytes>> gather(comm::Comm& comm, const Result<Bytes>& mine) {
  WireWriter message;
  message.text(mine ? std::string() : packed(mine.failure()));
  message.bytes(mine ? *mine : Bytes{});
  const auto all = comm.all_gather(message.message());
  if (!all) return all.failure();
  std::vector<Bytes> out;
  for (const auto& one : *all) {
    WireReader in(one);
    const std::string trouble = in.text();
    const ByteView bytes = in.bytes();
    if (!trouble.empty()) return unpacked(trouble, static_cast<int>(out.size()), comm.size());
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

void end_where_others_wait(const char* doing, const std::exception& why) {
  std::fprintf(stderr, "backstay: %s has no way on (%s): this process ends; earlier lines are whole\n", doing,
               why.what());
  std::fflush(stderr);
  std::abort();
}

}  // namespace backstay::engine
