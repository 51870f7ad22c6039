#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace backstay {

namespace {
std::string hex(std::uint64_t n, int digits) {
  static constexpr char alphabet[] = "0123456789abcdef";
  std::string out(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = out.size(); i-- > 0; n >>= 4) out[i] = alphabet[n & 15];
  return out;
}

std::string formatted(const char* format, double value, const char* unit) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return std::string(buffer.data()) + " " + unit;
}

std::string three_digits(double value, const char* unit) {
  return formatted(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value, unit);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, replaced});
    }
  }
  return row[b.size()];
}
}  // namespace

std::string hex8(std::uint32_t n) { return hex(n, 8); }
std::string hex16(std::uint64_t n) { return hex(n, 16); }

std::optional<std::uint32_t> parse_hex8(std::string_view text) {
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != text.npos) return {};
  std::uint32_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n, 16);
  return n;
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return {};
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return n;
}

std::optional<double> parse_real(std::string_view text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(x) || x < 0) return {};
  return x;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const auto at = text.find(separator);
    pieces.emplace_back(text.substr(0, at));
    if (at == text.npos) return pieces;
    text.remove_prefix(at + 1);
    if (text.empty()) pieces.emplace_back();
  }
  return pieces;
}

std::string padded(std::uint64_t n, int width) {
  std::string digits = std::to_string(n);
  if (digits.size() < static_cast<std::size_t>(width))
    digits.insert(0, static_cast<std::size_t>(width) - digits.size(), '0');
  return digits;
}

std::string human_bytes(double bytes) {
  static constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return formatted("%.0f", bytes, "bytes");
  std::size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit + 1 < units.size(); bytes /= 1024) ++unit;
  return three_digits(bytes, units[unit]);
}

std::string counted(std::int64_t n, std::string_view thing) {
  return std::to_string(n) + " " + std::string(thing) + (n == 1 ? "" : "s");
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3) return three_digits(seconds * 1e6, "us");
  if (seconds < 1) return three_digits(seconds * 1e3, "ms");
  return three_digits(seconds, "s");
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const auto best = std::min_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  });
  return best == candidates.end() ? std::string() : *best;
}

}  // namespace backstay
