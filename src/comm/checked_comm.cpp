#include "comm/checked_comm.h"

#include <utility>

namespace backstay::comm {

namespace {

constexpr int largest_tag = 32767;  // the least that every MPI must allow

Result<void> check_tag(int tag) {
  if (tag >= 0 && tag <= largest_tag) return {};
  return fail(Code::invalid_argument, "the tag is ", tag, "; it must be in 0..", largest_tag);
}

}  // namespace

const Failure& Health::break_down(const char* operation, const Failure& cause) {
  if (!failure_) failure_ = fail(cause.code, "rank ", rank_, " of ", size_, ": ", operation, ": ", cause.what);
  broken_ = true;
  return *failure_;
}

template <class Body>
auto CheckedComm::guarded(const char* operation, Body body) -> decltype(body()) {
  if (health_->failure()) return *health_->failure();
  auto result = body();
  if (!result) return health_->break_down(operation, result.failure());
  return result;
}

Result<void> CheckedComm::check_rank(const char* role, int rank) const {
  if (rank >= 0 && rank < size()) return {};
  return fail(Code::invalid_argument, role, " is rank ", rank, "; the group has ranks 0..", size() - 1);
}

Result<void> CheckedComm::check_exchange(int to, ByteView out, int from, MutableByteView in, int tag) const {
  if (!out.empty()) BACKSTAY_TRY(check_rank("the receiver", to));
  if (!in.empty()) BACKSTAY_TRY(check_rank("the sender", from));
  return check_tag(tag);
}

Result<std::unique_ptr<Comm>> CheckedComm::duplicate() {
  return guarded("duplicate", [&] { return do_duplicate(); });
}

Result<std::unique_ptr<Comm>> CheckedComm::duplicate_for_background() {
  return guarded("duplicate", [&] { return do_duplicate_for_background(); });
}

Result<void> CheckedComm::barrier() {
  return guarded("barrier", [&] { return do_barrier(); });
}

Result<std::vector<Bytes>> CheckedComm::all_gather(ByteView mine) {
  return guarded("all_gather", [&] { return do_all_gather(mine); });
}

Result<Bytes> CheckedComm::broadcast(int root, ByteView mine) {
  return guarded("broadcast", [&]() -> Result<Bytes> {
    BACKSTAY_TRY(check_rank("the root", root));
    return do_broadcast(root, mine);
  });
}

Result<std::vector<std::int64_t>> CheckedComm::all_max(std::vector<std::int64_t> mine) {
  return guarded("all_max", [&] { return do_all_max(std::move(mine)); });
}

Result<std::unique_ptr<PendingMax>> CheckedComm::start_all_max(std::vector<std::int64_t> mine) {
  return guarded("start_all_max", [&] { return do_start_all_max(std::move(mine)); });
}

Result<void> CheckedComm::send(int to, int tag, ByteView bytes, Keep keep) {
  return guarded("send", [&]() -> Result<void> {
    BACKSTAY_TRY(check_rank("the receiver", to));
    BACKSTAY_TRY(check_tag(tag));
    return do_exchange(to, bytes, 0, {}, tag, std::move(keep));
  });
}

Result<void> CheckedComm::receive(int from, int tag, MutableByteView bytes, Keep keep) {
  return guarded("receive", [&]() -> Result<void> {
    BACKSTAY_TRY(check_rank("the sender", from));
    BACKSTAY_TRY(check_tag(tag));
    return do_exchange(0, {}, from, bytes, tag, std::move(keep));
  });
}

Result<void> CheckedComm::exchange(int to, ByteView out, int from, MutableByteView in, int tag, Keep keep) {
  return guarded("exchange", [&]() -> Result<void> {
    BACKSTAY_TRY(check_exchange(to, out, from, in, tag));
    return do_exchange(to, out, from, in, tag, std::move(keep));
  });
}

Result<std::unique_ptr<Pending>> CheckedComm::start_exchange(int to, ByteView out, int from, MutableByteView in,
                                                             int tag, Keep keep) {
  return guarded("exchange", [&]() -> Result<std::unique_ptr<Pending>> {
    BACKSTAY_TRY(check_exchange(to, out, from, in, tag));
    if (!keep) return fail(Code::invalid_argument, "memory that is not shared was given to an exchange that goes on");
    return do_start_exchange(to, out, from, in, tag, std::move(keep));
  });
}

}  // namespace backstay::comm
