// The first page of a data file and of a parity file.
#include <algorithm>

#include "base/crc32c.h"
#include "base/text.h"
#include "format/data_file.h"
#include "format/parity_file.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
template <class T>
void expect_refusal(const Result<T>& result) {
  const Code code = result.failure().code;
  expect(code == Code::corrupt || code == Code::version, "a bad header is corrupt or of another version");
}

void try_data_header(ByteView page) {
  const auto header = format::decode_header(page);
  if (!header) return expect_refusal(header);
  expect(header->table_offset + header->table_length <= header->size && header->hdf5_offset <= header->size,
         "what a header names lies inside its file");
  const auto again = format::decode_header(format::encode_header(*header));
  expect(again.ok() && *again == *header, "a header comes back as it was");
}

void try_parity_header(ByteView page) {
  const auto header = format::decode_parity_header(page);
  if (!header) return expect_refusal(header);
  const auto again = format::decode_parity_header(format::encode_parity_header(*header));
  expect(again.ok() && *again == *header, "a parity header comes back as it was");
}
}  // namespace

void try_input(ByteView input) {
  try_data_header(input);
  try_parity_header(input);
  Bytes page(input.begin(),
             input.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(input.size(), format::page)));
  page.resize(format::page);  // as it is read from a file
  try_data_header(page);
  try_parity_header(page);
}

Bytes repaired(Bytes input) {
  const std::string text(as_text(input));
  const auto end = text.find('\n'), sum = text.rfind(" crc ", end);
  if (end == text.npos || sum == text.npos || sum > end) return input;
  const std::string line = text.substr(0, sum + 5);
  return bytes_of(line + hex8(crc32c(as_bytes(line))) + text.substr(end));
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const auto& header :
       {format::Header{8192, 300, 1, 12288, 5000, 2, 17288}, format::Header{8192, 0, 0, 8192, 0, 0, 8192}})
    out.push_back(format::encode_header(header));
  for (const auto& header : {format::ParityHeader{"00c0ffee00c0ffee", 42, 0, 3, {1, 2, 0xdeadbeef}},
                             format::ParityHeader{"", 0, 0, 0, std::vector<std::uint32_t>(255)}})
    out.push_back(format::encode_parity_header(header));
  for (auto& page : out) page.erase(std::find(page.begin(), page.end(), std::byte{0}), page.end());
  return out;
}

}  // namespace backstay::fuzz
