#include "store/memory_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "store/path.h"
#include "store/system_failure.h"

namespace backstay::store {
namespace {

constexpr std::string_view place = "memory";
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 46;

std::string full(const std::string& path) { return cat(place, "/", path); }

/// Zeroed pages straight from the system: what is never touched costs nothing, so growing may reserve ahead.
class Pages {
 public:
  Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { release(); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  /// Makes room for `size` bytes and keeps the first `used`. False if the system has no memory left.
  bool grow(std::size_t size, std::size_t used) {
    const std::size_t wanted = static_cast<std::size_t>(round_up(std::max(size, 2 * capacity_), memory_page));
    void* fresh = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return false;
    if (used > 0) std::memcpy(fresh, data_, used);
    release();
    data_ = static_cast<std::byte*>(fresh);
    capacity_ = wanted;
    return true;
  }

 private:
  void release() {
    if (data_ != nullptr) ::munmap(data_, capacity_);
  }

  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

/// The bytes of a file; shared by its name and its open handles, so that it outlives a remove.
class Content {
 public:
  /// Writers that stay inside the file run side by side; one that extends it runs alone.
  bool write(std::uint64_t offset, ByteView bytes) {
    const std::uint64_t end = offset + bytes.size();
    {
      const std::shared_lock lock(mutex_);
      if (end <= size_) return copy_in(offset, bytes);
    }
    const std::unique_lock lock(mutex_);
    return (end <= size_ || set_size(end)) && copy_in(offset, bytes);
  }

  /// How many of the wanted bytes there are.
  std::size_t read(std::uint64_t offset, MutableByteView bytes) {
    const std::shared_lock lock(mutex_);
    if (offset >= size_) return 0;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), size_ - offset));
    if (n > 0) std::memcpy(bytes.data(), pages_.data() + offset, n);
    return n;
  }

  /// Where they lie, as far as they are there.
  ByteView bytes(std::uint64_t offset, std::size_t wanted) {
    const std::shared_lock lock(mutex_);
    if (offset >= size_) return {};
    return {pages_.data() + offset, static_cast<std::size_t>(std::min<std::uint64_t>(wanted, size_ - offset))};
  }

  std::uint64_t size() {
    const std::shared_lock lock(mutex_);
    return size_;
  }

  bool resize(std::uint64_t size) {
    const std::unique_lock lock(mutex_);
    return set_size(size);
  }

 private:
  bool copy_in(std::uint64_t offset, ByteView bytes) {
    if (!bytes.empty()) std::memcpy(pages_.data() + offset, bytes.data(), bytes.size());
    return true;
  }

  bool set_size(std::uint64_t size) {
    if (size > most_bytes) return false;
    if (size > pages_.capacity() && !pages_.grow(static_cast<std::size_t>(size), static_cast<std::size_t>(size_)))
      return false;
    // What an earlier cut left behind reads as zero again; pages that were never used are zero already.
    const std::uint64_t stale = std::min(size, ever_used_);
    if (stale > size_) std::memset(pages_.data() + size_, 0, static_cast<std::size_t>(stale - size_));
    size_ = size;
    ever_used_ = std::max(ever_used_, size);
    return true;
  }

  std::shared_mutex mutex_;
  Pages pages_;
  std::uint64_t size_ = 0;
  std::uint64_t ever_used_ = 0;
};

class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<Content> content, std::string path, bool writable)
      : content_(std::move(content)), path_(std::move(path)), writable_(writable) {}

  Result<void> write_at(std::uint64_t offset, ByteView bytes) override {
    BACKSTAY_TRY(require_writable());
    if (offset > most_bytes) return system_failure(cat("reach byte ", offset, " of"), path_, EFBIG);
    if (bytes.empty() || content_->write(offset, bytes)) return {};
    return out_of_memory(offset + bytes.size());
  }

  Result<void> read_at(std::uint64_t offset, MutableByteView bytes) override {
    const std::size_t got = content_->read(offset, bytes);
    if (got == bytes.size()) return {};
    return ends_early(path_, offset, got, bytes.size());
  }

  Result<ByteView> bytes_at(std::uint64_t offset, std::size_t size, Scratch&) override {
    const ByteView bytes = content_->bytes(offset, size);
    if (bytes.size() == size) return bytes;
    return ends_early(path_, offset, bytes.size(), size);
  }

  Result<std::uint64_t> size() override { return content_->size(); }

  Result<void> resize(std::uint64_t size) override {
    BACKSTAY_TRY(require_writable());
    if (content_->resize(size)) return {};
    return out_of_memory(size);
  }

  Result<void> sync() override { return {}; }

 private:
  [[nodiscard]] Result<void> require_writable() const {
    return writable_ ? Result<void>{} : system_failure("write", path_, EBADF);
  }

  [[nodiscard]] Failure out_of_memory(std::uint64_t size) const {
    return fail(Code::no_space, "cannot grow ", path_, " to ", size,
                " bytes: the system has no more memory; keep fewer lines in memory or use a directory");
  }

  std::shared_ptr<Content> content_;
  std::string path_;
  bool writable_;
};

class MemoryStore final : public Store {
 public:
  [[nodiscard]] std::string where() const override { return std::string(place); }

  Result<std::unique_ptr<File>> open_to_write(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    const std::lock_guard lock(mutex_);
    BACKSTAY_TRY(require_parent("open", path));
    if (is_dir(path)) return system_failure("open", full(path), EISDIR);
    auto& content = nodes_[path];
    if (!content) content = std::make_shared<Content>();
    return std::unique_ptr<File>(std::make_unique<MemoryFile>(content, full(path), true));
  }

  Result<std::unique_ptr<File>> open_to_write_along(const std::string& path) override { return open(path, true); }
  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override { return open(path, false); }

  Result<void> make_dir(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    const std::lock_guard lock(mutex_);
    for (auto end = path.find('/');; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (is_file(part)) return system_failure("make directory", full(path), ENOTDIR);
      if (!part.empty()) nodes_.emplace(part, nullptr);
      if (end == std::string::npos) return {};
    }
  }

  Result<std::vector<Entry>> list(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    const std::lock_guard lock(mutex_);
    BACKSTAY_TRY(require_dir("list", path));
    std::vector<Entry> entries;
    const std::string prefix = path.empty() ? path : path + "/";
    for (auto at = nodes_.lower_bound(prefix); at != nodes_.end() && at->first.starts_with(prefix); ++at) {
      const std::string name = at->first.substr(prefix.size());
      if (name.find('/') != std::string::npos) continue;
      entries.push_back({name, !at->second, at->second ? at->second->size() : 0});
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    BACKSTAY_TRY(check_inside(from));
    BACKSTAY_TRY(check_inside(to));
    const std::lock_guard lock(mutex_);
    BACKSTAY_TRY(require_parent("rename to", to));
    if (!nodes_.contains(from)) return system_failure("rename", full(from), ENOENT);
    if (from == to) return {};
    if (is_dir(from)) return rename_dir(from, to);
    if (is_dir(to)) return system_failure(cat("rename ", full(from), " to"), full(to), EISDIR);
    nodes_[to] = nodes_[from];
    nodes_.erase(from);
    return {};
  }

  Result<void> remove(const std::string& path) override {
    BACKSTAY_TRY(check_inside(path));
    const std::lock_guard lock(mutex_);
    if (is_dir(path) && has_children(path)) return system_failure("remove", full(path), ENOTEMPTY);
    nodes_.erase(path);
    return {};
  }

  Result<void> sync_dir(const std::string& path) override {
    BACKSTAY_TRY(check_path(path));
    const std::lock_guard lock(mutex_);
    return require_dir("sync directory", path);
  }

 private:
  Result<std::unique_ptr<File>> open(const std::string& path, bool to_write) {
    BACKSTAY_TRY(check_path(path));
    const std::lock_guard lock(mutex_);
    BACKSTAY_TRY(require_parent("open", path));
    if (is_dir(path)) return system_failure("open", full(path), EISDIR);
    const auto found = nodes_.find(path);
    if (found == nodes_.end()) return system_failure("open", full(path), ENOENT);
    return std::unique_ptr<File>(std::make_unique<MemoryFile>(found->second, full(path), to_write));
  }

  [[nodiscard]] bool is_file(const std::string& path) const {
    const auto found = nodes_.find(path);
    return found != nodes_.end() && found->second;
  }

  [[nodiscard]] bool is_dir(const std::string& path) const {
    return path.empty() || (nodes_.contains(path) && !is_file(path));
  }

  [[nodiscard]] bool has_children(const std::string& path) const {
    const auto next = nodes_.lower_bound(path + "/");
    return next != nodes_.end() && next->first.starts_with(path + "/");
  }

  [[nodiscard]] Result<void> require_dir(std::string_view action, const std::string& path) const {
    if (is_dir(path)) return {};
    return system_failure(action, full(path), is_file(path) ? ENOTDIR : ENOENT);
  }

  /// Fails as the file system does: about `path`, because of what is above it.
  [[nodiscard]] Result<void> require_parent(std::string_view action, const std::string& path) const {
    const std::string parent = parent_of(path);
    if (is_dir(parent)) return {};
    return system_failure(action, full(path), is_file(parent) ? ENOTDIR : ENOENT);
  }

  [[nodiscard]] static Result<void> check_inside(const std::string& path) {
    if (path.empty()) return fail(Code::invalid_argument, "the root of a store can be neither renamed nor removed");
    return check_path(path);
  }

  Result<void> rename_dir(const std::string& from, const std::string& to) {
    const std::string action = cat("rename ", full(from), " to");
    if (is_file(to)) return system_failure(action, full(to), ENOTDIR);
    if (to.starts_with(from + "/")) return system_failure(action, full(to), EINVAL);
    if (is_dir(to) && has_children(to)) return system_failure(action, full(to), ENOTEMPTY);
    nodes_.erase(to);
    nodes_.emplace(to, nullptr);
    nodes_.erase(from);
    for (auto at = nodes_.lower_bound(from + "/"); at != nodes_.end() && at->first.starts_with(from + "/");) {
      nodes_[to + at->first.substr(from.size())] = at->second;
      at = nodes_.erase(at);
    }
    return {};
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Content>> nodes_;  ///< by path; a directory has no content
};

}  // namespace

std::unique_ptr<Store> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace backstay::store
