#include "store/store.h"

#include <algorithm>

#include "store/path.h"

namespace backstay::store {
namespace {

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('\0') == std::string_view::npos;
}

Result<void> remove_contents(Store& store, const std::string& path);

Result<void> remove_entry(Store& store, const std::string& dir, const Entry& entry) {
  const std::string path = dir.empty() ? entry.name : cat(dir, "/", entry.name);
  if (entry.is_dir) BACKSTAY_TRY(remove_contents(store, path));
  return store.remove(path);
}

Result<void> remove_contents(Store& store, const std::string& path) {
  auto entries = store.list(path);
  if (!entries) return entries.failure().code == Code::not_found ? Result<void>{} : entries.failure();
  for (const Entry& entry : *entries) BACKSTAY_TRY(remove_entry(store, path, entry));
  return {};
}

}  // namespace

Result<void> check_path(const std::string& path) {
  if (path.empty()) return {};
  std::string_view rest = path;
  for (;;) {
    const auto end = rest.find('/');
    if (!is_plain_name(rest.substr(0, end)))
      return fail(Code::invalid_argument, "'", path, "' is not a path inside a store: write plain names joined by '/'");
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
}

std::string parent_of(const std::string& path) {
  const auto end = path.rfind('/');
  return end == std::string::npos ? std::string{} : path.substr(0, end);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<void> write_file(Store& store, const std::string& path, ByteView bytes) {
  auto file = store.open_to_write(path);
  if (!file) return file.failure();
  BACKSTAY_TRY((*file)->write_at(0, bytes));
  BACKSTAY_TRY((*file)->resize(bytes.size()));  // what was there may have been longer
  return (*file)->sync();
}

Result<Bytes> read_file(Store& store, const std::string& path, std::uint64_t at_most) {
  auto file = store.open_to_read(path);
  if (!file) return file.failure();
  auto size = (*file)->size();
  if (!size) return size.failure();
  if (*size > at_most)
    return fail(Code::corrupt, store.where(), "/", path, " has ", *size, " bytes, but at most ", at_most,
                " were expected");
  Bytes bytes(static_cast<std::size_t>(*size));
  BACKSTAY_TRY((*file)->read_at(0, bytes));
  return bytes;
}

Result<void> put_in_place(Store& store, const std::string& from, const std::string& to) {
  auto renamed = store.rename(from, to);
  if (renamed || !store.list(to)) return renamed;
  BACKSTAY_TRY(remove_tree(store, to));
  return store.rename(from, to);
}

Result<void> remove_tree(Store& store, const std::string& path) {
  if (path.empty()) return remove_contents(store, path);
  // What it is, the directory above says without following a link: nothing outside the tree is touched.
  auto beside = store.list(parent_of(path));
  if (!beside) return beside.failure().code == Code::not_found ? Result<void>{} : beside.failure();
  const auto named = [name = name_of(path)](const Entry& entry) { return entry.name == name; };
  const auto found = std::find_if(beside->begin(), beside->end(), named);
  return found == beside->end() ? Result<void>{} : remove_entry(store, parent_of(path), *found);
}

}  // namespace backstay::store
