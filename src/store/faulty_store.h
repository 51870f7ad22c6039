// A store that fails, waits or stops where a test says so.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "store/store.h"

namespace backstay::store {

enum class Operation { open, write, read, resize, sync, list, rename, remove, make_dir, sync_dir };
inline constexpr std::size_t operation_kinds = 10;

/// "open", "write", ...
const char* name_of(Operation operation);

/// What goes wrong, and when; shared by a test and any number of stores. Thread-safe. An operation that is made to fail
/// does not reach the store behind.
class FaultPlan {
 public:
  struct Step {
    Operation operation = Operation::open;
    std::string path;          ///< of a rename: where it is from
    std::uint64_t number = 0;  ///< 1, 2, ... over operations of all kinds
  };

  /// The nth operation of this kind from now fails, once; n = 1 is the next.
  void fail_nth(Operation operation, std::uint64_t n, Failure failure);
  /// The nth and all later ones fail: a disk that stays full.
  void fail_from(Operation operation, std::uint64_t n, Failure failure);
  /// Writes and resizes of files whose path begins with `prefix` fail.
  void fail_writes_under(std::string prefix, Failure failure);
  /// Called before each operation, on its thread, with no lock held: it may raise SIGKILL, block, or change this plan.
  void before_each(std::function<void(const Step&)> hook);
  /// Every operation of this kind takes that much longer.
  void delay(Operation operation, std::chrono::microseconds time);
  /// Forgets faults, hook and delays; keeps the counts.
  void heal();

  [[nodiscard]] std::uint64_t count(Operation operation) const;
  /// Operations of all kinds.
  [[nodiscard]] std::uint64_t count() const;

  /// For the store: counts an operation, calls the hook, waits, and says whether it fails.
  Result<void> begin(Operation operation, const std::string& path);

 private:
  struct Fault {
    Operation operation;
    std::uint64_t first;
    std::uint64_t last;
    Failure failure;
  };
  [[nodiscard]] Result<void> verdict(Operation operation, std::uint64_t nth, const std::string& path) const;

  mutable std::mutex mutex_;
  std::array<std::uint64_t, operation_kinds> counts_{};
  std::array<std::chrono::microseconds, operation_kinds> delays_{};
  std::vector<Fault> faults_;
  std::vector<std::pair<std::string, Failure>> bad_prefixes_;
  std::function<void(const Step&)> hook_;
};

/// `inner` with the faults of `plan`. Several may share an `inner`: a job and the one that is launched after it.
std::unique_ptr<Store> make_faulty_store(std::shared_ptr<Store> inner, std::shared_ptr<FaultPlan> plan);

}  // namespace backstay::store
