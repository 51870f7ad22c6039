// Small conversions between numbers and text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace backstay {

/// "1 rank", "3 ranks".
std::string counted(std::int64_t n, std::string_view thing);

/// Eight lower-case hexadecimal digits.
std::string hex8(std::uint32_t n);
/// Sixteen lower-case hexadecimal digits.
std::string hex16(std::uint64_t n);
/// Exactly eight hexadecimal digits, lower case; nothing otherwise.
std::optional<std::uint32_t> parse_hex8(std::string_view text);
/// Decimal digits only, no sign, no leading or trailing space; nothing on overflow.
std::optional<std::uint64_t> parse_decimal(std::string_view text);
/// A number without or with a fraction, not negative, finite; nothing otherwise.
std::optional<double> parse_real(std::string_view text);
/// Pieces between separators; no pieces for an empty text.
std::vector<std::string> split(std::string_view text, char separator);
/// A number with leading zeros to `width` digits.
std::string padded(std::uint64_t n, int width);
/// "1.5 GiB", "312 MiB", "17 bytes".
std::string human_bytes(double bytes);
/// A time with three digits: "12.3 ms", "1.25 s".
std::string human_seconds(double seconds);
/// The one of `candidates` with the least edit distance to `word` (Levenshtein); empty if there are none.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace backstay
