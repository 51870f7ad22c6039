#include "redundancy/parity_exchange.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

namespace backstay::redundancy {

namespace {
constexpr int gather_tag = 4;
constexpr int spread_tag = 5;
constexpr std::uint64_t memory = std::uint64_t{8} << 20;
constexpr std::uint64_t smallest_piece = std::uint64_t{64} << 10;
constexpr std::uint64_t largest_piece = std::uint64_t{1} << 20;

/// At least one.
std::uint64_t whole_pages(std::uint64_t bytes) { return std::max<std::uint64_t>(bytes / 4096, 1) * 4096; }

/// Pieces are alike on all ranks, so that messages meet.
std::uint64_t most_members_of_a_rank(const ParityGroup& group) {
  std::map<int, std::uint64_t> members;
  std::uint64_t most = 0;
  for (const int rank : group.members) most = std::max(most, ++members[rank]);
  return most;
}

bool contains(const std::vector<int>& members, int member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

std::vector<int> all_but(int n, const std::vector<int>& left_out) {
  std::vector<int> rest;
  for (int m = 0; m < n; ++m)
    if (!contains(left_out, m)) rest.push_back(m);
  return rest;
}

/// One wave on this rank, which may act for several members.
class WaveExchange {
 public:
  WaveExchange(comm::Comm& comm, const ParityGroup& group, const Stripes& stripes, const ErasureCode& code,
               const Wave& wave, const ShardAccess& access, std::uint64_t piece)
      : comm_(comm), group_(group), stripes_(stripes), wave_(wave), access_(access), piece_(piece) {
    for (const auto& work : wave_.works) maps_.push_back(is_mine(work.worker) ? map_of(code, work) : std::nullopt);
    for (auto& slot : slots_) slot = make_slot();
  }

  Result<void> run(std::uint64_t chunk) {
    const std::uint64_t round = piece_ * static_cast<std::uint64_t>(wave_.turns);
    const std::uint64_t rounds = (chunk + round - 1) / round;
    for (std::uint64_t i = 0; i <= rounds; ++i) {
      if (i < rounds) BACKSTAY_TRY(start_gathering(i * round, chunk, slots_[i % 2]));
      if (i > 0) BACKSTAY_TRY(make_and_spread(slots_[(i - 1) % 2]));
      if (i < rounds) BACKSTAY_TRY(comm::finish(gathering_));
    }
    return outcome_;
  }

 private:
  /// What a piece of one work takes on this rank.
  struct Shards {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;              // 0: the chunk has ended before
    std::vector<Scratch> rooms;         // by input: gathered, or read to be sent
    std::vector<ByteView> inputs;       // the worker's, wherever they lie
    std::vector<Scratch> made_in;       // by output: made here, or given to this rank
    std::vector<MutableByteView> made;  // in there
  };
  /// A piece on its way. MPI may hold on to it after a failure, so it is shared.
  struct Slot {
    std::vector<Shards> works;
    comm::Keep keep;
  };

  [[nodiscard]] int rank(int member) const { return group_.members[static_cast<std::size_t>(member)]; }
  [[nodiscard]] bool is_mine(int member) const { return rank(member) == comm_.rank(); }

  std::optional<ShardMap> map_of(const ErasureCode& code, const StripeWork& work) const {
    std::vector<int> from, to;
    for (const int m : work.inputs) from.push_back(stripes_.shard(work.stripe, m));
    for (const int m : work.outputs) to.push_back(stripes_.shard(work.stripe, m));
    return code.map(from, to);
  }

  std::shared_ptr<Slot> make_slot() const {
    auto slot = std::make_shared<Slot>();
    for (const auto& work : wave_.works) {
      Shards& shards = slot->works.emplace_back();
      shards.rooms.resize(work.inputs.size());
      shards.inputs.resize(work.inputs.size());
      shards.made_in.resize(work.outputs.size());
      shards.made.resize(work.outputs.size());
    }
    slot->keep = access_.keep;
    return slot;
  }

  void keep_failure(const Result<void>& result) {
    if (outcome_ && !result) outcome_ = result;
  }

  /// A member's bytes of a stripe, in `room` or where they lie.
  ByteView read(int stripe, int member, const Shards& shards, Scratch& room) {
    auto bytes = access_.read(part_of(stripe, member, shards), room);
    if (bytes) return *bytes;
    keep_failure(bytes.failure());
    return room.of(shards.bytes);
  }

  void write(int stripe, int member, const Shards& shards, ByteView bytes) {
    keep_failure(access_.write(part_of(stripe, member, shards), bytes));
  }

  [[nodiscard]] ShardPart part_of(int stripe, int member, const Shards& shards) const {
    return {member, stripes_.shard(stripe, member), shards.offset, shards.bytes};
  }

  Result<void> start(std::vector<std::unique_ptr<comm::Pending>>& under_way, int to, ByteView out, int from,
                     MutableByteView in, int tag, const std::shared_ptr<Slot>& slot) {
    auto started = comm_.start_exchange(to, out, from, in, tag, slot);
    if (!started) return started.failure();
    under_way.push_back(std::move(*started));
    return {};
  }

  /// A round of pieces, the first of which begins at `offset`. All ranks go through works and members in one order, so
  /// that messages meet.
  Result<void> start_gathering(std::uint64_t offset, std::uint64_t chunk, const std::shared_ptr<Slot>& slot) {
    gathering_.clear();
    for (std::size_t w = 0; w < wave_.works.size(); ++w) {
      Shards& shards = slot->works[w];
      shards.offset = offset + piece_ * static_cast<std::uint64_t>(wave_.works[w].turn);
      shards.bytes = shards.offset < chunk ? static_cast<std::size_t>(std::min(piece_, chunk - shards.offset)) : 0;
      if (shards.bytes > 0) BACKSTAY_TRY(give_or_gather(wave_.works[w], shards, slot));
    }
    return {};
  }

  Result<void> give_or_gather(const StripeWork& work, Shards& shards, const std::shared_ptr<Slot>& slot) {
    for (std::size_t i = 0; i < work.inputs.size(); ++i) {
      const int member = work.inputs[i];
      Scratch& room = shards.rooms[i];
      if (is_mine(member)) {
        const ByteView mine = read(work.stripe, member, shards, room);
        if (is_mine(work.worker))
          shards.inputs[i] = mine;
        else
          BACKSTAY_TRY(start(gathering_, rank(work.worker), mine, 0, {}, gather_tag, slot));
      } else if (is_mine(work.worker)) {
        const MutableByteView gathered = room.of(shards.bytes);
        shards.inputs[i] = gathered;
        BACKSTAY_TRY(start(gathering_, 0, {}, rank(member), gathered, gather_tag, slot));
      }
    }
    return {};
  }

  /// The arithmetic on what was gathered; its results go to whose they are, and are written there.
  Result<void> make_and_spread(const std::shared_ptr<Slot>& slot) {
    std::vector<std::unique_ptr<comm::Pending>> spreading;
    for (std::size_t w = 0; w < wave_.works.size(); ++w)
      if (slot->works[w].bytes > 0) BACKSTAY_TRY(make_or_take(w, spreading, slot));
    BACKSTAY_TRY(comm::finish(spreading));
    for (std::size_t w = 0; w < wave_.works.size(); ++w) {
      const auto& work = wave_.works[w];
      const Shards& shards = slot->works[w];
      for (std::size_t i = 0; i < work.outputs.size() && shards.bytes > 0; ++i)
        if (is_mine(work.outputs[i])) write(work.stripe, work.outputs[i], shards, shards.made[i]);
    }
    return {};
  }

  Result<void> make_or_take(std::size_t w, std::vector<std::unique_ptr<comm::Pending>>& spreading,
                            const std::shared_ptr<Slot>& slot) {
    const auto& work = wave_.works[w];
    Shards& shards = slot->works[w];
    std::vector<MutableByteView> made;
    for (std::size_t i = 0; i < work.outputs.size(); ++i) {
      if (!maps_[w] && !is_mine(work.outputs[i])) continue;
      shards.made[i] = shards.made_in[i].of(shards.bytes);
      made.push_back(shards.made[i]);
    }
    if (maps_[w]) maps_[w]->apply(shards.inputs, made);
    for (std::size_t i = 0; i < work.outputs.size(); ++i) {
      const int owner = rank(work.outputs[i]), worker = rank(work.worker);
      if (owner == worker) continue;
      if (worker == comm_.rank())
        BACKSTAY_TRY(start(spreading, owner, shards.made[i], 0, {}, spread_tag, slot));
      else if (owner == comm_.rank())
        BACKSTAY_TRY(start(spreading, 0, {}, worker, shards.made[i], spread_tag, slot));
    }
    return {};
  }

  comm::Comm& comm_;
  const ParityGroup& group_;
  const Stripes& stripes_;
  const Wave& wave_;
  const ShardAccess& access_;
  std::uint64_t piece_;
  std::vector<std::optional<ShardMap>> maps_;  // by work: of those whose worker this rank is
  std::array<std::shared_ptr<Slot>, 2> slots_;
  std::vector<std::unique_ptr<comm::Pending>> gathering_;  // not in the slot: they own it
  Result<void> outcome_;
};
}  // namespace

std::vector<Wave> plan_encoding(const Stripes& stripes) {
  Wave wave;
  for (int stripe = 0; stripe < stripes.n; ++stripe) {
    StripeWork work{stripe, stripes.member(stripe, stripes.k()), {}, {}};
    for (int shard = 0; shard < stripes.n; ++shard)
      (shard < stripes.k() ? work.inputs : work.outputs).push_back(stripes.member(stripe, shard));
    wave.works.push_back(std::move(work));
  }
  return {wave};
}

std::vector<Wave> plan_rebuild(const Stripes& stripes, const std::vector<int>& lost) {
  const auto left = all_but(stripes.n, lost);
  const int workers = static_cast<int>(left.size());
  std::vector<Wave> waves;
  for (int first = 0; first < stripes.n; first += workers) {
    Wave wave;
    const int count = std::min(workers, stripes.n - first);
    wave.turns = workers / count;
    for (int stripe = first; stripe < first + count; ++stripe)
      for (int turn = 0; turn < wave.turns; ++turn) {
        const int place = (stripe - first) * wave.turns + turn;
        StripeWork work{stripe, left[static_cast<std::size_t>(place)], {}, lost, turn};
        // One stripe's differ from another's, so that no member always reads and none never does.
        for (int i = 0; i < stripes.k(); ++i)
          work.inputs.push_back(left[static_cast<std::size_t>((stripe + i) % workers)]);
        wave.works.push_back(std::move(work));
      }
    waves.push_back(std::move(wave));
  }
  return waves;
}

Result<void> exchange_shards(comm::Comm& comm, const ParityGroup& group, int parities, std::uint64_t chunk,
                             const std::vector<Wave>& waves, const ShardAccess& access) {
  const Stripes stripes{static_cast<int>(group.members.size()), parities};
  const auto code = ErasureCode::make(stripes.k(), parities);
  if (!code) return code.failure();
  // Two pieces on their way, each of all shards of the stripe that a member works on and of all that it gives or gets.
  const auto members = most_members_of_a_rank(group);
  const auto shards = static_cast<std::uint64_t>(2 * 2 * stripes.n) * members;
  const std::uint64_t piece =
      std::clamp(whole_pages(memory / shards), whole_pages(smallest_piece / members), largest_piece);
  Result<void> outcome;
  for (const auto& wave : waves) {
    auto done = WaveExchange(comm, group, stripes, *code, wave, access, piece).run(chunk);
    // Members are apart now, and messages of this wave still on their way.
    if (!done && (done.failure().code == Code::comm || done.failure().code == Code::timeout)) return done;
    if (outcome && !done) outcome = done;
  }
  return outcome;
}

}  // namespace backstay::redundancy
