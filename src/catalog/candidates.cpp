#include "catalog/candidates.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/crc32c.h"
#include "base/text.h"
#include "base/wire.h"
#include "format/data_file.h"
#include "format/parity_file.h"

namespace backstay::catalog {

namespace {
/// A store's holding of the line in question.
struct Part {
  std::size_t store;
  const Holding* holding;
};

/// A manifest that stores have, and its bytes.
struct Known {
  format::Manifest manifest;
  SharedBytes bytes;
};

/// The manifests of this line, each once, newest first. None: `out` says why.
std::vector<Known> known_manifests(const std::vector<Part>& parts, Candidate& out) {
  // What a person must hear of, and what a person may mend, before what is lost.
  const auto weight = [](Code code) { return code == Code::version ? 2 : code == Code::io ? 1 : 0; };
  const auto note = [&](Code code, std::string why) {
    if (weight(code) < weight(out.code)) return;
    out.code = code;
    out.trouble = std::move(why);
  };
  std::vector<Known> known;
  for (const auto& part : parts) {
    if (const std::string& why = part.holding->unreadable; !why.empty()) {
      note(Code::io, why);
      continue;
    }
    const SharedBytes& bytes = part.holding->manifest;
    if (bytes.empty() || std::ranges::any_of(known, [&](const Known& k) { return k.bytes == bytes; })) continue;
    auto manifest = format::decode_manifest(bytes);
    if (manifest && manifest->line == out.line) {
      known.push_back({std::move(*manifest), bytes});
      continue;
    }
    if (manifest)
      note(Code::corrupt, cat("its manifest is that of line ", manifest->line));
    else
      note(manifest.failure().code, manifest.failure().what);
  }
  std::ranges::stable_sort(known, std::greater<>(), [](const Known& k) { return k.manifest.time; });
  return known;
}

/// The files of a line in all stores, by name: there are as many stores as ranks, and as many names.
class Files {
 public:
  explicit Files(const std::vector<Part>& parts) {
    for (const auto& part : parts)
      for (const auto& [name, size] : part.holding->files) by_name_[name].push_back({part.store, size});
  }
  /// Ascending.
  [[nodiscard]] std::vector<std::size_t> stores_with(const std::string& name, std::uint64_t size) const {
    std::vector<std::size_t> out;
    if (const auto found = by_name_.find(name); found != by_name_.end())
      for (const auto& [store, there] : found->second)
        if (there == size) out.push_back(store);
    return out;
  }

 private:
  std::unordered_map<std::string, std::vector<std::pair<std::size_t, std::uint64_t>>> by_name_;
};

/// A member of which anything is missing counts as lost.
void find_groups(const Files& there, Candidate& out) {
  std::map<int, const format::DataFile*> files;
  for (const auto& file : out.manifest.files) files[file.ranks.front()] = &file;
  for (std::size_t g = 0; g < out.manifest.groups.size(); ++g) {
    const auto& group = out.manifest.groups[g];
    GroupStores stores(group.members.size());
    for (std::size_t m = 0; m < stores.size(); ++m) {
      const auto* file = m < group.owners ? files.at(group.members[m]) : nullptr;
      const std::string parity = format::parity_file_name(static_cast<int>(g), group.members[m]);
      const auto with_file = file != nullptr ? there.stores_with(file->name, file->size) : std::vector<std::size_t>();
      for (const std::size_t store : there.stores_with(parity, parity_file_size(group)))
        if (file == nullptr || std::ranges::binary_search(with_file, store)) stores[m] = store;
      out.complete = out.complete && stores[m];
    }
    out.groups.push_back(std::move(stores));
  }
}

/// Why a file without a source cannot be rebuilt; empty if it can, or has no parity.
std::string why_not_from_parity(const Candidate& line, int rank) {
  const int g = group_of(line.manifest, rank);
  if (g < 0) return "it has no parity";
  const auto& stores = line.groups[static_cast<std::size_t>(g)];
  const int parities = line.manifest.groups[static_cast<std::size_t>(g)].parities;
  const auto lost = std::count(stores.begin(), stores.end(), std::nullopt);
  if (lost <= parities) return {};
  return cat(lost, " of the ", stores.size(), " ranks of its parity group are lost, which has ", parities,
             parities == 1 ? " parity" : " parities");
}

void find_sources(const Files& there, Candidate& out) {
  for (const auto& file : out.manifest.files) {
    std::vector<Source> found;
    std::size_t originals = 0, copies = 0;
    for (const bool copy : {false, true}) {
      const std::string name = copy ? format::copy_name(file.name) : file.name;
      for (const std::size_t store : there.stores_with(name, file.size)) {
        found.push_back({store, name});
        ++(copy ? copies : originals);
      }
    }
    const std::string why = found.empty() ? why_not_from_parity(out, file.ranks.front()) : "";
    if (!why.empty() && out.trouble.empty()) {
      out.code = Code::corrupt;
      const std::string copy = file.copy_node >= 0           ? cat(", and so is its copy on node ", file.copy_node)
                               : out.manifest.groups.empty() ? ""
                                                             : "; " + why;
      out.trouble = cat(file.name, file.node < 0 ? "" : cat(" of node ", file.node), " is missing or has not the ",
                        file.size, " bytes that the manifest says", copy);
    }
    out.complete = out.complete && originals > 0 && (file.copy_node < 0 || copies > 0);
    out.sources.push_back(std::move(found));
  }
}

/// A store with files of the line but not its manifest: a job died between two renames, and now the line hangs on the
/// other stores.
bool lacks_a_manifest(const std::vector<Part>& parts, const Known& chosen) {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    if (part.holding->files.empty() || part.holding->manifest == chosen.bytes) return false;
    const auto here = format::decode_manifest(part.holding->manifest);
    return !here || *here != chosen.manifest;
  });
}

/// What the stores have of the line, if `known` is its manifest.
Candidate by_manifest(Candidate line, const Known& known, const std::vector<Part>& parts, const Files& files) {
  line.manifest = known.manifest;
  line.code = Code::ok;
  line.trouble.clear();
  find_groups(files, line);
  find_sources(files, line);
  line.complete = line.complete && !lacks_a_manifest(parts, known);
  return line;
}

/// By the first manifest for which all of it is there. A store may hold another one: it was away while the others wrote
/// the line again, or it was damaged.
Candidate candidate(std::uint64_t number, int level, const std::vector<Part>& parts) {
  Candidate line;
  line.line = number;
  line.level = level;
  const auto known = known_manifests(parts, line);
  const Files files(parts);
  std::optional<Candidate> best;
  for (const auto& each : known) {
    Candidate found = by_manifest(line, each, parts, files);
    if (found.trouble.empty()) return found;
    if (!best) best = std::move(found);
  }
  return best ? std::move(*best) : line;
}
}  // namespace

namespace {
/// FNV-1a.
std::uint64_t hash_of(ByteView bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  return hash;
}

ManifestKey key_of(ByteView manifest) {
  if (manifest.empty()) return {};
  return {manifest.size(), hash_of(manifest), crc32c(manifest)};
}

void write_key(WireWriter& out, const ManifestKey& key) {
  out.number(key.size);
  out.number(key.hash);
  out.number(key.crc);
}

ManifestKey read_key(WireReader& in) {
  ManifestKey key;
  key.size = in.number<std::uint64_t>();
  key.hash = in.number<std::uint64_t>();
  key.crc = in.number<std::uint32_t>();
  return key;
}

/// `manifest_of(key)` gives what is held under a key that is not that of none.
template <class ManifestOf>
std::vector<StoreContents> read_contents(ByteView bytes, const ManifestOf& manifest_of) {
  std::vector<StoreContents> all;
  for (WireReader in(bytes); !in.at_end() && in.complete();) {
    StoreContents store;
    store.level = in.number<int>();
    store.server = in.number<int>();
    if (const auto code = static_cast<Code>(in.number<std::uint8_t>()); code != Code::ok) {
      store.state = Failure{code, in.text()};
      store.seen = in.number<std::uint8_t>() != 0;
    }
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.complete(); --n) {
      Holding h;
      h.line = in.number<std::uint64_t>();
      if (const auto key = read_key(in); key != ManifestKey{}) h.manifest = manifest_of(key);
      h.unreadable = in.text();
      for (auto files = in.number<std::uint64_t>(); files > 0 && in.complete(); --files) {
        const std::string name = in.text();
        h.files[name] = in.number<std::uint64_t>();
      }
      store.holdings.push_back(std::move(h));
    }
    all.push_back(std::move(store));
  }
  return all;
}
}  // namespace

Manifests manifests_of(const std::vector<StoreContents>& contents) {
  Manifests out;
  for (const auto& store : contents)
    for (const auto& h : store.holdings)
      if (!h.manifest.empty()) out.emplace(key_of(h.manifest), h.manifest);
  return out;
}

Bytes encode_manifests(const Manifests& manifests) {
  WireWriter out;
  for (const auto& [key, manifest] : manifests) out.bytes(manifest);
  return out.message();
}

void decode_manifests(ByteView bytes, Manifests& into) {
  for (WireReader in(bytes); !in.at_end() && in.complete();) {
    const ByteView manifest = in.bytes();
    if (!manifest.empty()) into.emplace(key_of(manifest), Bytes(manifest.begin(), manifest.end()));
  }
}

Bytes encode_contents(const std::vector<StoreContents>& contents) {
  WireWriter out;
  for (const auto& store : contents) {
    out.number(store.level);
    out.number(store.server);
    out.number(static_cast<std::uint8_t>(store.state ? Code::ok : store.state.failure().code));
    if (!store.state) {
      out.text(store.state.failure().what);
      out.number(static_cast<std::uint8_t>(store.seen));
    }
    out.number(static_cast<std::uint64_t>(store.holdings.size()));
    for (const auto& h : store.holdings) {
      out.number(h.line);
      write_key(out, key_of(h.manifest));
      out.text(h.unreadable);
      out.number(static_cast<std::uint64_t>(h.files.size()));
      for (const auto& [name, size] : h.files) {
        out.text(name);
        out.number(size);
      }
    }
  }
  return out.message();
}

std::vector<StoreContents> decode_contents(ByteView bytes, const Manifests& manifests) {
  const SharedBytes damaged(Bytes(1));
  return read_contents(bytes, [&](const ManifestKey& key) {
    const auto found = manifests.find(key);
    return found != manifests.end() ? found->second : damaged;
  });
}

std::vector<ManifestKey> keys_in(ByteView bytes) {
  std::vector<ManifestKey> keys;
  (void)read_contents(bytes, [&](const ManifestKey& key) {
    keys.push_back(key);
    return SharedBytes();
  });
  return keys;
}

std::vector<Candidate> candidates(const std::vector<StoreContents>& contents) {
  std::map<std::pair<std::uint64_t, int>, std::vector<Part>> by_line;
  for (std::size_t s = 0; s < contents.size(); ++s)
    for (const auto& h : contents[s].holdings) by_line[{h.line, contents[s].level}].push_back({s, &h});

  std::vector<Candidate> out;
  for (const auto& [key, parts] : by_line) {
    if (std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.holding->manifest.empty(); })) continue;
    out.push_back(candidate(key.first, key.second, parts));
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    return a.line != b.line ? a.line > b.line : a.level < b.level;
  });
  return out;
}

int group_of(const format::Manifest& manifest, int rank) {
  for (std::size_t g = 0; g < manifest.groups.size(); ++g) {
    const auto& members = manifest.groups[g].members;
    const auto owners = members.begin() + static_cast<std::ptrdiff_t>(manifest.groups[g].owners);
    if (std::find(members.begin(), owners, rank) != owners) return static_cast<int>(g);
  }
  return -1;
}

std::uint64_t newest_number(const std::vector<StoreContents>& contents) {
  std::uint64_t newest = 0;
  for (const auto& store : contents)
    for (const auto& h : store.holdings) newest = std::max(newest, h.line);
  return newest;
}

}  // namespace backstay::catalog
