#include "store/posix_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <limits>

#ifdef __linux__
#include <linux/magic.h>
#include <sys/vfs.h>
#endif

#include "store/system_failure.h"

namespace backstay::store {
namespace {

// Below this a direct transfer gains nothing over the page cache.
constexpr std::size_t least_direct = std::size_t{1} << 20;
// Bytes of one system call. Long enough to keep a disk busy (with 4 MiB a direct write was a fifth slower); short
// enough that ranks which share a file, and so its lock in the kernel, take turns.
constexpr std::size_t longest_call = std::size_t{64} << 20;

struct Moved {
  std::size_t bytes = 0;
  int error = 0;  ///< 0 with too few bytes: the end of the file
};

/// `call(done, n)` moves up to n bytes after the first `done`, as pread and pwrite do.
template <class Call>
Moved move_all(std::size_t size, Call call) {
  Moved moved;
  while (moved.bytes < size) {
    const std::size_t n = std::min(size - moved.bytes, longest_call);
    const ssize_t got = retry_interrupted([&] { return call(moved.bytes, n); });
    if (got < 0) moved.error = errno;
    if (got <= 0) break;
    moved.bytes += static_cast<std::size_t>(got);
  }
  return moved;
}

Moved write_all(int file, std::uint64_t offset, ByteView bytes) {
  return move_all(bytes.size(), [&](std::size_t done, std::size_t n) {
    return ::pwrite(file, bytes.data() + done, n, static_cast<off_t>(offset + done));
  });
}

Moved read_all(int file, std::uint64_t offset, MutableByteView bytes) {
  return move_all(bytes.size(), [&](std::size_t done, std::size_t n) {
    return ::pread(file, bytes.data() + done, n, static_cast<off_t>(offset + done));
  });
}

/// A file that is in memory already gains nothing from going past the cache, though newer kernels would accept it.
bool lives_in_memory([[maybe_unused]] int file) {
#ifdef __linux__
  struct statfs about{};
  if (::fstatfs(file, &about) != 0) return false;
  const auto kind = static_cast<unsigned long>(about.f_type);
  return kind == TMPFS_MAGIC || kind == RAMFS_MAGIC || kind == HUGETLBFS_MAGIC;
#else
  return false;
#endif
}

bool refuses_direct(int error) { return error == EINVAL || error == EOPNOTSUPP; }

}  // namespace

PageSplit split_pages(std::uint64_t offset, std::uintptr_t address, std::size_t size, std::size_t least) {
  const auto head = static_cast<std::size_t>(round_up(offset, memory_page) - offset);
  if ((offset - address) % memory_page != 0 || head >= size) return {size, 0, 0};
  const std::size_t bulk = (size - head) / memory_page * memory_page;
  if (bulk < least) return {size, 0, 0};
  return {head, bulk, size - head - bulk};
}

PosixFile::PosixFile(Descriptor file, std::string path, Direct direct, std::shared_ptr<MappedFiles> mapped)
    : file_(std::move(file)), path_(std::move(path)), direct_(direct) {
  if (mapped && direct_ == Direct::automatic && lives_in_memory(file_.get())) mapped_ = std::move(mapped);
}

Result<void> PosixFile::write_at(std::uint64_t offset, ByteView bytes) {
  BACKSTAY_TRY(check_end(offset, bytes.size()));
  if (write_mapped(offset, bytes)) return {};
  const auto least = direct_ == Direct::on ? memory_page : least_direct;
  const auto split = split_pages(offset, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), least);
  if (split.bulk == 0 || !may_go_direct()) return write_buffered(offset, bytes);
  // The three parts share no page, so the cache and the disk never disagree on one.
  BACKSTAY_TRY(write_buffered(offset, bytes.first(split.head)));
  BACKSTAY_TRY(write_direct(offset + split.head, bytes.subspan(split.head, split.bulk)));
  return write_buffered(offset + split.head + split.bulk, bytes.last(split.tail));
}

/// Only what is big and has its pages already: see MappedFiles.
bool PosixFile::write_mapped(std::uint64_t offset, ByteView bytes) {
  return mapped_ && bytes.size() >= least_direct && mapped_->write(file_.get(), offset, bytes);
}

Result<void> PosixFile::write_buffered(std::uint64_t offset, ByteView bytes) {
  const Moved moved = write_all(file_.get(), offset, bytes);
  if (moved.bytes == bytes.size()) return {};
  return write_failure(offset + moved.bytes, bytes.size() - moved.bytes, moved.error != 0 ? moved.error : EIO);
}

Failure PosixFile::write_failure(std::uint64_t offset, std::size_t size, int error) const {
  return system_failure(cat("write ", size, " bytes at offset ", offset, " of"), path_, error);
}

Result<void> PosixFile::write_direct(std::uint64_t offset, ByteView bytes) {
  const Moved moved = write_all(direct_file_.get(), offset, bytes);
  const ByteView rest = bytes.subspan(moved.bytes);
  if (rest.empty()) return {};
  if (!refuses_direct(moved.error)) return write_failure(offset + moved.bytes, rest.size(), moved.error);
  if (moved.bytes == 0) direct_refused_ = true;  // otherwise a short write has ended inside a page
  return write_buffered(offset + moved.bytes, rest);
}

Result<void> PosixFile::read_at(std::uint64_t offset, MutableByteView bytes) {
  BACKSTAY_TRY(check_end(offset, 0));
  const auto least = direct_ == Direct::on ? memory_page : least_direct;
  const auto split = split_pages(offset, reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(), least);
  if (split.bulk == 0 || !may_go_direct()) return read_buffered(offset, bytes);
  const MutableByteView bulk = bytes.subspan(split.head, split.bulk);
  if (direct_ == Direct::automatic && is_cached(offset + split.head, bulk)) return read_buffered(offset, bytes);
  BACKSTAY_TRY(read_buffered(offset, bytes.first(split.head)));
  BACKSTAY_TRY(read_direct(offset + split.head, bulk));
  return read_buffered(offset + split.head + split.bulk, bytes.last(split.tail));
}

Result<ByteView> PosixFile::bytes_at(std::uint64_t offset, std::size_t size, Scratch& room) {
  std::call_once(looked_at_, [this] {
    if (direct_ == Direct::automatic && lives_in_memory(file_.get()))
      to_read_ = std::make_unique<MappedToRead>(file_.get());
  });
  if (to_read_)
    if (const auto there = to_read_->bytes(offset, size)) return *there;
  return File::bytes_at(offset, size, room);
}

Result<void> PosixFile::read_buffered(std::uint64_t offset, MutableByteView bytes) {
  const Moved moved = read_all(file_.get(), offset, bytes);
  if (moved.bytes == bytes.size()) return {};
  if (moved.error != 0) return system_failure("read", path_, moved.error);
  return ends_early(path_, offset, moved.bytes, bytes.size());
}

Result<void> PosixFile::read_direct(std::uint64_t offset, MutableByteView bytes) {
  const Moved moved = read_all(direct_file_.get(), offset, bytes);
  const MutableByteView rest = bytes.subspan(moved.bytes);
  if (rest.empty()) return {};
  if (moved.error != 0 && !refuses_direct(moved.error)) return system_failure("read", path_, moved.error);
  if (moved.error != 0 && moved.bytes == 0) direct_refused_ = true;
  return read_buffered(offset + moved.bytes, rest);  // it knows what to say about the end of the file
}

/// Looks at the first, the middle and the last page: a copy out of the cache is several times faster than a disk.
/// The bytes looked at are read into `bytes`, where they belong.
bool PosixFile::is_cached([[maybe_unused]] std::uint64_t offset, [[maybe_unused]] MutableByteView bytes) const {
#ifdef RWF_NOWAIT
  const std::size_t last = bytes.size() - memory_page;
  for (const std::size_t at : std::array<std::size_t, 3>{last, last / 2 / memory_page * memory_page, 0}) {
    const iovec target{bytes.data() + at, memory_page};
    if (::preadv2(file_.get(), &target, 1, static_cast<off_t>(offset + at), RWF_NOWAIT) != ssize_t{memory_page})
      return false;
  }
  return true;
#else
  return false;
#endif
}

bool PosixFile::may_go_direct() {
  if (direct_ == Direct::off || direct_refused_) return false;
  std::call_once(direct_opened_, [this] { open_direct(); });
  return direct_file_.open();
}

/// A second descriptor, because O_DIRECT is a property of the open file and the edges of a range are buffered. It is
/// opened through the first one: the name may have been changed since.
void PosixFile::open_direct() {
#if defined(O_DIRECT) && defined(__linux__)
  if (direct_ == Direct::automatic && lives_in_memory(file_.get())) return;
  const int access = ::fcntl(file_.get(), F_GETFL) & O_ACCMODE;
  const std::string self = cat("/proc/self/fd/", file_.get());
  direct_file_ = Descriptor(retry_interrupted([&] { return ::open(self.c_str(), access | O_DIRECT | O_CLOEXEC); }));
#endif
}

Result<std::uint64_t> PosixFile::size() {
  struct stat about{};
  if (::fstat(file_.get(), &about) != 0) return system_failure("find the size of", path_, errno);
  return static_cast<std::uint64_t>(about.st_size);
}

/// Cuts or extends where the end is, never through zero: pages and blocks that stay in the file are not given back, and
/// on a file system in memory making new ones costs more than filling them.
Result<void> PosixFile::resize(std::uint64_t size) {
  BACKSTAY_TRY(check_end(0, size));
  auto before = this->size();
  if (!before) return before.failure();
  if (*before == size) return {};
  if (retry_interrupted([&] { return ::ftruncate(file_.get(), static_cast<off_t>(size)); }) == 0) return {};
  return system_failure(cat("set the size to ", size, " bytes of"), path_, errno);
}

Result<void> PosixFile::sync() {
  // fsync and not fdatasync: no slower where measured, and its promise on the size needs no reading between the lines.
  if (retry_interrupted([&] { return ::fsync(file_.get()); }) == 0) return {};
  return system_failure("sync", path_, errno);
}

/// Asked before the kernel is, because beyond the limit it does not only refuse: it sends SIGXFSZ, which ends the
/// program.
Result<void> PosixFile::check_end(std::uint64_t offset, std::uint64_t size) const {
  constexpr std::uint64_t most = std::numeric_limits<off_t>::max();
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::uint64_t end = limited ? std::min<std::uint64_t>(limit.rlim_cur, most) : most;
  if (offset <= most && (size == 0 || (size <= end && offset <= end - size))) return {};
  return system_failure(cat("reach byte ", offset, " + ", size, " of"), path_, EFBIG);
}

}  // namespace backstay::store
