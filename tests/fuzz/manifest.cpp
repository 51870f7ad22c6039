// A manifest, as it is read from a directory.
#include "format/manifest.h"

#include "samples.h"
#include "target.h"

namespace backstay::fuzz {

void try_input(ByteView input) {
  const auto manifest = format::decode_manifest(input);
  if (!manifest) {
    const Code code = manifest.failure().code;
    expect(code == Code::corrupt || code == Code::version, "a bad manifest is corrupt or of another version");
    return;
  }
#ifdef BACKSTAY_FUZZ_SEEDED_BUG
  // As if a number were kept in 32 bits. Behind the checksum, the JSON and all checks of the decoder: the campaign has
  // to come here.
  expect(manifest->groups.empty() || manifest->call == static_cast<std::uint32_t>(manifest->call), "the seeded bug");
#endif
  const auto again = format::decode_manifest(format::encode_manifest(*manifest));
  expect(again.ok(), "a manifest that was read can be read when it is written again");
  expect(*again == *manifest, "a manifest comes back as it was");
  expect(static_cast<std::size_t>(manifest->ranks) <= input.size(), "every rank is named");
}

Bytes repaired(Bytes input) { return bytes_of(with_right_first_line(std::string(as_text(input)))); }

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const auto& manifest : sample_manifests()) out.push_back(format::encode_manifest(manifest));
  return out;
}

}  // namespace backstay::fuzz
