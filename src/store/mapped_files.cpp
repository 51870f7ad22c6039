#include "store/mapped_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/crc32c.h"
#include "store/descriptor.h"

namespace backstay::store {

namespace {}

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

  /// All pages of the range exist and may be written: where there is no memory for one, this says so, while touching it
  /// would end the program (SIGBUS).
  [[nodiscard]] bool populate(std::uint64_t offset, std::uint64_t size) const {
#ifdef MADV_POPULATE_WRITE
    const std::uint64_t begin = offset / memory_page * memory_page;
    return ::madvise(at(begin), round_up(offset + size, memory_page) - begin, MADV_POPULATE_WRITE) == 0;
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
  if (!mapping || !mapping->populate(offset, bytes.size())) return false;
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

}  // namespace backstay::store
