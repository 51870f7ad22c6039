#include "catalog/candidates.h"

#include <algorithm>
#include <map>

#include "base/wire.h"
#include "format/data_file.h"

namespace backstay::catalog {

namespace {
/// A store's holding of the line in question.
struct Part {
  std::size_t store;
  const Holding* holding;
};

/// The manifest that the stores agree on: the first that can be read.
void choose_manifest(const std::vector<Part>& parts, Candidate& out) {
  for (const auto& part : parts) {
    if (part.holding->manifest.empty()) continue;
    auto manifest = format::decode_manifest(part.holding->manifest);
    if (manifest && manifest->line == out.line) {
      out.manifest = std::move(*manifest);
      out.code = Code::ok;
      out.trouble.clear();
      return;
    }
    if (out.code == Code::version) continue;  // the one thing a person must hear of
    out.code = manifest ? Code::corrupt : manifest.failure().code;
    out.trouble = manifest ? cat("its manifest is that of line ", manifest->line) : manifest.failure().what;
  }
}

void find_sources(const std::vector<Part>& parts, Candidate& out) {
  for (const auto& file : out.manifest.files) {
    std::vector<Source> found;
    std::size_t originals = 0, copies = 0;
    for (const bool copy : {false, true}) {
      const std::string name = copy ? format::copy_name(file.name) : file.name;
      for (const auto& part : parts) {
        const auto it = part.holding->files.find(name);
        if (it == part.holding->files.end() || it->second != file.size) continue;
        found.push_back({part.store, name});
        ++(copy ? copies : originals);
      }
    }
    if (found.empty() && out.trouble.empty()) {
      out.code = Code::corrupt;
      const std::string copy = file.copy_node < 0 ? "" : cat(", and so is its copy on node ", file.copy_node);
      out.trouble = cat(file.name, file.node < 0 ? "" : cat(" of node ", file.node), " is missing or has not the ",
                        file.size, " bytes that the manifest says", copy);
    }
    out.complete = out.complete && originals > 0 && (file.copy_node < 0 || copies > 0);
    out.sources.push_back(std::move(found));
  }
}

/// A store with files of the line but not its manifest: a job died between two renames, and now the line hangs on the
/// other stores.
bool lacks_a_manifest(const std::vector<Part>& parts, const format::Manifest& manifest) {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    const auto here = format::decode_manifest(part.holding->manifest);
    return !part.holding->files.empty() && (!here || *here != manifest);
  });
}
}  // namespace

Bytes encode_contents(const std::vector<StoreContents>& contents) {
  WireWriter out;
  for (const auto& store : contents) {
    out.number(store.level);
    out.number(store.server);
    out.number(static_cast<std::uint64_t>(store.holdings.size()));
    for (const auto& h : store.holdings) {
      out.number(h.line);
      out.bytes(h.manifest);
      out.number(static_cast<std::uint64_t>(h.files.size()));
      for (const auto& [name, size] : h.files) {
        out.text(name);
        out.number(size);
      }
    }
  }
  return out.message();
}

std::vector<StoreContents> decode_contents(ByteView bytes) {
  std::vector<StoreContents> all;
  for (WireReader in(bytes); !in.at_end() && in.complete();) {
    StoreContents store;
    store.level = in.number<int>();
    store.server = in.number<int>();
    for (auto n = in.number<std::uint64_t>(); n > 0 && in.complete(); --n) {
      Holding h;
      h.line = in.number<std::uint64_t>();
      const ByteView manifest = in.bytes();
      h.manifest.assign(manifest.begin(), manifest.end());
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

std::vector<Candidate> candidates(const std::vector<StoreContents>& contents) {
  std::map<std::pair<std::uint64_t, int>, std::vector<Part>> by_line;
  for (std::size_t s = 0; s < contents.size(); ++s)
    for (const auto& h : contents[s].holdings) by_line[{h.line, contents[s].level}].push_back({s, &h});

  std::vector<Candidate> out;
  for (const auto& [key, parts] : by_line) {
    if (std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.holding->manifest.empty(); })) continue;
    Candidate c;
    c.line = key.first;
    c.level = key.second;
    choose_manifest(parts, c);
    if (c.trouble.empty()) {
      find_sources(parts, c);
      c.complete = c.complete && !lacks_a_manifest(parts, c.manifest);
    }
    out.push_back(std::move(c));
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    return a.line != b.line ? a.line > b.line : a.level < b.level;
  });
  return out;
}

std::uint64_t newest_number(const std::vector<StoreContents>& contents) {
  std::uint64_t newest = 0;
  for (const auto& store : contents)
    for (const auto& h : store.holdings) newest = std::max(newest, h.line);
  return newest;
}

}  // namespace backstay::catalog
