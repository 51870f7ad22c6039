// Two stores with whatever files in them: what is found there, and a commit beside it. The input is a list of files,
// each `STORE/PATH`, a newline, and its bytes, or `size N`; between them the byte 0x1e.
#include "catalog/catalog.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "catalog/candidates.h"
#include "format/data_file.h"
#include "format/parity_file.h"
#include "samples.h"
#include "store/memory_store.h"
#include "store/path.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
constexpr char between = '\x1e';
constexpr std::string_view size_word = "size ";
using Stores = std::array<std::unique_ptr<store::Store>, 2>;

void put_file(const Stores& stores, const std::string& record) {
  const auto end = record.find('\n');
  if (end == record.npos || end < 2) return;
  auto& store = *stores[record[0] == '1' ? 1 : 0];
  const std::string path = record.substr(2, end - 2), content = record.substr(end + 1);
  if (!store.make_dir(store::parent_of(path))) return;
  if (!content.starts_with(size_word)) return (void)store::write_file(store, path, as_bytes(content)).ok();
  const auto size = parse_decimal(content.substr(size_word.size()));
  const auto file = size && *size <= 65536 ? store.open_to_write(path) : fail(Code::invalid_argument);
  if (file) (void)(*file)->resize(*size).ok();
}

void check_candidates(const std::vector<catalog::StoreContents>& contents) {
  for (const auto& candidate : catalog::candidates(contents)) {
    if (!candidate.trouble.empty()) continue;
    expect(candidate.sources.size() == candidate.manifest.files.size(), "a line has sources for each of its files");
    expect(candidate.manifest.line == candidate.line, "a manifest is that of its line");
    for (const auto& sources : candidate.sources)
      for (const auto& source : sources) expect(source.store < contents.size(), "a source is in a store");
  }
}

bool is_committed(store::Store& store, std::uint64_t line) {
  const auto found = catalog::scan(store, "shared");
  expect(found.ok(), "what was written can be looked at");
  return std::any_of(found->begin(), found->end(),
                     [&](const auto& holding) { return holding.line == line && !holding.manifest.empty(); });
}

/// A new line beside what is there: those that were committed stay, and it is there as soon as it is committed.
void commit_beside(store::Store& store, const std::vector<catalog::Holding>& before, std::uint64_t line) {
  const Bytes manifest = format::encode_manifest({"0", line, "shared", 0, 0, 0, "", {}, {}});
  if (!catalog::prepare(store, "shared", line) || !catalog::stage(store, "shared", line, manifest, {"rank-00000.h5"}))
    return;
  expect(!is_committed(store, line), "a line that is staged is not committed");
  if (!catalog::commit(store, "shared", line)) return;
  expect(is_committed(store, line), "a line that was committed is");
  (void)catalog::sweep(store, "shared", 0).ok();
  for (const auto& holding : before)
    expect(holding.manifest.empty() || is_committed(store, holding.line), "a whole line stays");
  expect(is_committed(store, line), "a line that was committed stays");
  if (catalog::retire(store, "shared", line))
    expect(!is_committed(store, line), "a line that was retired is not there");
}
}  // namespace

void try_input(ByteView input) {
  const Stores stores{store::make_memory_store(), store::make_memory_store()};
  auto records = split(as_text(input), between);
  records.resize(std::min<std::size_t>(records.size(), 32));
  for (const auto& record : records) put_file(stores, record);
  std::vector<catalog::StoreContents> contents;
  for (const auto& store : stores) {
    const auto holdings = catalog::scan(*store, "shared");
    if (holdings) contents.push_back({0, 0, *holdings});
  }
  const Bytes message = catalog::encode_contents(contents);
  const auto manifests = catalog::manifests_of(contents);
  expect(catalog::encode_contents(catalog::decode_contents(message, manifests)) == message,
         "contents come back as they were");
  check_candidates(contents);
  for (const auto& store : stores)
    if (const auto holdings = catalog::scan(*store, "shared"))
      commit_beside(*store, *holdings, catalog::newest_number(contents) + 1);
}

Bytes repaired(Bytes input) {
  std::string out;
  for (const auto& record : split(as_text(input), between)) {
    const auto end = std::min(record.find('\n'), record.size() - 1);
    const std::string content = record.substr(std::min(end + 1, record.size()));
    const bool is_manifest = content.starts_with("backstay manifest ");
    if (!out.empty()) out += between;
    out += record.substr(0, end + 1) + (is_manifest ? with_right_first_line(content) : content);
  }
  return bytes_of(out);
}

namespace {
std::string files_of(const format::Manifest& m, char store) {
  const std::string dir = cat(store, "/", catalog::line_dir("shared", m.line), "/");
  std::string out = cat(dir, "manifest\n", as_text(format::encode_manifest(m)));
  for (const auto& file : m.files)
    for (const auto& name : {file.name, format::copy_name(file.name)})
      out += cat(between, dir, name, "\n", size_word, file.size);
  for (std::size_t g = 0; g < m.groups.size(); ++g)
    for (const int member : m.groups[g].members)
      out += cat(between, dir, format::parity_file_name(static_cast<int>(g), member), "\n", size_word,
                 format::parity_file_size(m.groups[g]));
  return out;
}
}  // namespace

std::vector<Bytes> seeds() {
  std::string all =
      "0/shared/line-00000003/manifest/x\nsize 1\x1e"
      "1/shared/line-7/manifest\n\x1e"
      "1/shared\n";
  std::vector<Bytes> out{bytes_of(all), bytes_of("0/shared/line-00000001/manifest.part/a/b\nsize 1\x1e"
                                                 "0/shared/line-00000009/rank-00000.h5\nsize 4\x1e"
                                                 "0/shared/line-00000002/manifest\n")};
  for (const auto& manifest : sample_manifests()) {
    out.push_back(bytes_of(files_of(manifest, '0')));
    out.push_back(bytes_of(cat(files_of(manifest, '0'), between, files_of(manifest, '1'))));
  }
  return out;
}

}  // namespace backstay::fuzz
