// What all groups share: arguments are checked, and the first failure is the answer to every later call.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm.h"

namespace backstay::comm {

/// Whether a group still works. Shared by the group and its operations under way, used by one thread at a time; only
/// works() may be asked by others.
class Health {
 public:
  Health(int rank, int size) : rank_(rank), size_(size) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool works() const { return !broken_; }
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  /// Breaks the group: `cause`, with rank and operation in front, is what every later call will say.
  const Failure& break_down(const char* operation, const Failure& cause);

 private:
  int rank_;
  int size_;
  std::optional<Failure> failure_;
  std::atomic<bool> broken_{false};
};

/// The public calls of a Comm, each passed on to its `do_` neighbour once the arguments are known to be good.
class CheckedComm : public Comm {
 public:
  explicit CheckedComm(std::shared_ptr<Health> health) : health_(std::move(health)) {}
  [[nodiscard]] int rank() const final { return health_->rank(); }
  [[nodiscard]] int size() const final { return health_->size(); }
  [[nodiscard]] bool works() const final { return health_->works(); }
  void leave() override {}  ///< where there is no MPI
  Result<std::unique_ptr<Comm>> duplicate() final;
  Result<std::unique_ptr<Comm>> duplicate_for_background() final;
  Result<void> barrier() final;
  Result<std::vector<Bytes>> all_gather(ByteView mine) final;
  Result<Bytes> broadcast(int root, ByteView mine) final;
  Result<std::vector<std::int64_t>> all_max(std::vector<std::int64_t> mine) final;
  Result<std::unique_ptr<PendingMax>> start_all_max(std::vector<std::int64_t> mine) final;
  Result<void> send(int to, int tag, ByteView bytes, Keep keep) final;
  Result<void> receive(int from, int tag, MutableByteView bytes, Keep keep) final;
  Result<void> exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep keep) final;
  Result<std::unique_ptr<Pending>> start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                  Keep keep) final;

 protected:
  virtual Result<std::unique_ptr<Comm>> do_duplicate() = 0;
  /// Where threads make no difference: the same.
  virtual Result<std::unique_ptr<Comm>> do_duplicate_for_background() { return do_duplicate(); }
  virtual Result<void> do_barrier() = 0;
  virtual Result<std::vector<Bytes>> do_all_gather(ByteView mine) = 0;
  virtual Result<Bytes> do_broadcast(int root, ByteView mine) = 0;
  virtual Result<std::vector<std::int64_t>> do_all_max(std::vector<std::int64_t> mine) = 0;
  virtual Result<std::unique_ptr<PendingMax>> do_start_all_max(std::vector<std::int64_t> mine) = 0;
  /// Send and receive are the exchanges with one side empty.
  virtual Result<void> do_exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep keep) = 0;
  virtual Result<std::unique_ptr<Pending>> do_start_exchange(int to, ByteView out, int from, MutableByteView in,
                                                             int tag, Keep keep) = 0;

  [[nodiscard]] const std::shared_ptr<Health>& health() const { return health_; }

 private:
  Result<void> check_rank(const char* role, int rank) const;
  Result<void> check_exchange(int to, ByteView out, int from, MutableByteView in, int tag) const;
  template <class Body>
  auto guarded(const char* operation, Body body) -> decltype(body());

  std::shared_ptr<Health> health_;
};

}  // namespace backstay::comm
