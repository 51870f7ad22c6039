// What the example programs do alike with their arguments.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace program {

/// `range` says in words what `least` and `most` are. Throws std::invalid_argument with a sentence.
template <class T>
T number(const std::string& option, const std::string& text, T least, T most, const char* range) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    throw std::invalid_argument(option + " takes a number from " + range + ", not '" + text + "'");
  return value;
}

/// One argument, which may take the next as its value: `--name value` or `--name=value`.
class Argument {
 public:
  /// `at` is counted on when the next argument is taken.
  Argument(const char* program, const std::vector<std::string>& all, std::size_t& at)
      : program_(program), all_(all), at_(at), name_(all[at]) {
    if (const auto equals = name_.find('='); name_.starts_with("--") && equals != std::string::npos) {
      attached_ = name_.substr(equals + 1);
      name_.resize(equals);
    }
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  std::string value() {
    if (attached_) return *std::exchange(attached_, std::nullopt);
    if (at_ + 1 == all_.size()) throw std::invalid_argument(name_ + " needs a value" + advice());
    return all_[++at_];
  }
  void require_no_value() const {
    if (attached_) throw std::invalid_argument(name_ + " takes no value" + advice());
  }
  [[noreturn]] void refuse() const { throw std::invalid_argument("unknown option '" + all_[at_] + "'" + advice()); }

 private:
  [[nodiscard]] std::string advice() const { return std::string("; see ") + program_ + " --help"; }

  const char* program_;
  const std::vector<std::string>& all_;
  std::size_t& at_;
  std::string name_;
  std::optional<std::string> attached_;
};

}  // namespace program
