#include "comm/fake_comm.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "comm/checked_comm.h"
#include "comm/patience.h"

namespace backstay::comm {

namespace {

/// One collective call: what each rank brought. All collectives are meetings; they differ in what is made of it.
struct Meeting {
  std::string operation;
  std::vector<std::optional<Bytes>> brought;  // by rank of the group
  std::size_t collected = 0;                  // ranks that have taken the outcome
};
using MeetingId = std::pair<std::string, std::uint64_t>;   // group, number of the call in it
using MailboxId = std::tuple<std::string, int, int, int>;  // group, from, to, tag
using Look = std::optional<std::vector<Bytes>>;            // empty: not everyone has come

/// Messages of one rank to another with one tag. Receives are served in the order in which they were started.
struct Mailbox {
  std::deque<Bytes> messages;
  std::uint64_t started = 0;
  std::uint64_t served = 0;

  [[nodiscard]] bool serves(std::uint64_t turn) const { return !messages.empty() && served == turn; }
  /// The message of that turn is here, if perhaps behind others.
  [[nodiscard]] bool has(std::uint64_t turn) const { return turn - served < messages.size(); }
};

/// What the threads share. Every member is guarded by `mutex`.
struct World {
  World(int size, std::chrono::milliseconds bound) : timeout(bound), ended(static_cast<std::size_t>(size)) {}

  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<MeetingId, Meeting> meetings;
  std::map<MailboxId, Mailbox> mailboxes;
  std::vector<bool> ended;  // ranks whose body has returned or thrown: nothing more will come from them
  std::exception_ptr first_exception;
};

/// A group as one of its ranks sees it.
struct Group {
  std::shared_ptr<World> world;
  std::string name;          // the same on all its ranks, and no other group's
  std::vector<int> members;  // ranks in the world
  int rank;
  Waits waits;
  std::shared_ptr<bool> left = std::make_shared<bool>(false);  // nobody waits here any more

  [[nodiscard]] bool has_ended(std::size_t member) const {
    return world->ended[static_cast<std::size_t>(members[member])];
  }
};

Failure nobody_came(std::chrono::milliseconds bound) {
  return fail(Code::timeout, "another rank did not come within ", bound.count(),
              " ms; this group is not used any more");
}

Failure was_left() { return fail(Code::comm, "this group was left"); }

Failure has_ended(std::size_t rank) {
  return fail(Code::comm, "rank ", rank, " has ended and will not come; this group is not used any more");
}

/// Brings `mine` to a meeting. The world's lock is held.
Result<void> join(Group& group, const MeetingId& id, const char* operation, Bytes mine) {
  Meeting& meeting = group.world->meetings[id];
  if (meeting.brought.empty()) {
    meeting.operation = operation;
    meeting.brought.resize(group.members.size());
  }
  if (meeting.operation != operation)
    return fail(Code::mismatch, "another rank called ", meeting.operation, "; all ranks must make the same calls");
  meeting.brought[static_cast<std::size_t>(group.rank)] = std::move(mine);
  group.world->changed.notify_all();
  return {};
}

/// What everyone brought, once everyone has come. The world's lock is held.
Result<Look> look(Group& group, const MeetingId& id) {
  Meeting& meeting = group.world->meetings[id];
  for (std::size_t i = 0; i < meeting.brought.size(); ++i) {
    if (meeting.brought[i]) continue;
    if (*group.left) return was_left();
    if (group.has_ended(i)) return has_ended(i);
    return Look{};
  }
  std::vector<Bytes> all;
  for (const auto& bytes : meeting.brought) all.push_back(*bytes);
  if (++meeting.collected == meeting.brought.size()) group.world->meetings.erase(id);
  return Look(std::move(all));
}

/// The oldest message of a mailbox that has one. The world's lock is held.
Result<void> deliver(Mailbox& mail, int from, MutableByteView bytes) {
  const Bytes message = std::move(mail.messages.front());
  mail.messages.pop_front();
  ++mail.served;
  if (message.size() != bytes.size())
    return fail(Code::mismatch, "rank ", from, " sent ", message.size(), " bytes where ", bytes.size(),
                " were expected");
  std::copy_n(message.data(), bytes.size(), bytes.data());
  return {};
}

Bytes encode(const std::vector<std::int64_t>& values) {
  const ByteView bytes = std::as_bytes(std::span(values));
  return {bytes.data(), bytes.data() + bytes.size()};
}

std::vector<std::int64_t> decode(const Bytes& bytes) {
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Result<std::vector<std::int64_t>> maxima(const std::vector<Bytes>& all) {
  std::vector<std::int64_t> most = decode(all.front());
  for (const Bytes& bytes : all) {
    const auto values = decode(bytes);
    if (values.size() != most.size())
      return fail(Code::mismatch, "ranks gave ", values.size(), " and ", most.size(), " values");
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], values[i]);
  }
  return most;
}

class FakePendingMax final : public PendingMax {
 public:
  FakePendingMax(Group group, MeetingId id, std::shared_ptr<Health> health)
      : group_(std::move(group)), id_(std::move(id)), health_(std::move(health)), wait_(group_.waits.timeout) {}

  Result<bool> test() override {
    if (done_) return true;
    if (health_->failure()) return *health_->failure();
    auto outcome = attempt();
    if (!outcome) return health_->break_down("all_max", outcome.failure());
    done_ = *outcome;
    return done_;
  }
  [[nodiscard]] const std::vector<std::int64_t>& values() const override { return values_; }

 private:
  Result<bool> attempt() {
    auto seen = [&] {
      const std::lock_guard lock(group_.world->mutex);
      return look(group_, id_);
    }();
    if (!seen) return seen.failure();
    if (!*seen) {
      if (wait_.is_over(group_.waits)) return nobody_came(wait_.bound());
      return false;
    }
    auto most = maxima(**seen);
    if (!most) return most.failure();
    values_ = std::move(*most);
    return true;
  }

  Group group_;
  MeetingId id_;
  std::shared_ptr<Health> health_;
  BoundedWait wait_;
  bool done_ = false;
  std::vector<std::int64_t> values_;
};

/// The receiving side of an exchange; what is sent is in the mailbox already.
class FakePendingExchange final : public Pending {
 public:
  FakePendingExchange(Group group, std::shared_ptr<Health> health, int from, MutableByteView in, int tag, Keep keep)
      : group_(std::move(group)),
        health_(std::move(health)),
        mailbox_(group_.name, from, group_.rank, tag),
        in_(in),
        keep_(std::move(keep)),
        wait_(group_.waits.timeout) {
    if (in_.empty()) return;
    const std::lock_guard lock(group_.world->mutex);
    turn_ = group_.world->mailboxes[mailbox_].started++;
  }

  Result<bool> test() override {
    if (in_.empty() || done_) return true;
    if (health_->failure()) return *health_->failure();
    auto seen = attempt();
    if (!seen) return health_->break_down("exchange", seen.failure());
    done_ = *seen;
    return done_;
  }

 private:
  Result<bool> attempt() {
    const std::lock_guard lock(group_.world->mutex);
    auto& mail = group_.world->mailboxes[mailbox_];
    if (mail.serves(turn_)) {
      BACKSTAY_TRY(deliver(mail, std::get<1>(mailbox_), in_));
      return true;
    }
    const auto sender = static_cast<std::size_t>(std::get<1>(mailbox_));
    if (group_.has_ended(sender) && !mail.has(turn_)) return has_ended(sender);
    if (*group_.left) return was_left();
    if (wait_.is_over(group_.waits)) return nobody_came(wait_.bound());
    return false;
  }

  Group group_;
  std::shared_ptr<Health> health_;
  MailboxId mailbox_;
  MutableByteView in_;
  Keep keep_;
  BoundedWait wait_;
  std::uint64_t turn_ = 0;
  bool done_ = false;
};

class FakeComm final : public CheckedComm {
 public:
  explicit FakeComm(Group group)
      : CheckedComm(std::make_shared<Health>(group.rank, static_cast<int>(group.members.size()))),
        group_(std::move(group)) {}
  void wait_for_all(std::function<void()> late) override { group_.waits.late = std::move(late); }
  void leave() override {
    const std::lock_guard lock(group_.world->mutex);
    *group_.left = true;
    group_.world->changed.notify_all();
  }

 private:
  Result<std::unique_ptr<Comm>> do_duplicate() override {
    const std::string name = cat(group_.name, "/duplicate", calls_);
    auto all = meet("duplicate", {});
    if (!all) return all.failure();
    return std::unique_ptr<Comm>(
        std::make_unique<FakeComm>(Group{group_.world, name, group_.members, group_.rank, group_.waits}));
  }

  Result<void> do_barrier() override {
    auto all = meet("barrier", {});
    if (!all) return all.failure();
    return {};
  }

  Result<std::vector<Bytes>> do_all_gather(ByteView mine) override {
    return meet("all_gather", Bytes(mine.data(), mine.data() + mine.size()));
  }

  Result<Bytes> do_broadcast(int root, ByteView mine) override {
    auto all = meet("broadcast", root == rank() ? Bytes(mine.data(), mine.data() + mine.size()) : Bytes());
    if (!all) return all.failure();
    return std::move((*all)[static_cast<std::size_t>(root)]);
  }

  Result<std::vector<std::int64_t>> do_all_max(std::vector<std::int64_t> mine) override {
    auto all = meet("all_max", encode(mine));
    if (!all) return all.failure();
    return maxima(*all);
  }

  Result<std::unique_ptr<PendingMax>> do_start_all_max(std::vector<std::int64_t> mine) override {
    const MeetingId id{group_.name, calls_++};
    const std::lock_guard lock(group_.world->mutex);
    BACKSTAY_TRY(join(group_, id, "start_all_max", encode(mine)));
    return std::unique_ptr<PendingMax>(std::make_unique<FakePendingMax>(group_, id, health()));
  }

  Result<void> do_exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep) override {
    if (!out.empty()) post(to, tag, out);
    return in.empty() ? Result<void>() : take(from, tag, in);
  }

  Result<std::unique_ptr<Pending>> do_start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                     Keep keep) override {
    if (!out.empty()) post(to, tag, out);
    return std::unique_ptr<Pending>(
        std::make_unique<FakePendingExchange>(group_, health(), from, in, tag, std::move(keep)));
  }

  /// Brings `mine` to the next meeting of the group and waits for the others.
  Result<std::vector<Bytes>> meet(const char* operation, Bytes mine) {
    World& world = *group_.world;
    const MeetingId id{group_.name, calls_++};
    std::unique_lock lock(world.mutex);
    BACKSTAY_TRY(join(group_, id, operation, std::move(mine)));
    Result<Look> seen = Look{};
    const bool came = wait(lock, [&] { return !(seen = look(group_, id)) || seen->has_value(); });
    if (!seen) return seen.failure();
    if (!came) return nobody_came(group_.waits.timeout);
    return std::move(**seen);
  }

  void post(int to, int tag, ByteView bytes) {
    const std::lock_guard lock(group_.world->mutex);
    group_.world->mailboxes[{group_.name, rank(), to, tag}].messages.emplace_back(bytes.data(),
                                                                                  bytes.data() + bytes.size());
    group_.world->changed.notify_all();
  }

  Result<void> take(int from, int tag, MutableByteView bytes) {
    World& world = *group_.world;
    const auto sender = static_cast<std::size_t>(from);
    std::unique_lock lock(world.mutex);
    auto& mail = world.mailboxes[{group_.name, from, rank(), tag}];
    const std::uint64_t turn = mail.started++;
    const auto is_lost = [&] { return *group_.left || (group_.has_ended(sender) && !mail.has(turn)); };
    wait(lock, [&] { return mail.serves(turn) || is_lost(); });
    if (mail.serves(turn)) return deliver(mail, from, bytes);
    if (*group_.left) return was_left();
    return group_.has_ended(sender) ? has_ended(sender) : nobody_came(group_.waits.timeout);
  }

  /// False: it was given up.
  bool wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
    for (auto bound = group_.waits.timeout; !group_.world->changed.wait_for(lock, bound, ready);) {
      lock.unlock();
      const bool given_up = group_.waits.end_after(bound);
      lock.lock();
      if (given_up) return false;
    }
    return true;
  }

  Group group_;
  std::uint64_t calls_ = 0;  // the same on all ranks, as collective calls come in the same order
};

void run_rank(const std::shared_ptr<World>& world, int rank, const std::function<void(Comm&)>& body) {
  std::vector<int> everyone(world->ended.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  std::exception_ptr thrown;
  try {
    FakeComm comm(Group{world, "world", everyone, rank, {world->timeout}});
    body(comm);
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::lock_guard lock(world->mutex);
  world->ended[static_cast<std::size_t>(rank)] = true;
  if (thrown && !world->first_exception) world->first_exception = thrown;
  world->changed.notify_all();
}

}  // namespace

void run_ranks(int size, const std::function<void(Comm&)>& body, std::chrono::milliseconds timeout) {
  auto world = std::make_shared<World>(size, timeout);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { run_rank(world, rank, body); });
  for (std::thread& thread : threads) thread.join();
  if (world->first_exception) std::rethrow_exception(world->first_exception);
}

}  // namespace backstay::comm
