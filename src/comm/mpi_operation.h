// MPI operations that are started and then tested, each with all that MPI may touch until it is done.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::comm {

/// MPI's own words for `code`; Code::mismatch for a message longer than expected, Code::comm for all else.
Result<void> check(int code);

/// While one lives, this thread is in MPI for us: an error comes back as a code, also where MPI reports it to
/// MPI_COMM_WORLD instead of the communicator (Open MPI 5.0 does, for MPI_Comm_idup). Heeded by the crew.
class OurCall {
 public:
  OurCall() { ++depth; }
  ~OurCall() { --depth; }
  OurCall(const OurCall&) = delete;
  OurCall& operator=(const OurCall&) = delete;
  [[nodiscard]] static bool is_under_way() { return depth > 0; }

 private:
  static thread_local int depth;
};

/// Makes errors on the user's communicator return while we duplicate it, then puts the user's handler back.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_get_errhandler(comm_, &users_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;
  ~ErrorsReturn() {
    MPI_Comm_set_errhandler(comm_, users_);
    MPI_Errhandler_free(&users_);
  }

 private:
  MPI_Comm comm_;
  MPI_Errhandler users_ = MPI_ERRHANDLER_NULL;
};

/// An operation under way. advance() never blocks, and starts the operation at its first call. All calls come from
/// threads that may call MPI. If it fails or is given up, it has to be kept until the process ends.
class Operation {
 public:
  virtual ~Operation() = default;
  /// True once it is done; not called again after that, or after a failure.
  virtual Result<bool> advance() = 0;
};

/// One nonblocking collective call.
class Collective final : public Operation {
 public:
  /// Makes the call; owns its buffers.
  using Start = std::function<int(MPI_Request*)>;
  /// What the first advance() does. A look at what others have hardly begun finds nothing; MPI then gives the processor
  /// away (mpi_yield_when_idle of Open MPI), and where ranks outnumber cores it comes back milliseconds later.
  enum class First { starts_and_looks, only_starts };
  explicit Collective(Start start, First first = First::starts_and_looks) : start_(std::move(start)), first_(first) {}
  Result<bool> advance() override;

 private:
  Start start_;
  First first_;
  bool started_ = false;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Where a message comes from or goes to.
struct Peer {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int tag = 0;
};

/// A message each way at once, each in as many MPI messages as the largest one allows; no bytes, no message.
class Transfer final : public Operation {
 public:
  /// `out` and `in` are given to MPI: `keep` owns them.
  Transfer(Peer to, ByteView out, Peer from, MutableByteView in, std::size_t largest, std::shared_ptr<const void> keep)
      : to_(to), out_(out), from_(from), in_(in), largest_(largest), keep_(std::move(keep)) {}
  Result<bool> advance() override;

 private:
  struct UnderWay {
    MPI_Request request = MPI_REQUEST_NULL;
    std::size_t incoming = 0;  // bytes expected; 0: an outgoing message
  };
  Result<void> start();
  Result<bool> test(UnderWay& message);

  Peer to_;
  ByteView out_;
  Peer from_;
  MutableByteView in_;
  std::size_t largest_;
  std::shared_ptr<const void> keep_;
  bool started_ = false;
  std::vector<UnderWay> under_way_;
};

}  // namespace backstay::comm
