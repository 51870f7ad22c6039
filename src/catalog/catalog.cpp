#include "catalog/catalog.h"

#include <algorithm>

#include "base/text.h"

namespace backstay::catalog {

namespace {
constexpr std::string_view prefix = "line-";
constexpr std::uint64_t largest_line = 1'000'000'000'000'000;  // a directory with a higher number is not one of ours
constexpr std::uint64_t largest_manifest = std::uint64_t{1} << 30;

std::optional<std::uint64_t> line_number(const std::string& name) {
  if (!name.starts_with(prefix)) return {};
  const auto number = parse_decimal(std::string_view(name).substr(prefix.size()));
  return number && *number <= largest_line ? number : std::nullopt;
}

std::string manifest_path(const std::string& dir) { return dir + "/manifest"; }
std::string part_path(const std::string& dir) { return dir + "/manifest.part"; }

enum class Links { followed, left_out };

/// The numbers of the level's directories, oldest first. A person may have moved one to another disk, and left a link.
Result<std::vector<std::uint64_t>> directories(store::Store& store, const std::string& level, Links links) {
  const auto entries = store.list(level);
  std::vector<std::uint64_t> lines;
  if (!entries) {
    if (entries.failure().code == Code::not_found) return lines;
    return entries.failure();
  }
  for (const auto& entry : *entries)
    if (const auto line = line_number(entry.name); line &&
                                                   (entry.is_dir || (entry.is_link && links == Links::followed)) &&
                                                   line_dir(level, *line) == level + "/" + entry.name)
      lines.push_back(*line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// One that cannot be opened, or is a link to a disk that is not there, may be that of a whole line, whose directory is
/// left alone.
bool has_manifest(store::Store& store, const std::string& dir) {
  const auto entries = store.list(dir);
  if (!entries) return entries.failure().code != Code::not_found;
  return std::ranges::any_of(*entries, [](const auto& entry) { return entry.name == "manifest"; });
}

/// Directories without a manifest, older than `before` and not of a line in `whole`: retired, or given up by a run that
/// ended.
Result<std::vector<std::uint64_t>> unused(store::Store& store, const std::string& level, std::uint64_t before,
                                          const std::vector<std::uint64_t>& whole) {
  const auto lines = directories(store, level, Links::left_out);
  if (!lines) return lines.failure();
  std::vector<std::uint64_t> out;
  for (auto line : *lines) {
    if (std::find(whole.begin(), whole.end(), line) != whole.end()) continue;
    if (line < before && !has_manifest(store, line_dir(level, line))) out.push_back(line);
  }
  return out;
}
}  // namespace

std::string line_dir(const std::string& level, std::uint64_t line) { return cat(level, "/", prefix, padded(line, 8)); }

Result<std::vector<Holding>> scan(store::Store& store, const std::string& level) {
  const auto lines = directories(store, level, Links::followed);
  if (!lines) return lines.failure();
  std::vector<Holding> out;
  for (auto line : *lines) {
    Holding holding{line, {}, {}};
    const auto entries = store.list(line_dir(level, line));
    if (!entries) {
      holding.unreadable = entries.failure().code != Code::not_found ? entries.failure().what
                                                                     : cat(store.where(), "/", line_dir(level, line),
                                                                           " is gone, or a link that leads nowhere");
      holding.manifest = Bytes(1);  // it may have one
      out.push_back(std::move(holding));
      continue;
    }
    for (const auto& entry : *entries) {
      if (entry.name == "manifest") {
        // Where it cannot be read other lines can be had.
        auto manifest = store::read_file(store, manifest_path(line_dir(level, line)), largest_manifest);
        if (manifest)
          holding.manifest = std::move(*manifest);
        else
          holding.unreadable = manifest.failure().what;
        if (holding.manifest.empty()) holding.manifest = Bytes(1);  // a damaged one, not a missing one
      } else if (!entry.is_dir) {
        holding.files[entry.name] = entry.size;
      }
    }
    out.push_back(std::move(holding));
  }
  return out;
}

Result<void> make_names_durable(store::Store& store, const std::string& level) {
  const auto lines = directories(store, level, Links::followed);
  if (!lines) return lines.failure();
  if (lines->empty()) return {};
  for (auto line : *lines) {
    const auto synced = store.sync_dir(line_dir(level, line));
    if (!synced && store.list(line_dir(level, line))) return synced;  // of one that cannot be read nothing is used
  }
  BACKSTAY_TRY(store.sync_dir(level));
  return store.sync_dir("");
}

namespace {
/// Under a name that none of ours has: what is in the way, and is not ours to remove or cannot be.
Result<std::string> set_aside(store::Store& store, const std::string& level, std::uint64_t line) {
  const auto beside = store.list(level);
  if (!beside) return beside.failure();
  const std::string dir = line_dir(level, line);
  for (int i = 1;; ++i) {
    const std::string aside = cat(dir, ".aside-", i);
    if (std::ranges::any_of(*beside, [&](const auto& entry) { return level + "/" + entry.name == aside; })) continue;
    BACKSTAY_TRY(store.rename(dir, aside));
    return aside;
  }
}

/// What may not be removed is set aside, or it would cost each line to come.
Result<void> remove_for_good(store::Store& store, const std::string& level, std::uint64_t line) {
  auto removed = store::remove_tree(store, line_dir(level, line));
  if (removed || removed.failure().code != Code::permission) return removed;
  const auto aside = set_aside(store, level, line);
  if (!aside) return removed;
  return fail(removed.failure().code, removed.failure().what, "; it is ", *aside, " from here on");
}
}  // namespace

Result<void> prepare(store::Store& store, const std::string& level, std::uint64_t line,
                     const std::vector<std::uint64_t>& whole) {
  if (line > largest_line)
    return fail(Code::limit, "lines have numbers up to ", largest_line,
                ", and there is a directory of that number: move it ", "away, no run of backstay has made it");
  BACKSTAY_TRY(store.make_dir(level));
  const auto retired = unused(store, level, line, whole);
  if (!retired) return retired.failure();
  const std::string dir = line_dir(level, line);
  if (store.list(dir) && has_manifest(store, dir))  // of a line that is of no use: its files stay as they are
    if (const auto aside = set_aside(store, level, line); !aside) return aside.failure();
  const auto is_taken = [&](std::uint64_t old) { return store.rename(line_dir(level, old), dir).ok(); };
  if (std::find_if(retired->rbegin(), retired->rend(), is_taken) == retired->rend()) {
    BACKSTAY_TRY(make_room(store, level, line));
    BACKSTAY_TRY(store.sync_dir(""));  // the level's own name may be new, too
  } else {
    BACKSTAY_TRY(store.remove(part_path(dir)));
  }
  return store.sync_dir(level);
}

Result<void> make_room(store::Store& store, const std::string& level, std::uint64_t line) {
  const std::string dir = line_dir(level, line);
  const auto made = store.make_dir(dir);
  const auto inside = made ? store.list(dir) : made.failure();
  if (inside) return {};
  const auto beside = store.list(level);
  if (!beside) return inside.failure();
  const auto there = std::ranges::find_if(*beside, [&](const auto& e) { return level + "/" + e.name == dir; });
  const bool is_in_the_way = there != beside->end() && (!there->is_dir || inside.failure().code == Code::permission);
  if (!is_in_the_way) return inside.failure();
  if (const auto aside = set_aside(store, level, line); !aside) return aside.failure();
  return store.make_dir(dir);
}

Result<void> stage(store::Store& store, const std::string& level, std::uint64_t line, ByteView manifest,
                   const std::vector<std::string>& files) {
  const std::string dir = line_dir(level, line);
  const auto entries = store.list(dir);
  if (!entries) return entries.failure();
  for (const auto& entry : *entries)
    if (std::find(files.begin(), files.end(), entry.name) == files.end())
      BACKSTAY_TRY(store::remove_tree(store, dir + "/" + entry.name));
  BACKSTAY_TRY(store::write_file(store, part_path(dir), manifest));
  return store.sync_dir(dir);
}

Result<void> commit(store::Store& store, const std::string& level, std::uint64_t line) {
  const std::string dir = line_dir(level, line);
  BACKSTAY_TRY(store::put_in_place(store, part_path(dir), manifest_path(dir)));
  return store.sync_dir(dir);
}

Result<void> adopt(store::Store& store, const std::string& level, std::uint64_t line, ByteView manifest) {
  const std::string dir = line_dir(level, line);
  BACKSTAY_TRY(store::write_file(store, part_path(dir), manifest));
  BACKSTAY_TRY(store.sync_dir(dir));
  BACKSTAY_TRY(commit(store, level, line));
  BACKSTAY_TRY(store.sync_dir(level));
  return store.sync_dir("");
}

Result<void> retire(store::Store& store, const std::string& level, std::uint64_t line) {
  const std::string dir = line_dir(level, line);
  BACKSTAY_TRY(store.remove(manifest_path(dir)));
  auto synced = store.sync_dir(dir);
  if (!synced && synced.failure().code == Code::not_found)
    return {};  // a node that lost its directory has none to keep
  return synced;
}

Result<void> give_up(store::Store& store, const std::string& level, std::uint64_t line) {
  if (has_manifest(store, line_dir(level, line))) return {};  // it is another one that came to be there
  return remove_for_good(store, level, line);
}

Result<void> sweep(store::Store& store, const std::string& level, std::size_t spare,
                   const std::vector<std::uint64_t>& whole) {
  const auto retired = unused(store, level, UINT64_MAX, whole);
  if (!retired) return retired.failure();
  Result<void> outcome;  // of one that cannot be removed; the others are
  for (std::size_t i = 0; i + spare < retired->size(); ++i)
    if (auto removed = remove_for_good(store, level, (*retired)[i]); !removed && outcome) outcome = std::move(removed);
  return outcome;
}

std::vector<std::uint64_t> surplus(std::vector<std::uint64_t> whole, std::size_t keep) {
  std::sort(whole.begin(), whole.end());
  whole.resize(whole.size() - std::min(whole.size(), std::max<std::size_t>(keep, 1)));
  return whole;
}

}  // namespace backstay::catalog
