#include "store/posix_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "store/path.h"
#include "store/posix_file.h"
#include "store/system_failure.h"

namespace backstay::store {
namespace {

constexpr mode_t file_mode = 0666;  // less the umask, as every program does
constexpr mode_t dir_mode = 0777;

bool is_directory(const std::string& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

Result<void> sync_directory(const std::string& path) {
  const Descriptor dir(retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!dir.open()) return system_failure("open directory", path, errno);
  if (retry_interrupted([&] { return ::fsync(dir.get()); }) == 0) return {};
  // Some network file systems know no sync of a directory, because their servers keep names safe before they answer.
  if (errno == EINVAL || errno == EOPNOTSUPP) return {};
  return system_failure("sync directory", path, errno);
}

/// It is a hard link, or a link to a file or to nothing.
bool has_other_names(const std::string& path) {
  struct stat about{}, target{};
  if (::lstat(path.c_str(), &about) != 0) return false;
  if (!S_ISLNK(about.st_mode)) return S_ISREG(about.st_mode) && about.st_nlink > 1;
  return ::stat(path.c_str(), &target) != 0 || S_ISREG(target.st_mode);
}

/// Makes the last part of `path`; fine if it is a directory already.
Result<void> make_one(const std::string& path) {
  if (::mkdir(path.c_str(), dir_mode) == 0) return {};
  const int error = errno;
  if (error == EEXIST && is_directory(path)) return {};
  struct stat about{};
  if (error == EEXIST && ::stat(path.c_str(), &about) != 0 && errno == ENOENT)
    return fail(Code::io, "cannot make directory ", path,
                ": a link of that name leads nowhere; make what it leads to, ",
                "as by mounting its disk, or remove the link");
  return system_failure("make directory", path, error == EEXIST ? ENOTDIR : error);
}

Result<void> make_with_parents(const std::string& path) {
  if (is_directory(path)) return {};
  const auto parent = std::filesystem::path(path).parent_path().string();
  if (parent != path) BACKSTAY_TRY(make_with_parents(parent));
  BACKSTAY_TRY(make_one(path));
  return sync_directory(parent);  // the name of a new directory is a promise of its own
}

Result<std::string> absolute(const std::string& path) {
  std::error_code error;
  auto full = std::filesystem::absolute(path, error).string();
  if (error || path.empty()) return fail(Code::invalid_argument, "'", path, "' is not the name of a directory");
  while (full.size() > 1 && full.back() == '/') full.pop_back();
  return full;
}

Result<void> require_writable(const std::string& root) {
  // AT_EACCESS: the question is what this process may do now, not who started it.
  if (::faccessat(AT_FDCWD, root.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return {};
  return system_failure("write in directory", root, errno);
}

Result<std::vector<Entry>> read_entries(DIR* dir, const std::string& full) {
  std::vector<Entry> entries;
  for (errno = 0; const dirent* found = ::readdir(dir); errno = 0) {
    const std::string name = found->d_name;
    if (name == "." || name == "..") continue;
    struct stat about{};
    if (::fstatat(::dirfd(dir), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since by someone else
      return system_failure("look at", cat(full, "/", name), errno);
    }
    const bool is_link = S_ISLNK(about.st_mode), is_dir = S_ISDIR(about.st_mode);
    if (is_link && ::fstatat(::dirfd(dir), name.c_str(), &about, 0) != 0) about = {};
    entries.push_back({name, is_dir, S_ISREG(about.st_mode) ? static_cast<std::uint64_t>(about.st_size) : 0, is_link});
  }
  if (errno != 0) return system_failure("list", full, errno);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

class PosixStore final : public Store {
 public:
  PosixStore(std::string root, PosixOptions options) : root_(std::move(root)), options_(options) {}

  [[nodiscard]] std::string where() const override { return root_; }

  void forget_removed() override { mapped_->forget_removed(); }

  Result<std::unique_ptr<File>> open_to_write(const std::string& path) override {
    forget_removed();
    BACKSTAY_TRY(check_path(path));
    const std::string place = full(path);
    if (has_other_names(place) && ::unlink(place.c_str()) != 0 && errno != ENOENT)
      return system_failure("remove", place, errno);
    return open(path, O_RDWR | O_CREAT, mapped_);  // no O_TRUNC: pages and blocks are used again
  }

  Result<std::unique_ptr<File>> open_to_write_along(const std::string& path) override {
    forget_removed();
    return open(path, O_RDWR, mapped_);
  }

  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override { return open(path, O_RDONLY, nullptr); }

  Result<void> make_dir(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    if (path.empty()) return is_directory(root_) ? Result<void>{} : system_failure("find directory", root_, ENOENT);
    for (auto end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1))
      BACKSTAY_TRY(make_one(full(path.substr(0, end))));
    return make_one(full(path));
  }

  Result<std::vector<Entry>> list(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(full(path).c_str()), &::closedir);
    if (!dir) return system_failure("list", full(path), errno);
    return read_entries(dir.get(), full(path));
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    BACKSTAY_TRY(check_inside(from));
    BACKSTAY_TRY(check_inside(to));
    if (::rename(full(from).c_str(), full(to).c_str()) == 0) return {};
    return system_failure(cat("rename ", full(from), " to"), full(to), errno);
  }

  Result<void> remove(const std::string& path) override {
    BACKSTAY_TRY(check_inside(path));
    if (std::remove(full(path).c_str()) == 0 || errno == ENOENT) return {};
    return system_failure("remove", full(path), errno);
  }

  Result<void> sync_dir(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    return sync_directory(full(path));
  }

 private:
  [[nodiscard]] std::string full(const std::string& path) const { return path.empty() ? root_ : cat(root_, "/", path); }

  [[nodiscard]] Result<void> check_inside(const std::string& path) const {
    if (path.empty()) return fail(Code::invalid_argument, "the root ", root_, " can be neither renamed nor removed");
    return check_path(path);
  }

  Result<std::unique_ptr<File>> open(const std::string& path, int flags, std::shared_ptr<MappedFiles> mapped) {
    BACKSTAY_TRY(check_path(path));
    Descriptor file(retry_interrupted(
        [&] { return ::open(full(path).c_str(), flags | O_NONBLOCK | O_CLOEXEC, file_mode); }));  // a pipe would wait
    if (!file.open()) return system_failure("open", full(path), errno);
    struct stat about{};
    if (::fstat(file.get(), &about) == 0 && S_ISDIR(about.st_mode)) return system_failure("open", full(path), EISDIR);
    if (S_ISFIFO(about.st_mode))
      return fail(Code::corrupt, full(path), " is a pipe and not an ordinary file, and so none of a checkpoint");
    return std::unique_ptr<File>(
        std::make_unique<PosixFile>(std::move(file), full(path), options_.direct, std::move(mapped)));
  }

  std::string root_;
  PosixOptions options_;
  std::shared_ptr<MappedFiles> mapped_ = std::make_shared<MappedFiles>();
};

class ReadOnlyStore final : public Store {
 public:
  ReadOnlyStore(std::unique_ptr<Store> inner, Failure why) : inner_(std::move(inner)), why_(std::move(why)) {}

  [[nodiscard]] std::string where() const override { return inner_->where(); }
  void forget_removed() override { inner_->forget_removed(); }
  Result<std::unique_ptr<File>> open_to_write(const std::string&) override { return why_; }
  Result<std::unique_ptr<File>> open_to_write_along(const std::string&) override { return why_; }
  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override { return inner_->open_to_read(path); }
  Result<void> make_dir(const std::string&) override { return why_; }
  Result<std::vector<Entry>> list(const std::string& path) override { return inner_->list(path); }
  Result<void> rename(const std::string&, const std::string&) override { return why_; }
  Result<void> remove(const std::string&) override { return why_; }
  Result<void> sync_dir(const std::string&) override { return {}; }

 private:
  std::unique_ptr<Store> inner_;
  Failure why_;
};

}  // namespace

void make_path_durable(const std::string& directory) {
  struct stat here{}, above{};
  auto path = absolute(directory);
  if (!path || ::stat(path->c_str(), &here) != 0) return;
  for (std::filesystem::path parent = *path; parent != parent.root_path();) {
    parent = parent.parent_path();
    if (::stat(parent.c_str(), &above) != 0 || above.st_dev != here.st_dev) return;
    (void)sync_directory(parent.string()).ok();
  }
}

Result<std::unique_ptr<Store>> make_posix_store(std::string root, PosixOptions options) {
  auto full = absolute(root);
  if (!full) return full.failure();
  struct stat about{};
  if (::stat(full->c_str(), &about) == 0 && !S_ISDIR(about.st_mode))
    return fail(Code::invalid_argument, *full, " is not a directory; choose another name");
  BACKSTAY_TRY(make_with_parents(*full));
  BACKSTAY_TRY(require_writable(*full));
  return std::unique_ptr<Store>(std::make_unique<PosixStore>(std::move(*full), options));
}

Result<std::unique_ptr<Store>> look_at_posix_store(std::string root, PosixOptions options) {
  auto full = absolute(root);
  if (!full) return full.failure();
  return std::unique_ptr<Store>(std::make_unique<PosixStore>(std::move(*full), options));
}

std::unique_ptr<Store> make_read_only_store(std::unique_ptr<Store> inner, Failure why) {
  return std::make_unique<ReadOnlyStore>(std::move(inner), std::move(why));
}

}  // namespace backstay::store
