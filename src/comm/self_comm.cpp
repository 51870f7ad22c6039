#include "comm/self_comm.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "comm/checked_comm.h"

namespace backstay::comm {

namespace {

class SelfPendingMax final : public PendingMax {
 public:
  explicit SelfPendingMax(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  Result<bool> test() override { return true; }
  [[nodiscard]] const std::vector<std::int64_t>& values() const override { return values_; }

 private:
  std::vector<std::int64_t> values_;
};

/// What a rank sends to itself is there at once, so an exchange is done when it is started.
class Done final : public Pending {
 public:
  Result<bool> test() override { return true; }
};

class SelfComm final : public CheckedComm {
 public:
  SelfComm() : CheckedComm(std::make_shared<Health>(0, 1)) {}
  void wait_for_all(std::function<void()>) override {}  // nobody is waited for

 private:
  Result<std::unique_ptr<Comm>> do_duplicate() override { return make_self_comm(); }
  Result<void> do_barrier() override { return {}; }
  Result<std::vector<Bytes>> do_all_gather(ByteView mine) override {
    return std::vector<Bytes>{Bytes(mine.data(), mine.data() + mine.size())};
  }
  Result<Bytes> do_broadcast(int, ByteView mine) override { return Bytes(mine.data(), mine.data() + mine.size()); }
  Result<std::vector<std::int64_t>> do_all_max(std::vector<std::int64_t> mine) override { return mine; }
  Result<std::unique_ptr<PendingMax>> do_start_all_max(std::vector<std::int64_t> mine) override {
    return std::unique_ptr<PendingMax>(std::make_unique<SelfPendingMax>(std::move(mine)));
  }

  Result<void> do_exchange(int, ByteView out, int, MutableByteView in, int tag, Keep) override {
    auto& mail = mail_[tag];
    if (!out.empty()) mail.emplace_back(out.data(), out.data() + out.size());
    if (in.empty()) return {};
    // Nobody else could send it later, so there is nothing to wait for.
    if (mail.empty()) return fail(Code::timeout, "no message with tag ", tag, " was sent by this rank to itself");
    if (mail.front().size() != in.size())
      return fail(Code::mismatch, mail.front().size(), " bytes were sent where ", in.size(), " were expected");
    std::copy_n(mail.front().data(), in.size(), in.data());
    mail.pop_front();
    return {};
  }

  Result<std::unique_ptr<Pending>> do_start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                     Keep keep) override {
    BACKSTAY_TRY(do_exchange(to, out, from, in, tag, std::move(keep)));
    return std::unique_ptr<Pending>(std::make_unique<Done>());
  }

  std::map<int, std::deque<Bytes>> mail_;  // by tag
};

}  // namespace

std::unique_ptr<Comm> make_self_comm() { return std::make_unique<SelfComm>(); }

}  // namespace backstay::comm
