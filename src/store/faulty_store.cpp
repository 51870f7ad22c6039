#include "store/faulty_store.h"

#include <limits>
#include <numeric>
#include <thread>

namespace backstay::store {
namespace {

constexpr std::uint64_t forever = std::numeric_limits<std::uint64_t>::max();

std::size_t index(Operation operation) { return static_cast<std::size_t>(operation); }

class FaultyFile final : public File {
 public:
  FaultyFile(std::unique_ptr<File> inner, std::shared_ptr<FaultPlan> plan, std::string path)
      : inner_(std::move(inner)), plan_(std::move(plan)), path_(std::move(path)) {}

  Result<void> write_at(std::uint64_t offset, ByteView bytes) override {
    BACKSTAY_TRY(plan_->begin(Operation::write, path_));
    return inner_->write_at(offset, bytes);
  }
  Result<void> read_at(std::uint64_t offset, MutableByteView bytes) override {
    BACKSTAY_TRY(plan_->begin(Operation::read, path_));
    return inner_->read_at(offset, bytes);
  }
  Result<ByteView> bytes_at(std::uint64_t offset, std::size_t size, Scratch& room) override {
    BACKSTAY_TRY(plan_->begin(Operation::read, path_));
    return inner_->bytes_at(offset, size, room);
  }
  Result<std::uint64_t> size() override { return inner_->size(); }
  Result<void> resize(std::uint64_t size) override {
    BACKSTAY_TRY(plan_->begin(Operation::resize, path_));
    return inner_->resize(size);
  }
  Result<void> sync() override {
    BACKSTAY_TRY(plan_->begin(Operation::sync, path_));
    return inner_->sync();
  }

 private:
  std::unique_ptr<File> inner_;
  std::shared_ptr<FaultPlan> plan_;
  std::string path_;
};

class FaultyStore final : public Store {
 public:
  FaultyStore(std::shared_ptr<Store> inner, std::shared_ptr<FaultPlan> plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  [[nodiscard]] std::string where() const override { return inner_->where(); }

  Result<std::unique_ptr<File>> open_to_write(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::open, path));
    return wrap(inner_->open_to_write(path), path);
  }
  Result<std::unique_ptr<File>> open_to_write_along(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::open, path));
    return wrap(inner_->open_to_write_along(path), path);
  }
  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::open, path));
    return wrap(inner_->open_to_read(path), path);
  }
  Result<void> make_dir(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::make_dir, path));
    return inner_->make_dir(path);
  }
  Result<std::vector<Entry>> list(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::list, path));
    return inner_->list(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    BACKSTAY_TRY(plan_->begin(Operation::rename, from));
    return inner_->rename(from, to);
  }
  Result<void> remove(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::remove, path));
    return inner_->remove(path);
  }
  void forget_removed() override { inner_->forget_removed(); }
  Result<void> sync_dir(const std::string& path) override {
    BACKSTAY_TRY(plan_->begin(Operation::sync_dir, path));
    return inner_->sync_dir(path);
  }

 private:
  Result<std::unique_ptr<File>> wrap(Result<std::unique_ptr<File>> file, const std::string& path) {
    if (!file) return file;
    return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(*file), plan_, path));
  }

  std::shared_ptr<Store> inner_;
  std::shared_ptr<FaultPlan> plan_;
};

}  // namespace

const char* name_of(Operation operation) {
  constexpr std::array<const char*, operation_kinds> names{"open", "write",  "read",   "resize",   "sync",
                                                           "list", "rename", "remove", "make_dir", "sync_dir"};
  return names[index(operation)];
}

void FaultPlan::fail_nth(Operation operation, std::uint64_t n, Failure failure) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = counts_[index(operation)] + n;
  faults_.push_back({operation, at, at, std::move(failure)});
}

void FaultPlan::fail_from(Operation operation, std::uint64_t n, Failure failure) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({operation, counts_[index(operation)] + n, forever, std::move(failure)});
}

void FaultPlan::fail_writes_under(std::string prefix, Failure failure) {
  const std::lock_guard lock(mutex_);
  bad_prefixes_.emplace_back(std::move(prefix), std::move(failure));
}

void FaultPlan::before_each(std::function<void(const Step&)> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void FaultPlan::delay(Operation operation, std::chrono::microseconds time) {
  const std::lock_guard lock(mutex_);
  delays_[index(operation)] = time;
}

void FaultPlan::heal() {
  const std::lock_guard lock(mutex_);
  delays_ = {};
  faults_.clear();
  bad_prefixes_.clear();
  hook_ = nullptr;
}

std::uint64_t FaultPlan::count(Operation operation) const {
  const std::lock_guard lock(mutex_);
  return counts_[index(operation)];
}

std::uint64_t FaultPlan::count() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

Result<void> FaultPlan::begin(Operation operation, const std::string& path) {
  std::unique_lock lock(mutex_);
  const std::uint64_t nth = ++counts_[index(operation)];
  const Step step{operation, path, std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0})};
  const auto hook = hook_;
  const auto delay = delays_[index(operation)];
  lock.unlock();
  if (hook) hook(step);
  if (delay.count() > 0) std::this_thread::sleep_for(delay);
  lock.lock();
  return verdict(operation, nth, path);
}

Result<void> FaultPlan::verdict(Operation operation, std::uint64_t nth, const std::string& path) const {
  for (const Fault& fault : faults_)
    if (fault.operation == operation && fault.first <= nth && nth <= fault.last) return fault.failure;
  if (operation != Operation::write && operation != Operation::resize) return {};
  for (const auto& [prefix, failure] : bad_prefixes_)
    if (path.starts_with(prefix)) return failure;
  return {};
}

std::unique_ptr<Store> make_faulty_store(std::shared_ptr<Store> inner, std::shared_ptr<FaultPlan> plan) {
  return std::make_unique<FaultyStore>(std::move(inner), std::move(plan));
}

}  // namespace backstay::store
