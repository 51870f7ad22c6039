#include "store/lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "store/system_failure.h"

namespace backstay::store {
namespace {

constexpr std::size_t longest_holder = 512;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string program_name() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "unknown" : path.filename().string();
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text.data();
}

/// Who holds the lock, as the holder wrote it; only plain characters of it, as anyone may have written there.
std::string read_holder(int file) {
  std::string text(longest_holder, '\0');
  const ssize_t got = retry_interrupted([&] { return ::pread(file, text.data(), text.size(), 0); });
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  text = text.substr(0, text.find('\n'));
  std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
  return text.empty() ? "a job that has not left its name yet" : text;
}

/// Best effort: on a full disk the lock holds all the same, and only the sentence for others is poorer.
void write_holder(int file, const std::string& text) {
  const bool written = ::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) >= 0;
  static_cast<void>(written);
}

#ifdef F_OFD_SETLK
/// A lock of the open file: unlike that of a process it conflicts within the process, and closing another descriptor of
/// the same file does not lose it.
int set_file_lock(int file, short kind) {
  struct flock range{};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}
int try_lock(int file) {
  const int error = set_file_lock(file, F_WRLCK);
  const bool unsupported = error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK;
  if (!unsupported) return error;
  return ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
}
void unlock(int file) {
  set_file_lock(file, F_UNLCK);
  ::flock(file, LOCK_UN);
}
#else
int try_lock(int file) { return ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }
void unlock(int file) { ::flock(file, LOCK_UN); }
#endif

Failure refusal(int file, const std::string& directory, int error) {
  if (error == EAGAIN || error == EACCES || error == EWOULDBLOCK) {
    const std::string holder = read_holder(file);
    if (holder.find(cat(", process ", static_cast<long>(::getpid()), " on host ", host_name(), ",")) != holder.npos)
      return fail(Code::locked, directory,
                  " is in use by another session of this very process: end that one first, or ",
                  "give each of several sessions a name (option name)");
    return fail(
        Code::locked, directory, " is in use by another job: ", holder,
        "; wait until it ends, stop it, or choose another directory for this job (two sessions of one job need ",
        "different options name)");
  }
  Failure failure = system_failure("lock a file in", directory, error);
  failure.what += "; choose a directory on a file system with locks (Lustre has them when mounted with flock)";
  return failure;
}

/// A child made by fork() has its parent's open files, and would keep the lock when the parent dies. Here it loses
/// them: each becomes one of /dev/null, so that its number is not used for another file before the child closes it.
class ForkGuard {
 public:
  static ForkGuard& instance() {
    static auto* guard = new ForkGuard;  // for locks that outlive the statics of this file, too
    return *guard;
  }
  void add(int file) {
    const std::lock_guard lock(mutex_);
    files_.push_back(file);
  }
  void remove(int file) {
    const std::lock_guard lock(mutex_);
    std::erase(files_, file);
  }

 private:
  ForkGuard() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] { instance().let_go_in_child(); });
  }
  void let_go_in_child() {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int file : files_)
      if (nothing >= 0) ::dup3(nothing, file, O_CLOEXEC);
    if (nothing >= 0) ::close(nothing);
    files_.clear();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::vector<int> files_;
};

}  // namespace

DirLock::DirLock(Descriptor file, std::string directory)
    : file_(std::move(file)), directory_(std::move(directory)), owner_(::getpid()) {
  ForkGuard::instance().add(file_.get());
}

DirLock::~DirLock() {
  if (!file_.open() || owner_ != ::getpid()) return;
  ForkGuard::instance().remove(file_.get());
  write_holder(file_.get(), "");
  unlock(file_.get());
}

Result<DirLock> DirLock::take(const std::string& directory, std::string program, const std::string& run) {
  const std::string path = cat(directory, "/lock");
  Descriptor file(retry_interrupted([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (!file.open()) return system_failure("open", path, errno);
  if (const int error = try_lock(file.get()); error != 0) return refusal(file.get(), directory, error);
  write_holder(file.get(),
               cat("program ", program.empty() ? program_name() : program, ", process ", static_cast<long>(::getpid()),
                   " on host ", host_name(), ", since ", time_now(), "\n", run.empty() ? "" : cat("run ", run, "\n")));
  return DirLock(std::move(file), directory);
}

Result<void> DirLock::check() const {
  struct stat held{}, there{};
  if (::fstat(file_.get(), &held) != 0) return system_failure("look at the lock of", directory_, errno);
  const std::string path = cat(directory_, "/lock");
  const bool found = ::stat(path.c_str(), &there) == 0;
  if (found && held.st_dev == there.st_dev && held.st_ino == there.st_ino) return {};
  if (!found && errno != ENOENT) return system_failure("look at", path, errno);
  struct stat directory{};
  if (!found && ::stat(directory_.c_str(), &directory) != 0)
    return fail(Code::not_found, "the directory ", directory_, " does not exist");
  return fail(Code::locked, path, " was removed or replaced while this job held it: another job may be at work in ",
              directory_, ", and nothing more is written there; end this job and start it again");
}

}  // namespace backstay::store
