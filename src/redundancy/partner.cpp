#include "redundancy/partner.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace backstay::redundancy {

namespace {
constexpr std::size_t message = std::size_t{4} << 20;
constexpr int size_tag = 1;
constexpr int bytes_tag = 2;

/// The image as pieces of at most one message, so that sending and writing take turns.
std::vector<FileImage::Piece> messages_of(const FileImage& image) {
  std::vector<FileImage::Piece> out;
  for (const auto& piece : image.pieces)
    for (std::size_t at = 0; at < piece.bytes.size(); at += message)
      out.push_back({piece.offset + at, piece.bytes.subspan(at, std::min(message, piece.bytes.size() - at))});
  return out;
}

/// Offsets and lengths of all messages, sent ahead so that the receiver knows where each goes.
Bytes outline_of(const std::vector<FileImage::Piece>& messages) {
  std::vector<std::uint64_t> numbers;
  for (const auto& m : messages) numbers.insert(numbers.end(), {m.offset, m.bytes.size()});
  const auto* raw = reinterpret_cast<const std::byte*>(numbers.data());
  return {raw, raw + numbers.size() * sizeof(std::uint64_t)};
}

struct Incoming {
  std::vector<std::uint64_t> outline;  // offset, length, offset, length, ...
  std::unique_ptr<store::File> file;
  Result<void> written;
};

Result<Incoming> open_incoming(comm::Comm& comm, const Round& round, ByteView my_outline, store::Store& store,
                               const std::string& path) {
  Incoming in;
  std::uint64_t my_bytes = my_outline.size();
  std::uint64_t their_bytes = 0;
  const ByteView mine = round.to < 0 ? ByteView{} : std::as_bytes(std::span(&my_bytes, 1));
  const MutableByteView theirs =
      round.from < 0 ? MutableByteView{} : std::as_writable_bytes(std::span(&their_bytes, 1));
  BACKSTAY_TRY(comm.exchange(round.to, mine, round.from, theirs, size_tag));
  in.outline.resize(their_bytes / sizeof(std::uint64_t));
  BACKSTAY_TRY(comm.exchange(round.to, round.to < 0 ? ByteView{} : my_outline, round.from,
                             std::as_writable_bytes(std::span(in.outline)), size_tag));
  if (round.from < 0) return in;
  auto file = store.open_to_write(path);
  if (file)
    in.file = std::move(*file);
  else
    in.written = file.failure();
  return in;
}

void write_incoming(Incoming& in, std::size_t index, ByteView bytes) {
  if (in.written && in.file) in.written = in.file->write_at(in.outline[2 * index], bytes);
}

Result<void> close_incoming(Incoming& in) {
  if (!in.written || !in.file) return in.written;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i + 1 < in.outline.size(); i += 2) size = std::max(size, in.outline[i] + in.outline[i + 1]);
  BACKSTAY_TRY(in.file->resize(size));
  return in.file->sync();
}
}  // namespace

Result<PartnerPlan> plan_partners(const std::vector<int>& nodes, int distance) {
  std::map<int, std::vector<int>> members;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) members[nodes[rank]].push_back(static_cast<int>(rank));
  const int count = static_cast<int>(members.size());
  if (count < 2)
    return fail(Code::invalid_argument,
                "the level partner needs at least two nodes and this job has one: use the level local, ",
                "or `backstay run --nodes K` to try it on one machine");
  if (distance <= 0 || distance % count == 0)
    return fail(Code::invalid_argument, "partner.distance is ", distance, ", which is the same node again (there are ",
                count, "): choose 1 to ", count - 1);
  PartnerPlan plan;
  plan.holder.resize(nodes.size());
  for (auto it = members.begin(); it != members.end(); ++it) {
    const auto place = static_cast<int>(std::distance(members.begin(), it));
    const auto& target = std::next(members.begin(), (place + distance) % count)->second;
    for (std::size_t k = 0; k < it->second.size(); ++k)
      plan.holder[static_cast<std::size_t>(it->second[k])] = target[k % target.size()];
  }
  // A rank that keeps several copies takes them in as many rounds.
  std::vector<std::size_t> taken(nodes.size(), 0);
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto holder = static_cast<std::size_t>(plan.holder[rank]);
    const std::size_t round = taken[holder]++;
    if (plan.rounds.size() <= round) plan.rounds.emplace_back(nodes.size());
    plan.rounds[round][rank].to = static_cast<int>(holder);
    plan.rounds[round][holder].from = static_cast<int>(rank);
  }
  return plan;
}

Result<void> exchange_copies(comm::Comm& comm, const PartnerPlan& plan, const FileImage& mine, store::Store& store,
                             const std::string& dir) {
  const auto messages = messages_of(mine);
  const Bytes outline = outline_of(messages);
  Result<void> outcome;
  struct Held {
    Bytes buffer;
    comm::Keep image;
  };
  const auto held = std::make_shared<Held>(Held{Bytes(message), mine.keep});
  Bytes& buffer = held->buffer;
  for (const auto& round_of : plan.rounds) {
    const Round& round = round_of[static_cast<std::size_t>(comm.rank())];
    const std::string path =
        cat(dir, "/copy-rank-", padded(static_cast<std::uint64_t>(std::max(round.from, 0)), 5), ".h5");
    auto in = open_incoming(comm, round, outline, store, path);
    if (!in) return in.failure();
    const std::size_t out_count = round.to < 0 ? 0 : messages.size();
    const std::size_t in_count = in->outline.size() / 2;
    for (std::size_t i = 0; i < std::max(out_count, in_count); ++i) {
      const bool sends = i < out_count, takes = i < in_count;
      const MutableByteView target = takes ? MutableByteView(buffer).first(in->outline[2 * i + 1]) : MutableByteView{};
      BACKSTAY_TRY(comm.exchange(round.to, sends ? messages[i].bytes : ByteView{}, round.from, target, bytes_tag,
                                 mine.keep ? held : comm::Keep{}));
      if (takes) write_incoming(*in, i, target);
    }
    if (auto closed = close_incoming(*in); !closed) outcome = closed;
  }
  return outcome;
}

}  // namespace backstay::redundancy
