// What the loops of a solver do to its arrays, and who is told of them.
#pragma once

#include <array>
#include <bit>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace program {

enum class Mode {
  read,
  write,   ///< every element, whatever it held
  update,  ///< every element, after reading it
};

template <class Field>
struct Use {
  Field field;
  Mode mode;
};
template <class Field>
Use<Field> reads(Field field) {
  return {field, Mode::read};
}
template <class Field>
Use<Field> writes(Field field) {
  return {field, Mode::write};
}
template <class Field>
Use<Field> updates(Field field) {
  return {field, Mode::update};
}

/// Of the elements that a rank owns, without halos.
template <class Loop, class Field>
struct LoopUses {
  Loop loop;
  std::string name;
  std::vector<Use<Field>> uses;
};

/// Is told of each loop before it runs, and of what it returned.
template <class Loop>
class LoopWatch {
 public:
  /// `before` gives whether the loop runs: no, if what it does is known already. `returned` is given what a loop
  /// returned, in the other case the place for it.
  void watch(std::function<bool(Loop)> before, std::function<void(std::span<double>)> returned = {}) {
    before_ = std::move(before);
    returned_ = std::move(returned);
  }
  [[nodiscard]] bool begins(Loop loop) const { return !before_ || before_(loop); }
  /// `value`, or what it was: it is made of numbers.
  template <class Value>
  [[nodiscard]] Value returns(Value value) const {
    static_assert(sizeof(Value) % sizeof(double) == 0, "a loop returns numbers");
    if (!returned_) return value;
    auto numbers = std::bit_cast<std::array<double, sizeof(Value) / sizeof(double)>>(value);
    returned_(numbers);
    return std::bit_cast<Value>(numbers);
  }

 private:
  std::function<bool(Loop)> before_;
  std::function<void(std::span<double>)> returned_;
};

}  // namespace program
