// Messages between ranks: what WireReader makes of bytes, and the list of what stores hold.
#include "base/wire.h"

#include <algorithm>

#include "catalog/candidates.h"
#include "format/manifest.h"
#include "samples.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
/// One item of a message is read, and written again as it was read.
void read_one(char kind, WireReader& in, WireWriter& out) {
  switch (kind) {
    case 'b':
      return out.number(in.number<std::uint8_t>());
    case 'i':
      return out.number(in.number<int>());
    case 'd':
      return out.number(in.number<double>());
    case 't':
      return out.text(in.text());
    case 'y':
      return out.bytes(in.bytes());
    default:
      return out.number(in.number<std::uint64_t>());
  }
}

/// The input's first line says what to read of the rest.
void try_reader(ByteView input) {
  const auto at = std::min(as_text(input).find('\n'), input.size());
  const ByteView message = input.subspan(std::min(at + 1, input.size()));
  WireReader in(message);
  WireWriter out;
  bool was_complete = true;
  for (const char kind : as_text(input).substr(0, at)) {
    read_one(kind, in, out);
    expect(was_complete || !in.complete(), "what was incomplete stays so");
    was_complete = in.complete();
    if (!was_complete) continue;
    const ByteView written = out.message();
    expect(written.size() <= message.size() && std::equal(written.begin(), written.end(), message.begin()),
           "what was read is what was written");
  }
}

void try_contents(ByteView input) {
  catalog::Manifests manifests;
  catalog::decode_manifests(input, manifests);
  catalog::Manifests again;
  catalog::decode_manifests(catalog::encode_manifests(manifests), again);
  expect(again == manifests, "manifests come back as they were");
  const auto contents = catalog::decode_contents(input, manifests);
  const Bytes written = catalog::encode_contents(contents);
  const auto all = catalog::manifests_of(contents);
  expect(catalog::encode_contents(catalog::decode_contents(written, all)) == written,
         "contents come back as they were");
  for (const auto& candidate : catalog::candidates(contents))
    expect(!candidate.trouble.empty() || candidate.sources.size() == candidate.manifest.files.size(),
           "a line has sources for each of its files");
}
}  // namespace

void try_input(ByteView input) {
  try_reader(input);
  try_contents(input);
}

Bytes repaired(Bytes input) { return input; }

std::vector<Bytes> seeds() {
  std::vector<catalog::StoreContents> contents;
  for (const auto& manifest : sample_manifests()) {
    catalog::Holding holding{manifest.line, format::encode_manifest(manifest), {}};
    for (const auto& file : manifest.files) holding.files[file.name] = file.size;
    contents.push_back({static_cast<int>(contents.size()), 0, {holding, {manifest.line + 1, {}, {{"", 0}}}}});
  }
  WireWriter out;
  out.number(1);
  out.text("why");
  out.number(std::uint64_t{7});
  return {catalog::encode_contents(contents), catalog::encode_contents({}),
          catalog::encode_manifests(catalog::manifests_of(contents)),
          bytes_of("itu\n" + std::string(as_text(out.message())))};
}

}  // namespace backstay::fuzz
