#include "comm/mpi_comm.h"

#include <algorithm>
#include <climits>
#include <mutex>
#include <numeric>
#include <utility>

#include "comm/checked_comm.h"
#include "comm/leaving.h"
#include "comm/mpi_operation.h"
#include "comm/patience.h"

namespace backstay::comm {

namespace {

constexpr std::size_t largest_room_kept = std::size_t{8} << 20;  // bytes each way

/// Keeps `held` until the process ends, because MPI may still write to it. Never destroyed: MPI may run that long.
void keep_forever(std::shared_ptr<void> held) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(held));
}

bool mpi_is_running() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

Failure too_late() { return fail(Code::comm, "MPI is not initialised, or is finalized already"); }

Failure not_done_within(std::chrono::milliseconds bound) {
  return fail(Code::timeout, "not done within ", bound.count(),
              " ms (option timeout): another rank did not come, or is stuck or gone");
}

/// Carries `operation` on once, while the gate is open.
Result<bool> advance(Operation& operation, Gate& gate) {
  auto done = gate.pass([&] { return operation.advance(); });
  return done ? std::move(*done) : Result<bool>(fail(Code::comm, "the session was closed meanwhile"));
}

/// Carries `operation` on until it is done, on a thread that may call MPI.
Result<void> poll(Operation& operation, const MpiOptions& options, const Waits& waits) {
  BoundedWait wait(waits.timeout);
  const auto at_first = options.waits_in_background ? std::chrono::microseconds{} : Backoff::of_a_message;
  for (Backoff backoff(Backoff::usual, at_first);; backoff.sleep()) {
    const auto done = advance(operation, *options.gate);
    if (!done) return done.failure();
    if (*done) return {};
    if (wait.is_over(waits)) return not_done_within(wait.bound());
  }
}

/// A communicator of ours, shared by the group and its operations under way.
class Communicator {
 public:
  Communicator(MPI_Comm handle, const MpiOptions& options, Waits waits)
      : handle_(handle), options_(options), waits_(std::move(waits)) {
    if (options_.alarm) options_.alarm->watch(handle_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Not freed where a rank was lost, though this one has nothing under way in it: others may still send into it, and
  /// Open MPI would find their messages in the next communicator of the same number (docs/decisions/0011).
  ~Communicator() {
    const bool has_a_loss = options_.alarm && options_.alarm->rung();
    if (options_.alarm) options_.alarm->forget(handle_);
    if (!abandoned_ && !has_a_loss && mpi_is_running() && may_call_mpi()) PMPI_Comm_free(&handle_);
  }

  [[nodiscard]] MPI_Comm handle() const { return handle_; }
  [[nodiscard]] const MpiOptions& options() const { return options_; }
  [[nodiscard]] const Waits& waits() const { return waits_; }
  void wait_for_all(std::function<void()> late) { waits_.late = std::move(late); }
  [[nodiscard]] bool may_call_mpi() const {
    return options_.courier == nullptr || options_.courier->on_application_thread();
  }

  /// Carries `operation` on until it is done. After a failure MPI keeps what it was given, and the handle stays.
  Result<void> finish(const std::shared_ptr<Operation>& operation) {
    if (!mpi_is_running()) return abandon(operation, too_late());
    auto done = may_call_mpi() ? poll(*operation, options_, waits_)
                               : options_.courier->run(step_of(operation), bound_of_courier());
    if (!done) return abandon(operation, done.failure());
    return {};
  }

  /// A call that waits for others inside MPI; the loss of one ends it.
  ///
  /// Where losses are survived, communicators are made by blocking calls: Open MPI 5.0 notices losses between the steps
  /// of MPI_Comm_idup, and then uses the one that is not ready (SIGSEGV in ompi_comm_revoke_local).
  template <class Call>
  Result<void> blocking(const Call& call) {
    const OurCall ours;
    const auto done = check(call());
    if (!done) return abandon(nullptr, done.failure());
    return done;
  }

  /// Carries `operation` on once; true if it is done.
  Result<bool> look(const std::shared_ptr<Operation>& operation) {
    if (!mpi_is_running()) return abandon(operation, too_late());
    Result<bool> done = may_call_mpi() ? advance(*operation, *options_.gate) : look_by_courier(operation);
    if (!done) return abandon(operation, done.failure());
    return done;
  }

  Failure abandon(std::shared_ptr<Operation> operation, Failure why) {
    abandoned_ = true;
    keep_forever(std::move(operation));
    if (options_.alarm && why.code == Code::comm && !options_.gate->is_shut() && mpi_is_running())
      may_call_mpi() ? options_.alarm->ring() : options_.alarm->ask();
    return why;
  }

 private:
  static std::function<Result<bool>()> step_of(std::shared_ptr<Operation> operation) {
    return [operation] { return operation->advance(); };
  }

  Result<bool> look_by_courier(const std::shared_ptr<Operation>& operation) {
    auto done = std::make_shared<bool>(false);
    const auto look_once = [operation, done]() -> Result<bool> {
      auto seen = operation->advance();
      if (!seen) return seen;
      *done = *seen;
      return true;
    };
    BACKSTAY_TRY(options_.courier->run(look_once, bound_of_courier()));
    return *done;
  }

  [[nodiscard]] std::optional<std::chrono::milliseconds> bound_of_courier() const {
    return waits_.late ? std::nullopt : std::optional(waits_.timeout);
  }

  MPI_Comm handle_;
  MpiOptions options_;
  Waits waits_;
  bool abandoned_ = false;
};

/// Where each rank's bytes lie in what an all_gather receives.
struct Layout {
  std::vector<int> counts;
  std::vector<int> displacements;
  std::size_t total = 0;
};

Result<Layout> lay_out(const std::vector<std::int64_t>& sizes) {
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total > INT_MAX)
    return fail(Code::invalid_argument, "the ranks give ", total, " bytes together; at most ", INT_MAX,
                " can be gathered in one call");
  Layout layout;
  for (const std::int64_t size : sizes) {
    layout.counts.push_back(static_cast<int>(size));
    layout.displacements.push_back(static_cast<int>(layout.total));
    layout.total += static_cast<std::size_t>(size);
  }
  return layout;
}

/// An operation that its caller asks after.
class UnderWay {
 public:
  UnderWay(const char* name, std::shared_ptr<Communicator> group, std::shared_ptr<Health> health,
           std::shared_ptr<Operation> operation)
      : name_(name),
        group_(std::move(group)),
        health_(std::move(health)),
        operation_(std::move(operation)),
        wait_(group_->waits().timeout) {}
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    if (!done_) group_->abandon(operation_, {});
  }

  /// Its caller goes, and others may need more of it than this process has done.
  void leave_to_others() {
    if (!done_ && !health_->failure()) leaving::others_may_need(operation_, group_->waits().timeout);
  }

  Result<bool> test() {
    if (done_) return true;
    if (health_->failure()) return *health_->failure();
    auto seen = group_->look(operation_);
    if (seen && !*seen && wait_.is_over(group_->waits())) seen = not_done_within(wait_.bound());
    if (!seen) return health_->break_down(name_, seen.failure());
    done_ = *seen;
    return done_;
  }

 private:
  const char* name_;
  std::shared_ptr<Communicator> group_;
  std::shared_ptr<Health> health_;
  std::shared_ptr<Operation> operation_;
  BoundedWait wait_;
  bool done_ = false;
};

class MpiPendingMax final : public PendingMax {
 public:
  using Values = std::vector<std::int64_t>;
  MpiPendingMax(std::shared_ptr<Communicator> group, std::shared_ptr<Health> health,
                std::shared_ptr<Operation> operation, std::shared_ptr<Values> values)
      : under_way_("all_max", std::move(group), std::move(health), std::move(operation)), values_(std::move(values)) {}
  MpiPendingMax(const MpiPendingMax&) = delete;
  MpiPendingMax& operator=(const MpiPendingMax&) = delete;
  ~MpiPendingMax() override { under_way_.leave_to_others(); }
  Result<bool> test() override { return under_way_.test(); }
  [[nodiscard]] const Values& values() const override { return *values_; }

 private:
  UnderWay under_way_;
  std::shared_ptr<Values> values_;
};

class MpiPendingExchange final : public Pending {
 public:
  MpiPendingExchange(std::shared_ptr<Communicator> group, std::shared_ptr<Health> health,
                     std::shared_ptr<Operation> operation)
      : under_way_("exchange", std::move(group), std::move(health), std::move(operation)) {}
  Result<bool> test() override { return under_way_.test(); }

 private:
  UnderWay under_way_;
};

class MpiComm final : public CheckedComm {
 public:
  MpiComm(std::shared_ptr<Communicator> group, int rank, int size)
      : CheckedComm(std::make_shared<Health>(rank, size)), group_(std::move(group)) {}

  [[nodiscard]] MPI_Comm handle() const { return group_->handle(); }
  void leave() override {
    group_->options().gate->shut();
    if (group_->options().courier != nullptr) group_->options().courier->shut();
  }
  void wait_for_all(std::function<void()> late) override { group_->wait_for_all(std::move(late)); }
  /// Collective, on the application's thread: see shared_memory_node().
  Result<int> node();

 private:
  Result<std::unique_ptr<Comm>> do_duplicate() override;
  Result<std::unique_ptr<Comm>> do_duplicate_for_background() override;
  Result<void> do_barrier() override;
  Result<std::vector<Bytes>> do_all_gather(ByteView mine) override;
  Result<Bytes> do_broadcast(int root, ByteView mine) override;
  Result<std::vector<std::int64_t>> do_all_max(std::vector<std::int64_t> mine) override;
  Result<std::unique_ptr<PendingMax>> do_start_all_max(std::vector<std::int64_t> mine) override;
  Result<void> do_exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep keep) override;
  Result<std::unique_ptr<Pending>> do_start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                     Keep keep) override;

  Result<std::unique_ptr<Comm>> duplicate_with(const MpiOptions& options);

  /// Memory that MPI may have.
  struct Room {
    Bytes out;
    Bytes in;
  };
  std::shared_ptr<Room> own_room(std::size_t out, std::size_t in);
  Result<std::vector<std::int64_t>> gather_numbers(std::int64_t mine);
  Result<int> lowest_rank_of_node();
  Result<int> count_nodes_before();
  Result<void> meet_before_a_blocking_call(const char* operation);
  /// Starts a nonblocking collective and waits for it; `start` owns the buffers.
  Result<void> collective(Collective::Start start) {
    return group_->finish(std::make_shared<Collective>(std::move(start)));
  }

  std::shared_ptr<Communicator> group_;
  std::shared_ptr<Room> room_;
};

/// Puts a duplicate of `original` into `made`.
std::shared_ptr<Collective> duplication(MPI_Comm original, std::shared_ptr<MPI_Comm> made) {
  return std::make_shared<Collective>(
      [original, made](MPI_Request* request) { return MPI_Comm_idup(original, made.get(), request); });
}

Result<std::unique_ptr<Comm>> MpiComm::duplicate_with(const MpiOptions& options) {
  auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  if (options.alarm) {
    BACKSTAY_TRY(meet_before_a_blocking_call("MPI_Comm_dup"));
    BACKSTAY_TRY(group_->blocking([&] { return MPI_Comm_dup(handle(), made.get()); }));
  } else {
    BACKSTAY_TRY(group_->finish(duplication(handle(), made)));
  }
  auto group = std::make_shared<Communicator>(*made, options, group_->waits());
  return std::unique_ptr<Comm>(std::make_unique<MpiComm>(std::move(group), rank(), size()));
}

Result<std::unique_ptr<Comm>> MpiComm::do_duplicate() { return duplicate_with(group_->options()); }

Result<std::unique_ptr<Comm>> MpiComm::do_duplicate_for_background() {
  MpiOptions options = group_->options();
  options.courier = options.background_courier;
  options.waits_in_background = true;
  options.gate = std::make_shared<Gate>();
  return duplicate_with(options);
}

/// MPI_Comm_split_type blocks. Once all ranks are known to be there that is a matter of moments, so they meet
/// first, within the time-out.
Result<void> MpiComm::meet_before_a_blocking_call(const char* operation) {
  if (!group_->may_call_mpi())
    return fail(Code::invalid_argument, operation, " blocks inside MPI, so the application's thread has to call it");
  return do_barrier();
}

Result<void> MpiComm::do_barrier() {
  return collective([comm = handle()](MPI_Request* request) { return MPI_Ibarrier(comm, request); });
}

Result<std::vector<std::int64_t>> MpiComm::gather_numbers(std::int64_t mine) {
  struct Numbers {
    std::int64_t mine;
    std::vector<std::int64_t> all;
  };
  auto numbers = std::make_shared<Numbers>(Numbers{mine, std::vector<std::int64_t>(static_cast<std::size_t>(size()))});
  BACKSTAY_TRY(collective([comm = handle(), numbers](MPI_Request* request) {
    return MPI_Iallgather(&numbers->mine, 1, MPI_INT64_T, numbers->all.data(), 1, MPI_INT64_T, comm, request);
  }));
  return std::move(numbers->all);
}

Result<std::vector<Bytes>> MpiComm::do_all_gather(ByteView mine) {
  auto sizes = gather_numbers(static_cast<std::int64_t>(mine.size()));
  if (!sizes) return sizes.failure();
  auto layout = lay_out(*sizes);
  if (!layout) return layout.failure();
  struct Buffers {
    Layout layout;
    Bytes mine;
    Bytes all;
  };
  const std::size_t total = layout->total;
  auto held = std::make_shared<Buffers>(
      Buffers{std::move(*layout), Bytes(mine.data(), mine.data() + mine.size()), Bytes(total)});
  BACKSTAY_TRY(collective([comm = handle(), held](MPI_Request* request) {
    return MPI_Iallgatherv(held->mine.data(), static_cast<int>(held->mine.size()), MPI_BYTE, held->all.data(),
                           held->layout.counts.data(), held->layout.displacements.data(), MPI_BYTE, comm, request);
  }));
  std::vector<Bytes> parts;
  for (std::size_t i = 0; i < held->layout.counts.size(); ++i) {
    const std::byte* begin = held->all.data() + held->layout.displacements[i];
    parts.emplace_back(begin, begin + held->layout.counts[i]);
  }
  return parts;
}

Result<Bytes> MpiComm::do_broadcast(int root, ByteView mine) {
  auto length = std::make_shared<std::uint64_t>(mine.size());
  BACKSTAY_TRY(collective([comm = handle(), length, root](MPI_Request* request) {
    return MPI_Ibcast(length.get(), 1, MPI_UINT64_T, root, comm, request);
  }));
  auto bytes = std::make_shared<Bytes>(*length);
  if (root == rank()) std::copy_n(mine.data(), mine.size(), bytes->data());
  const std::size_t largest = group_->options().largest_message;
  for (std::size_t begin = 0; begin < bytes->size(); begin += largest) {
    const int count = static_cast<int>(std::min(largest, bytes->size() - begin));
    BACKSTAY_TRY(collective([comm = handle(), bytes, begin, count, root](MPI_Request* request) {
      return MPI_Ibcast(bytes->data() + begin, count, MPI_BYTE, root, comm, request);
    }));
  }
  return std::move(*bytes);
}

std::shared_ptr<Collective> all_max_in_place(MPI_Comm comm, std::shared_ptr<std::vector<std::int64_t>> values,
                                             Collective::First first) {
  const auto start = [comm, values](MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, values->data(), static_cast<int>(values->size()), MPI_INT64_T, MPI_MAX, comm,
                          request);
  };
  return std::make_shared<Collective>(start, first);
}

Result<std::vector<std::int64_t>> MpiComm::do_all_max(std::vector<std::int64_t> mine) {
  auto values = std::make_shared<std::vector<std::int64_t>>(std::move(mine));
  BACKSTAY_TRY(group_->finish(all_max_in_place(handle(), values, Collective::First::starts_and_looks)));
  return std::move(*values);
}

Result<std::unique_ptr<PendingMax>> MpiComm::do_start_all_max(std::vector<std::int64_t> mine) {
  auto values = std::make_shared<std::vector<std::int64_t>>(std::move(mine));
  std::shared_ptr<Operation> operation = all_max_in_place(handle(), values, Collective::First::only_starts);
  auto pending = std::make_unique<MpiPendingMax>(group_, health(), operation, values);
  BACKSTAY_TRY(pending->test());  // starts it, so that it is on its way while the caller computes
  return std::unique_ptr<PendingMax>(std::move(pending));
}

Result<void> MpiComm::do_exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep keep) {
  const Peer receiver{handle(), to, tag};
  const Peer sender{handle(), from, tag};
  const std::size_t largest = group_->options().largest_message;
  if (keep) return group_->finish(std::make_shared<Transfer>(receiver, out, sender, in, largest, std::move(keep)));

  auto room = own_room(out.size(), in.size());
  std::copy_n(out.data(), out.size(), room->out.data());
  const auto own_out = ByteView(room->out).first(out.size());
  const auto own_in = MutableByteView(room->in).first(in.size());
  BACKSTAY_TRY(group_->finish(std::make_shared<Transfer>(receiver, own_out, sender, own_in, largest, room)));
  std::copy_n(own_in.data(), in.size(), in.data());
  return {};
}

Result<std::unique_ptr<Pending>> MpiComm::do_start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                            Keep keep) {
  auto transfer = std::make_shared<Transfer>(Peer{handle(), to, tag}, out, Peer{handle(), from, tag}, in,
                                             group_->options().largest_message, std::move(keep));
  auto pending = std::make_unique<MpiPendingExchange>(group_, health(), std::move(transfer));
  BACKSTAY_TRY(pending->test());  // the first look starts it
  return std::unique_ptr<Pending>(std::move(pending));
}

/// Memory of the group for a message each way. Used again and again while messages are small: fresh pages cost more
/// than the copy. It is not used after a failure, as the group is broken then.
std::shared_ptr<MpiComm::Room> MpiComm::own_room(std::size_t out, std::size_t in) {
  if (std::max(out, in) > largest_room_kept) return std::make_shared<Room>(Room{Bytes(out), Bytes(in)});
  if (!room_) room_ = std::make_shared<Room>();
  room_->out.resize(std::max(room_->out.size(), out));
  room_->in.resize(std::max(room_->in.size(), in));
  return room_;
}

/// The lowest rank of this group that shares memory with this one.
Result<int> MpiComm::lowest_rank_of_node() {
  const OurCall ours;
  MPI_Comm near = MPI_COMM_NULL;
  BACKSTAY_TRY(check(MPI_Comm_split_type(handle(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &near)));
  MPI_Group near_group = MPI_GROUP_NULL;
  MPI_Group all_group = MPI_GROUP_NULL;
  const int first = 0;
  int lowest = 0;
  MPI_Comm_group(near, &near_group);
  MPI_Comm_group(handle(), &all_group);
  const auto translated = check(MPI_Group_translate_ranks(near_group, 1, &first, all_group, &lowest));
  MPI_Group_free(&near_group);
  MPI_Group_free(&all_group);
  MPI_Comm_free(&near);
  BACKSTAY_TRY(translated);
  return lowest;
}

/// A node's leader is its own lowest rank, so the leaders before ours are the nodes before ours.
Result<int> MpiComm::count_nodes_before() {
  BACKSTAY_TRY(meet_before_a_blocking_call("MPI_Comm_split_type"));
  auto lowest = lowest_rank_of_node();
  if (!lowest) return lowest.failure();
  auto lowest_of = gather_numbers(*lowest);
  if (!lowest_of) return lowest_of.failure();
  int before = 0;
  for (int other = 0; other < *lowest; ++other)
    before += (*lowest_of)[static_cast<std::size_t>(other)] == other ? 1 : 0;
  return before;
}

Result<int> MpiComm::node() {
  if (health()->failure()) return *health()->failure();
  auto before = count_nodes_before();
  if (!before) return health()->break_down("shared_memory_node", before.failure());
  return before;
}

}  // namespace

Result<std::unique_ptr<Comm>> make_mpi_comm(MPI_Comm comm, const MpiOptions& options) {
  if (!mpi_is_running()) return too_late();
  if (comm == MPI_COMM_NULL) return fail(Code::invalid_argument, "the communicator is MPI_COMM_NULL");
  const ErrorsReturn errors_return(comm);
  int rank = 0;
  int size = 0;
  BACKSTAY_TRY(check(MPI_Comm_rank(comm, &rank)));
  BACKSTAY_TRY(check(MPI_Comm_size(comm, &size)));
  auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const auto operation = duplication(comm, made);
  const OurCall ours;
  const auto done =
      options.alarm ? check(MPI_Comm_dup(comm, made.get())) : poll(*operation, options, {options.timeout});
  if (!done) {
    keep_forever(operation);
    if (options.alarm && done.failure().code == Code::comm) options.alarm->ring();
    return fail(done.failure().code, "rank ", rank, " of ", size,
                ": duplicating the communicator: ", done.failure().what);
  }
  auto group = std::make_shared<Communicator>(*made, options, Waits{options.timeout});
  BACKSTAY_TRY(check(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN)));
  return std::unique_ptr<Comm>(std::make_unique<MpiComm>(std::move(group), rank, size));
}

MPI_Comm mpi_handle(const Comm& comm) {
  const auto* mpi = dynamic_cast<const MpiComm*>(&comm);
  return mpi == nullptr ? MPI_COMM_NULL : mpi->handle();
}

Result<int> shared_memory_node(Comm& comm) {
  auto* mpi = dynamic_cast<MpiComm*>(&comm);
  return mpi == nullptr ? Result<int>(0) : mpi->node();
}

}  // namespace backstay::comm
