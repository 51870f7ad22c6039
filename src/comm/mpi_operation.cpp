#include "comm/mpi_operation.h"

#include <algorithm>
#include <string>

namespace backstay::comm {

thread_local int OurCall::depth = 0;

Result<void> check(int code) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  int error_class = MPI_ERR_OTHER;
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &error_class);
  const Code kind = error_class == MPI_ERR_TRUNCATE ? Code::mismatch : Code::comm;
  return fail(kind, "MPI says: ", std::string(text, static_cast<std::size_t>(length)));
}

Result<bool> Collective::advance() {
  const OurCall ours;
  if (!started_) {
    started_ = true;
    BACKSTAY_TRY(check(start_(&request_)));
    if (first_ == First::only_starts) return false;
  }
  int done = 0;
  BACKSTAY_TRY(check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE)));
  return done != 0;
}

Result<bool> Transfer::advance() {
  const OurCall ours;
  if (!started_) {
    started_ = true;
    BACKSTAY_TRY(start());
  }
  while (!under_way_.empty()) {
    const auto done = test(under_way_.back());
    if (!done || !*done) return done;
    under_way_.pop_back();
  }
  return true;
}

/// Receives are posted before sends, so that no message has to be stored on the way.
Result<void> Transfer::start() {
  for (std::size_t begin = 0; begin < in_.size(); begin += largest_) {
    const std::size_t size = std::min(largest_, in_.size() - begin);
    UnderWay& message = under_way_.emplace_back(UnderWay{MPI_REQUEST_NULL, size});
    BACKSTAY_TRY(check(MPI_Irecv(in_.data() + begin, static_cast<int>(size), MPI_BYTE, from_.rank, from_.tag,
                                 from_.comm, &message.request)));
  }
  for (std::size_t begin = 0; begin < out_.size(); begin += largest_) {
    const std::size_t size = std::min(largest_, out_.size() - begin);
    UnderWay& message = under_way_.emplace_back();
    BACKSTAY_TRY(check(MPI_Isend(out_.data() + begin, static_cast<int>(size), MPI_BYTE, to_.rank, to_.tag, to_.comm,
                                 &message.request)));
  }
  return {};
}

Result<bool> Transfer::test(UnderWay& message) {
  int done = 0;
  MPI_Status status;
  BACKSTAY_TRY(check(MPI_Test(&message.request, &done, &status)));
  if (done == 0) return false;
  if (message.incoming == 0) return true;
  int count = 0;
  BACKSTAY_TRY(check(MPI_Get_count(&status, MPI_BYTE, &count)));
  if (static_cast<std::size_t>(count) == message.incoming) return true;
  return fail(Code::mismatch, "rank ", from_.rank, " sent ", count, " bytes where ", message.incoming,
              " were expected");
}

}  // namespace backstay::comm
