// What a program that is replayed does next, as far as it is known: it is passed without a call of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace backstay::detail {

/// A part of the way that a program goes again: computations that are skipped, and results. The library fills it in and
/// reads off how far the program has come; it is empty unless a replay skips computations.
class Ahead {
 public:
  using Symbol = std::uint32_t;
  static constexpr Symbol of_computation(int number) { return (static_cast<Symbol>(number) + 1) << 1; }
  static constexpr std::size_t largest_result = (std::size_t{1} << 31) - 1;
  static constexpr Symbol of_result(std::size_t bytes) { return static_cast<Symbol>(bytes) << 1 | 1; }

  Ahead() = default;
  /// `values`: of the results, one after the other. Both must outlive this.
  Ahead(std::span<const Symbol> events, const std::byte* values)
      : begin_(events.data()), next_(begin_), stop_(begin_ + events.size()), end_(stop_), values_(values) {}

  /// The computation is next, and is passed. False: nothing has changed.
  bool skip(int computation) { return pass(of_computation(computation)); }
  /// A result of that size is next: it is passed, and this is what it was.
  bool give(std::span<std::byte> value) {
    if (value.size() > largest_result || !pass(of_result(value.size()))) return false;
    if (!value.empty()) std::memcpy(value.data(), values_, value.size());
    values_ += value.size();
    return true;
  }
  /// Nothing is next until go_on(): a computation that was skipped is still open.
  void pause() { stop_ = next_; }
  void go_on() { stop_ = end_; }
  [[nodiscard]] bool is_paused() const { return stop_ != end_; }

  [[nodiscard]] std::size_t passed() const { return static_cast<std::size_t>(next_ - begin_); }
  /// Of the results that are still to come.
  [[nodiscard]] const std::byte* values() const { return values_; }

 private:
  bool pass(Symbol symbol) {
    if (next_ == stop_ || *next_ != symbol) return false;
    ++next_;
    return true;
  }

  const Symbol *begin_ = nullptr, *next_ = nullptr;
  const Symbol *stop_ = nullptr, *end_ = nullptr;
  const std::byte* values_ = nullptr;
};

}  // namespace backstay::detail
