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
using Random = std::mt19937;  // the seeds come from an LCG: one more would only repeat its pattern

constexpr std::array awkward_numbers{"0",
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
                                     "-0.0"};
constexpr std::array awkward_values{"null",
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

/// What stands behind the next colon, comma or bracket, whole; or, every fourth time, the next word of any kind.
Span value_near(const std::string& text, std::size_t from, Random& random) {
  std::size_t at = text.find_first_of(random() % 4 == 0 ? " \n" : ":,[", from);
  at = at == text.npos ? from : at + 1;
  while (at < text.size() && !is_word(text[at]) && std::strchr("{[\"", text[at]) == nullptr) ++at;
  if (at >= text.size()) return {from, 0};
  if (!is_word(text[at])) return balanced(text, at);
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  return {at, end - at};
}

/// libFuzzer's own mutation, of the inside of a text or of a word alone.
std::string with_other_bytes(std::string text, Span where) {
  if (where.size > 2 && text[where.at] == '"') where = {where.at + 1, where.size - 2};
  std::array<std::uint8_t, 256> bytes{};
  if (where.size > bytes.size() / 2) return text;
  std::memcpy(bytes.data(), text.data() + where.at, where.size);
  const std::size_t size = LLVMFuzzerMutate(bytes.data(), where.size, bytes.size());
  return text.replace(where.at, where.size, reinterpret_cast<const char*>(bytes.data()), size);
}

/// In the place of what begins with `first`: mostly of the same kind.
const char* awkward(char first, Random& random) {
  const bool is_number = std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '-';
  if (is_number == (random() % 4 != 0)) return awkward_numbers[random() % awkward_numbers.size()];
  return awkward_values[random() % awkward_values.size()];
}

std::string with_other_values(std::string text, Random& random) {
  const Span here = value_near(text, random() % text.size(), random);
  const Span there = value_near(text, random() % text.size(), random);
  switch (random() % 7) {
    case 0:
    case 1:
      return text.replace(here.at, here.size, awkward(text[here.at], random));
    case 2:
      return text.replace(here.at, here.size, std::string(text, there.at, there.size));
    case 3:  // twice, as in a list
      return text.insert(here.at, text.substr(here.at, here.size) + ",");
    case 4:  // away, with its comma
      return text.erase(here.at, here.size + (text[here.at + here.size] == ',' ? 1 : 0));
    case 5:  // the rest of the line away
      return text.erase(here.at, std::min(text.find('\n', here.at), text.size()) - here.at);
    default:
      return with_other_bytes(std::move(text), here);
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
  if (random() % 4 == 0) {  // from the start again: the corpus fills up with what is refused early
    static const std::vector<Bytes> seeds = backstay::fuzz::seeds();
    size = put(seeds[random() % seeds.size()], data, size, most);
  }
  if (size > 0 && random() % 3 != 0) {
    std::string text(backstay::as_text(view()));
    for (auto n = random() % 4 == 0 ? 3 : 1; n > 0 && !text.empty(); --n)
      text = with_other_values(std::move(text), random);
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
