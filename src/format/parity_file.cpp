#include "format/parity_file.h"

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace backstay::format {

namespace {
constexpr std::string_view magic = "backstay parity ";
Failure damaged(std::string_view why) { return fail(Code::corrupt, "the parity header is damaged: ", why); }
}  // namespace

Bytes encode_parity_header(const ParityHeader& header) {
  std::string line = cat(magic, format_version, ' ', header.job, ' ', header.line, ' ', header.group, ' ', header.rank);
  for (const auto sum : header.sums) line += cat(' ', hex8(sum));
  line += '\n';
  Bytes out(page);
  std::copy_n(as_bytes(line).begin(), std::min<std::size_t>(line.size(), page), out.begin());
  return out;
}

Result<ParityHeader> decode_parity_header(ByteView first_page) {
  const std::string_view all = as_text(first_page);
  const auto end = all.find('\n');
  if (end == all.npos || !all.starts_with(magic)) return damaged("its first line is not that of a parity file");
  if (std::any_of(first_page.begin() + static_cast<std::ptrdiff_t>(end) + 1, first_page.end(),
                  [](std::byte b) { return b != std::byte{0}; }))
    return damaged("bytes after its first line were altered");
  const auto words = split(all.substr(magic.size(), end - magic.size()), ' ');
  const auto version = words.empty() ? std::nullopt : parse_decimal(words[0]);
  if (!version) return damaged("its first line is not that of a parity file");
  if (*version != format_version)
    return fail(Code::version, "it is of format version ", *version, ", and this backstay reads version ",
                format_version);
  if (words.size() < 5) return damaged("its first line is too short");
  ParityHeader out;
  out.job = words[1];
  const auto line = parse_decimal(words[2]), group = parse_decimal(words[3]), rank = parse_decimal(words[4]);
  constexpr std::uint64_t most = 1u << 30;
  if (!line || !group || *group > most || !rank || *rank > most) return damaged("a number of its first line is none");
  out.line = *line;
  out.group = static_cast<int>(*group);
  out.rank = static_cast<int>(*rank);
  for (std::size_t i = 5; i < words.size(); ++i) {
    const auto sum = parse_hex8(words[i]);
    if (!sum) return damaged("a checksum of its first line is none");
    out.sums.push_back(*sum);
  }
  return out;
}

std::string parity_file_name(int group, int rank) {
  return cat("parity-", padded(static_cast<std::uint64_t>(group), 5), "-of-rank-",
             padded(static_cast<std::uint64_t>(rank), 5));
}

}  // namespace backstay::format
