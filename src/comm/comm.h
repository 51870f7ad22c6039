// A group of ranks, as the engine needs it: MPI, one process, or threads in a test.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::comm {

/// An operation under way. Destroying it before it is done abandons it (the buffers are kept alive by it).
class Pending {
 public:
  virtual ~Pending() = default;
  /// True once it is done; makes progress. After a failure: that failure, always. Code::timeout when the caller has
  /// asked for as long as the group's time-out (but see Comm::wait_for_all()); time in which it computed and did not
  /// ask hardly counts.
  virtual Result<bool> test() = 0;
};

/// Element-wise maximum of a few numbers over all ranks, under way.
class PendingMax : public Pending {
 public:
  /// The maxima; valid once test() has said true.
  [[nodiscard]] virtual const std::vector<std::int64_t>& values() const = 0;
};

/// Shared ownership of memory, whatever it is.
using Keep = std::shared_ptr<const void>;

/// A group of ranks. Collective calls are made by all ranks of the group in the same order. One thread at a time.
/// Every wait is bounded by the group's time-out (Code::timeout, with a sentence that names the operation), unless
/// wait_for_all() was called, and does not spin: it sleeps between looks, 20 microseconds at first, 1 millisecond at
/// most. After any failure the group is broken: later calls fail at once with the same failure.
class Comm {
 public:
  virtual ~Comm() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// False once a call has failed. May be asked by any thread.
  [[nodiscard]] virtual bool works() const = 0;

  /// Called from any thread: once it has returned, no call of this group, or of one made from it, touches MPI, and what
  /// is under way fails.
  virtual void leave() = 0;

  /// From now on waits in this group, and in groups made from it, have no bound: a rank that is late is waited for, as
  /// in any collective call of MPI. Failures and leave() end them. `late` (may be empty) is called on the waiting
  /// thread when one has lasted for the time-out, and again each time that it has doubled.
  virtual void wait_for_all(std::function<void()> late) = 0;

  /// Collective: a group of the same ranks whose messages never meet those of this one.
  virtual Result<std::unique_ptr<Comm>> duplicate() = 0;
  /// The same for another thread than that of this group, made on this group's thread.
  virtual Result<std::unique_ptr<Comm>> duplicate_for_background() = 0;

  virtual Result<void> barrier() = 0;
  /// What every rank gave, in rank order; sizes may differ, and may be 0 (each below 2 GiB, the sum too).
  virtual Result<std::vector<Bytes>> all_gather(ByteView mine) = 0;
  /// What `root` gave (others' argument is ignored).
  virtual Result<Bytes> broadcast(int root, ByteView mine) = 0;
  /// Element-wise maximum of the same number of values on every rank; blocking.
  virtual Result<std::vector<std::int64_t>> all_max(std::vector<std::int64_t> mine) = 0;
  /// The same, started here and finished when test() says so.
  virtual Result<std::unique_ptr<PendingMax>> start_all_max(std::vector<std::int64_t> mine) = 0;

  /// Point to point, any size (split into messages of at most 1 GiB). Not collective; `tag` in 0..32767. A message of
  /// no bytes is not sent, and its receive returns at once. A send may wait for its receive, so a rank reaches itself
  /// by exchange() only. Code::mismatch: a message of another size came.
  ///
  /// `keep` owns `bytes`: after a failure the group holds on to it, as the network may still read or write there.
  /// Without it the bytes go through memory of the group, which costs a copy on each side.
  virtual Result<void> send(int to, int tag, ByteView bytes, Keep keep = {}) = 0;
  virtual Result<void> receive(int from, int tag, MutableByteView bytes, Keep keep = {}) = 0;
  /// Sends and receives at once, so that a ring of partners cannot block itself. Either side may be empty
  /// (then no message is sent on that side, and its rank is not looked at). `keep` owns both `out` and `in`.
  virtual Result<void> exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep keep = {}) = 0;
  /// The same, started here and finished when test() says so. `keep` must be given. Messages from one rank with one tag
  /// are received in the order in which both sides started them.
  virtual Result<std::unique_ptr<Pending>> start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                          Keep keep) = 0;
};

/// Waits for all of them, bounded by their group's time-out; sleeps between looks. The first failure is returned, and
/// the rest is abandoned with the vector.
Result<void> finish(const std::vector<std::unique_ptr<Pending>>& under_way);

}  // namespace backstay::comm
