// Success or one sentence. Used everywhere inside; the api layer turns failures into exceptions and codes.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "backstay/error.hpp"

namespace backstay {

/// Why something did not work: a code for programs and a sentence for people.
struct Failure {
  Code code = Code::internal;
  std::string what;
};

/// Joins parts into one sentence; numbers are printed in decimal.
template <class... Parts>
std::string cat(const Parts&... parts);

/// Failure{code, cat(parts...)}.
template <class... Parts>
Failure fail(Code code, const Parts&... parts) {
  return {code, cat(parts...)};
}

template <class T = void>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}            // NOLINT: implicit by design
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}  // NOLINT

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  [[nodiscard]] const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)), ok_(false) {}  // NOLINT

  [[nodiscard]] bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  [[nodiscard]] const Failure& failure() const { return failure_; }

 private:
  Failure failure_;
  bool ok_ = true;
};

/// Returns from the calling function with the failure of `expression`, if it has one.
#define BACKSTAY_TRY(expression)                                                  \
  do {                                                                            \
    if (auto try_result = (expression); !try_result) return try_result.failure(); \
  } while (false)

namespace detail {
inline void append(std::string& out, const std::string& s) { out += s; }
inline void append(std::string& out, std::string_view s) { out += s; }
inline void append(std::string& out, const char* s) { out += s; }
inline void append(std::string& out, char c) { out += c; }
template <class N>
  requires std::is_arithmetic_v<N>
void append(std::string& out, N n) {
  out += std::to_string(n);
}
}  // namespace detail

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

}  // namespace backstay
