// Which lines could be put back, and where each of their files can be had. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace backstay::catalog {

/// All that one store holds of one level.
struct StoreContents {
  int level = 0;   ///< index into the session's levels
  int server = 0;  ///< the rank that can read this store for others
  std::vector<Holding> holdings;
  Result<void> state = {};  ///< a failure: it cannot be looked at, or nothing can be written there any more
  bool seen = true;         ///< it could be looked at
};

/// What tells manifests apart: most stores of a level have the same ones, as long as there are ranks, so ranks tell
/// each other which they have, and one of them what is in it.
struct ManifestKey {
  std::uint64_t size = 0, hash = 0;
  std::uint32_t crc = 0;
  auto operator<=>(const ManifestKey&) const = default;
};
using Manifests = std::map<ManifestKey, SharedBytes>;
Manifests manifests_of(const std::vector<StoreContents>& contents);
Bytes encode_manifests(const Manifests& manifests);
void decode_manifests(ByteView bytes, Manifests& into);

/// With the keys of manifests.
Bytes encode_contents(const std::vector<StoreContents>& contents);
/// One that is not among `manifests` is damaged.
std::vector<StoreContents> decode_contents(ByteView bytes, const Manifests& manifests);
/// Those of the manifests that such a message has.
std::vector<ManifestKey> keys_in(ByteView bytes);

/// A file of a line in one store: under its own name, or as a copy.
struct Source {
  std::size_t store = 0;  ///< index into the contents
  std::string name;
  bool operator<(const Source& o) const { return store != o.store ? store < o.store : name < o.name; }
  bool operator==(const Source&) const = default;
};

/// Where the members of a parity group are: for each the store that holds all of it, its file and its parity.
using GroupStores = std::vector<std::optional<std::size_t>>;

/// A committed line at one level.
struct Candidate {
  std::uint64_t line = 0;
  int level = 0;
  format::Manifest manifest;
  std::vector<std::vector<Source>> sources;  ///< for each file of the manifest, best first
  std::vector<GroupStores> groups;           ///< for each parity group of the manifest
  bool complete = true;                      ///< every original, copy, parity and manifest is in its place
  Code code = Code::ok;                      ///< of `trouble`
  std::string trouble;  ///< why it cannot be put back; empty: as far as names and sizes tell, it can
};

/// Newest first; at the same line number the lower level first.
/// Where stores have different manifests of a line, the newest counts of those whose files are there. A store that has
/// another one, or a damaged one, gives no manifest, but its files are still sources where names and sizes fit: their
/// tables are checked against the manifest before anything is read.
std::vector<Candidate> candidates(const std::vector<StoreContents>& contents);

/// A line's file without a source can be rebuilt if no more members of its parity group are lost than it has parities.
/// -1: the file of `rank` is in no group.
int group_of(const format::Manifest& manifest, int rank);

/// The largest line number seen anywhere, committed or not; 0 for none.
std::uint64_t newest_number(const std::vector<StoreContents>& contents);

}  // namespace backstay::catalog
