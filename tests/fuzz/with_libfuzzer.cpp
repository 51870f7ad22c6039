// What libFuzzer calls. Beside its own mutations of bytes there is one of words and objects, so that much of what is
// made is still JSON; and most inputs get the checksums that fit, or nothing behind a checksum would ever be reached.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <random>

#include "target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {
using backstay::Bytes;
using backstay::ByteView;
using Random = std::minstd_rand;

constexpr std::array awkward{"0",
                             "-1",
                             "1",
                             "255",
                             "256",
                             "2147483647",
                             "2147483648",
                             "4294967296",
                             "1152921504606846976",
                             "4611686018427387904",
                             "9223372036854775807",
                             "18446744073709551615",
                             "18446744073709551616",
                             "1e400",
                             "-0.0",
                             "null",
                             "[]",
                             "{}",
                             "\"\"",
                             "\"\\u0000\"",
                             "\"..\"",
                             "\"manifest\"",
                             "[0,0,0,0,0,0,0,0]",
                             "[4294967296,4294967296]",
                             "\"S1152921504606846976\"",
                             "\"V1\"",
                             "{\"size\":8,\"members\":[]}"};

struct Span {
  std::size_t at;
  std::size_t size;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.'; }

/// The object, list or text that begins at `at`; only that byte where it does not end.
Span balanced(const std::string& text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quoted)
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '{' || c == '['))
      ++depth;
    else if (!quoted && (c == '}' || c == ']'))
      --depth;
    if (!quoted && depth <= 0) return {at, std::min(i, text.size() - 1) - at + 1};
  }
  return {at, 1};
}

/// A word, text, object or list near `from`.
Span value_near(const std::string& text, std::size_t from) {
  std::size_t at = from;
  while (at < text.size() && !is_word(text[at]) && std::strchr("{[\"", text[at]) == nullptr) ++at;
  if (at >= text.size()) return {from, 0};
  if (!is_word(text[at])) return balanced(text, at);
  while (at > 0 && is_word(text[at - 1])) --at;
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  return {at, end - at};
}

std::string with_other_values(std::string text, Random& random) {
  const Span here = value_near(text, random() % text.size());
  const Span there = value_near(text, random() % text.size());
  const std::string other = text.substr(there.at, there.size);
  switch (random() % 5) {
    case 0:
      return text.replace(here.at, here.size, awkward[random() % awkward.size()]);
    case 1:
      return text.replace(here.at, here.size, other);
    case 2:  // twice, as in a list
      return text.insert(here.at, text.substr(here.at, here.size) + ",");
    case 3:  // away, with its comma
      return text.erase(here.at, here.size + (text[here.at + here.size] == ',' ? 1 : 0));
    default:  // a longer or shorter number
      return text.insert(here.at + here.size, std::to_string(random() % 100));
  }
}

std::size_t put(const Bytes& bytes, std::uint8_t* data, std::size_t size, std::size_t most) {
  if (bytes.empty() || bytes.size() > most) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Random random(seed);
  const auto view = [&] { return ByteView(reinterpret_cast<const std::byte*>(data), size); };
  if (size > 0 && random() % 2 == 0) {
    std::string text(backstay::as_text(view()));
    for (auto n = 1 + random() % 3; n > 0 && !text.empty(); --n) text = with_other_values(std::move(text), random);
    size = put(backstay::fuzz::bytes_of(text), data, size, most);
  } else {
    size = LLVMFuzzerMutate(data, size, most);
  }
  if (random() % 8 == 0) return size;  // as it is: what comes before the checksums is to be read, too
  return put(backstay::fuzz::repaired(Bytes(view().begin(), view().end())), data, size, most);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  backstay::fuzz::try_input({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
