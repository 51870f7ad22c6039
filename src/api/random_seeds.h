// The seeds of tests that make random programs: more than usual, and others, where a campaign asks for them.
#pragma once

#include <cstdlib>
#include <ranges>

namespace backstay {

/// From RANDOM_SEED on, or 1, RANDOM_PROGRAMS of them, or the usual number.
inline auto random_seeds(unsigned usual) {
  const auto number = [](const char* variable, unsigned otherwise) {
    const char* given = std::getenv(variable);
    return given == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  };
  const unsigned first = number("RANDOM_SEED", 1);
  return std::views::iota(first, first + number("RANDOM_PROGRAMS", usual));
}

}  // namespace backstay
