// For tests of solvers: what their loops declare is what they do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "loop_uses.h"

namespace program {

/// Hides from each loop of `system` what it does not say that it reads, and sees to it that the loop changes nothing
/// else than it says. `visit_own(field, visit)` calls `visit(double&)` for each value of a field that this rank owns.
template <class System, class Loop, class Field>
class Blinkers {
 public:
  using VisitOwn = std::function<void(Field, const std::function<void(double&)>&)>;
  Blinkers(System& system, std::vector<LoopUses<Loop, Field>> loops, std::vector<Field> fields, VisitOwn visit_own)
      : loops_(std::move(loops)), fields_(std::move(fields)), visit_own_(std::move(visit_own)) {
    system.watch([this](Loop loop) {
      put_on(loop);
      return true;
    });
  }
  Blinkers(const Blinkers&) = delete;
  Blinkers& operator=(const Blinkers&) = delete;

  /// What was hidden last is there again.
  void take_off() {
    for (const auto& [field, values] : hidden_) {
      auto value = values.begin();
      bool untouched = true;
      visit_own_(field, [&](double& at) {
        untouched = untouched && std::isnan(at);
        at = *value++;
      });
      EXPECT_TRUE(untouched) << name_ << " changes " << name_of(field);
    }
    hidden_.clear();
  }
  [[nodiscard]] bool all_were_run() const { return run_.size() == loops_.size(); }

 private:
  void put_on(Loop next) {
    take_off();
    const auto uses = std::find_if(loops_.begin(), loops_.end(), [&](const auto& l) { return l.loop == next; });
    ASSERT_NE(uses, loops_.end()) << "a loop that is not declared";
    name_ = uses->name;
    run_.insert(name_);
    for (const Field field : fields_) {
      const auto use =
          std::find_if(uses->uses.begin(), uses->uses.end(), [&](const auto& u) { return u.field == field; });
      const bool is_used = use != uses->uses.end();
      if (is_used && use->mode != Mode::write) continue;
      std::vector<double> values;
      visit_own_(field, [&](double& at) { values.push_back(std::exchange(at, std::nan(""))); });
      if (!is_used) hidden_.emplace_back(field, std::move(values));
    }
  }

  std::vector<LoopUses<Loop, Field>> loops_;
  std::vector<Field> fields_;
  VisitOwn visit_own_;
  std::string name_;
  std::set<std::string> run_;
  std::vector<std::pair<Field, std::vector<double>>> hidden_;
};

}  // namespace program
