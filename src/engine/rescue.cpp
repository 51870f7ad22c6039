#include "engine/rescue.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "engine/agree.h"
#include "engine/line_writer.h"

namespace backstay::engine {

namespace {
constexpr std::size_t piece_bytes = std::size_t{4} << 20;

/// Copies a line whose bytes are good.
class Rescue {
 public:
  Rescue(const catalog::Candidate& line, const Inventory& inventory, const Level& from, Level& to, comm::Comm& comm)
      : line_(line),
        inventory_(inventory),
        from_(from),
        to_(to),
        comm_(comm),
        dir_(catalog::line_dir(to.name, line.line)) {}

  /// What is there by that number, if anything, is of no use: it is set aside.
  Result<void> run() {
    if (auto staged = write_and_stage(); !staged) {
      if (to_.leader && comm_.works() && check_lock(to_)) (void)catalog::give_up(*to_.store, to_.name, line_.line).ok();
      return staged;
    }
    auto committed = to_.leader ? catalog::commit(*to_.store, to_.name, line_.line) : Result<void>{};
    return agree(comm_, committed);
  }

  /// The same line is there, and damaged: a resume may need nothing of what is. So it stays until all files lie beside
  /// it as copies, durable; then its manifest is replaced, then the files are. Where that fails the copies do.
  Result<void> replace() {
    const auto before = to_.leader ? names_there() : Result<std::set<std::string>>(std::set<std::string>());
    BACKSTAY_TRY(agree(comm_, before ? Result<void>{} : before.failure()));
    if (auto copied = agree(comm_, copy_mine(format::copy_name)); !copied) {
      if (to_.leader && comm_.works()) (void)remove_all_but(*before).ok();
      return copied;
    }
    BACKSTAY_TRY(agree(comm_, to_.leader ? put_manifest() : Result<void>{}));
    const auto in_place = agree(comm_, copy_mine([](const std::string& name) { return name; }));
    if (in_place && to_.leader) (void)remove_copies().ok();
    return {};
  }

 private:
  using Naming = std::string (*)(const std::string&);

  Result<void> write_and_stage() {
    BACKSTAY_TRY(agree(comm_, to_.leader ? prepare() : Result<void>{}));
    BACKSTAY_TRY(agree(comm_, copy_mine([](const std::string& name) { return name; })));
    return agree(comm_, stage());
  }

  Result<void> prepare() {
    BACKSTAY_TRY(check_lock(to_));
    return catalog::prepare(*to_.store, to_.name, line_.line, to_.whole);
  }

  Result<void> copy_mine(Naming naming) {
    for (std::size_t f = 0; f < line_.manifest.files.size(); ++f) {
      const auto& source = line_.sources[f].front();
      const auto& file = line_.manifest.files[f];
      if (inventory_.contents[source.store].server == comm_.rank())
        BACKSTAY_TRY(copy(source.name, file, naming(file.name)));
    }
    return {};
  }

  Result<void> copy(const std::string& source, const format::DataFile& file, const std::string& name) {
    auto from = from_.store->open_to_read(catalog::line_dir(from_.name, line_.line) + "/" + source);
    if (!from) return from.failure();
    auto to = to_.store->open_to_write(dir_ + "/" + name);
    if (!to) return to.failure();
    Bytes piece;
    for (std::uint64_t at = 0; at < file.size; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, file.size - at)));
      BACKSTAY_TRY((*from)->read_at(at, piece));
      BACKSTAY_TRY((*to)->write_at(at, piece));
    }
    BACKSTAY_TRY((*to)->resize(file.size));
    return (*to)->sync();
  }

  [[nodiscard]] Bytes manifest() const {
    auto manifest = line_.manifest;
    manifest.level = to_.name;
    manifest.groups.clear();
    for (auto& file : manifest.files) file.node = file.copy_node = -1;
    return format::encode_manifest(manifest);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& file : line_.manifest.files) names.push_back(file.name);
    return names;
  }

  Result<void> stage() {
    if (!to_.leader) return {};
    BACKSTAY_TRY(check_lock(to_));
    return catalog::stage(*to_.store, to_.name, line_.line, manifest(), names());
  }

  [[nodiscard]] Result<std::set<std::string>> names_there() const {
    BACKSTAY_TRY(check_lock(to_));
    const auto entries = to_.store->list(dir_);
    if (!entries) return entries.failure();
    std::set<std::string> out;
    for (const auto& entry : *entries) out.insert(entry.name);
    return out;
  }

  Result<void> put_manifest() {
    BACKSTAY_TRY(check_lock(to_));
    return catalog::adopt(*to_.store, to_.name, line_.line, manifest());
  }

  Result<void> remove_copies() {
    BACKSTAY_TRY(to_.store->sync_dir(dir_));  // what they stand in for is there under its name
    const auto of_line = names();
    std::set<std::string> stay(of_line.begin(), of_line.end());
    stay.insert("manifest");
    return remove_all_but(stay);
  }

  Result<void> remove_all_but(const std::set<std::string>& stay) {
    const auto there = names_there();
    if (!there) return there.failure();
    for (const auto& name : *there)
      if (!stay.contains(name)) BACKSTAY_TRY(store::remove_tree(*to_.store, dir_ + "/" + name));
    return {};
  }

  const catalog::Candidate& line_;
  const Inventory& inventory_;
  const Level& from_;
  Level& to_;
  comm::Comm& comm_;
  std::string dir_;
};
}  // namespace

namespace {
/// Where lines may lie that nobody has seen, none is written: one of its number may be among them.
Result<void> require_seen(const Inventory& inventory, std::ptrdiff_t level) {
  for (const auto& store : inventory.contents)
    if (store.level == level && !store.seen) return store.state;
  return {};
}

const catalog::Candidate* find_line(const Inventory& inventory, std::ptrdiff_t level, std::uint64_t line) {
  for (const auto& candidate : inventory.candidates)
    if (candidate.level == level && candidate.line == line && candidate.trouble.empty()) return &candidate;
  return nullptr;
}

/// It may be older than what is there, and may be there by that number.
void note_rescued(Level& level, const catalog::Candidate& line) {
  for (auto* known : {&level.whole, &level.partial, &level.damaged}) std::erase(*known, line.line);
  level.whole.insert(std::ranges::upper_bound(level.whole, line.line), line.line);
  level.names[line.line] = line.manifest.statics;
  level.times[line.line] = line.manifest.time;
}

/// From level to level shared, line by line.
class Rescuer {
 public:
  Rescuer(Inventories& found, std::vector<Level>& levels, std::vector<Level>& companions, std::ptrdiff_t to,
          const Topology& topology, comm::Comm& comm, const Say& say)
      : found_(found), levels_(levels), companions_(companions), to_(to), topology_(topology), comm_(comm), say_(say) {}

  /// Code::corrupt: it proves damaged, and no line has changed.
  Result<void> bring(const catalog::Candidate& line) {
    const auto good = read(line, found_.lines, levels_);
    if (!good) return good.failure();
    BACKSTAY_TRY(bring_statics(line));
    Level& shared = levels_[static_cast<std::size_t>(to_)];
    BACKSTAY_TRY(Rescue(*good, found_.lines, levels_[static_cast<std::size_t>(line.level)], shared, comm_).run());
    note_rescued(shared, *good);
    (void)retire_surplus(shared, shared.config.keep).ok();  // or it takes room; this line is whole
    return {};
  }

 private:
  /// What a resume would take is saved also where nothing gives the rest back.
  Result<catalog::Candidate> read(const catalog::Candidate& line, const Inventory& inventory,
                                  const std::vector<Level>& levels) {
    auto good = read_through(line, Through::all, inventory, levels, topology_, comm_, say_);
    if (good || good.failure().code != Code::corrupt) return good;
    return read_through(line, Through::what_a_resume_reads, inventory, levels, topology_, comm_, say_);
  }

  /// What is there under that number is left if it is the same, and a resume would take it: other lines may need it.
  Result<void> bring_statics(const catalog::Candidate& line) {
    const auto number = line.manifest.statics;
    if (number == 0 || brought_.contains(number)) return {};
    const auto is_it = [&](const format::Manifest& m) {
      return m.job == line.manifest.job && (line.manifest.statics_time == 0 || m.time == line.manifest.statics_time);
    };
    const auto* there = find_line(found_.statics, to_, number);
    if (there != nullptr && is_it(there->manifest)) {
      const auto good = read(*there, found_.statics, companions_);
      if (good || good.failure().code != Code::corrupt) return good ? Result<void>{} : good.failure();
    }
    const auto* here = find_line(found_.statics, line.level, number);
    if (here == nullptr) return fail(Code::corrupt, "its static regions cannot be had");
    Level& target = companions_[static_cast<std::size_t>(to_)];
    const bool same_is_there =
        there != nullptr && there->manifest.job == here->manifest.job && there->manifest.time == here->manifest.time;
    if (!same_is_there && (there != nullptr || !target.seen) && is_named_there(number))
      return fail(Code::corrupt, "lines at level shared may need other static regions of the number ", number);
    const auto good = read(*here, found_.statics, companions_);
    if (!good) return good.failure();
    Rescue rescue(*good, found_.statics, companions_[static_cast<std::size_t>(line.level)], target, comm_);
    BACKSTAY_TRY(same_is_there ? rescue.replace() : rescue.run());
    note_rescued(target, *good);
    brought_.insert(number);
    return {};
  }

  [[nodiscard]] bool is_named_there(std::uint64_t number) const {
    const Level& shared = levels_[static_cast<std::size_t>(to_)];
    return std::ranges::any_of(shared.names, [&](const auto& named) { return named.second == number; });
  }

  Inventories& found_;
  std::vector<Level>& levels_;
  std::vector<Level>& companions_;
  std::ptrdiff_t to_;
  const Topology& topology_;
  comm::Comm& comm_;
  const Say& say_;
  std::set<std::uint64_t> brought_;
};
}  // namespace

Result<Rescued> rescue(Inventories& found, std::vector<Level>& levels, std::vector<Level>& companions,
                       const Topology& topology, comm::Comm& comm, const Say& say) {
  const auto& lines = found.lines.candidates;
  const auto kind_of = [&](const auto& line) { return levels[static_cast<std::size_t>(line.level)].config.kind; };
  const auto shared =
      std::ranges::find(levels, LevelKind::shared, [](const Level& level) { return level.config.kind; });
  Result<void> newest_failed;
  Rescuer rescuer(found, levels, companions, shared - levels.begin(), topology, comm, say);
  for (auto line = lines.begin(); shared != levels.end() && line != lines.end(); ++line) {
    if (!line->trouble.empty()) continue;
    const bool outlives_the_job = std::any_of(lines.begin(), lines.end(), [&](const auto& other) {
      return other.trouble.empty() && other.line == line->line && kind_of(other) != LevelKind::memory;
    });
    if (outlives_the_job) break;
    BACKSTAY_TRY(require_seen(found.lines, shared - levels.begin()));
    const auto done = rescuer.bring(*line);
    if (done) {
      std::uint64_t bytes = 0;
      for (const auto& file : line->manifest.files) bytes += file.size;
      return Rescued{line->line, line->manifest.call, bytes};
    }
    if (done.failure().code != Code::corrupt) return done.failure();
    if (newest_failed) newest_failed = done;
  }
  if (!newest_failed) return newest_failed.failure();
  return Rescued{};
}

}  // namespace backstay::engine
