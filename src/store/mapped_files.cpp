#include "store/mapped_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/crc32c.h"
#include "store/descriptor.h"

namespace backstay::store {

namespace {
/// All pages of the range can be touched as `how` says: where there is no memory for one, or the file has ended before,
/// this says so, while touching it would end the program (SIGBUS).
[[maybe_unused]] bool populate(std::byte* data, std::uint64_t offset, std::uint64_t size, int how) {
  const std::uint64_t begin = offset / memory_page * memory_page;
  return ::madvise(data + begin, round_up(offset + size, memory_page) - begin, how) == 0;
}
}  // namespace

/// The whole of a file as it was when it was mapped.
class MappedFiles::Mapping {
 public:
  Mapping(Descriptor file, const struct stat& about)
      : file_(std::move(file)),
        device_(about.st_dev),
        inode_(about.st_ino),
        size_(static_cast<std::uint64_t>(about.st_size)),
        data_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0)) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (good()) ::munmap(data_, size_);
  }

  [[nodiscard]] bool good() const { return data_ != MAP_FAILED; }
  [[nodiscard]] bool is_of(const struct stat& about) const { return device_ == about.st_dev && inode_ == about.st_ino; }
  [[nodiscard]] bool reaches(std::uint64_t end) const { return end <= size_; }
  [[nodiscard]] bool was_removed() const {
    struct stat about{};
    return ::fstat(file_.get(), &about) != 0 || about.st_nlink == 0;
  }

  [[nodiscard]] bool has([[maybe_unused]] std::uint64_t offset, [[maybe_unused]] std::uint64_t size) const {
#ifdef MADV_POPULATE_WRITE
    return populate(at(0), offset, size, MADV_POPULATE_WRITE);
#else
    return false;
#endif
  }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return static_cast<std::byte*>(data_) + offset; }

 private:
  Descriptor file_;
  dev_t device_;
  ino_t inode_;
  std::uint64_t size_;
  void* data_;
};

bool MappedFiles::write(int file, std::uint64_t offset, ByteView bytes) {
  const auto mapping = mapping_of(file, offset + bytes.size());
  if (!mapping || !mapping->has(offset, bytes.size())) return false;
  (void)copy_crc32c(mapping->at(offset), bytes);  // the copy that goes past the cache; its sum is known already
  return true;
}

/// The size is asked anew each time: someone may have cut the file since it was mapped.
std::shared_ptr<MappedFiles::Mapping> MappedFiles::mapping_of(int file, std::uint64_t end) {
  struct stat about{};
  if (::fstat(file, &about) != 0 || static_cast<std::uint64_t>(about.st_size) < end) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto it = std::find_if(mappings_.begin(), mappings_.end(), [&](const auto& m) { return m->is_of(about); });
  if (it != mappings_.end() && (*it)->reaches(end)) {
    std::rotate(it, it + 1, mappings_.end());
    return mappings_.back();
  }
  if (it != mappings_.end()) mappings_.erase(it);
  Descriptor own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!own.open()) return nullptr;
  auto made = std::make_shared<Mapping>(std::move(own), about);
  if (!made->good()) return nullptr;
  if (mappings_.size() == most) mappings_.erase(mappings_.begin());
  mappings_.push_back(made);
  return made;
}

void MappedFiles::forget_removed() {
  const std::lock_guard lock(mutex_);
  std::erase_if(mappings_, [](const auto& m) { return m->was_removed(); });
}

std::size_t MappedFiles::count() const {
  const std::lock_guard lock(mutex_);
  return mappings_.size();
}

MappedToRead::MappedToRead(int file) {
  struct stat about{};
  if (::fstat(file, &about) != 0 || about.st_size <= 0) return;
  const auto size = static_cast<std::size_t>(about.st_size);
  void* const made = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (made == MAP_FAILED) return;
  data_ = made;
  size_ = size;
}

MappedToRead::~MappedToRead() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::optional<ByteView> MappedToRead::bytes([[maybe_unused]] std::uint64_t offset,
                                            [[maybe_unused]] std::size_t size) const {
#ifdef MADV_POPULATE_READ
  if (size == 0 || offset > size_ || size > size_ - offset) return std::nullopt;
  auto* const data = static_cast<std::byte*>(data_);
  if (populate(data, offset, size, MADV_POPULATE_READ)) return ByteView(data + offset, size);
#endif
  return std::nullopt;
}

}  // namespace backstay::store
