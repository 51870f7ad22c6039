/* A system that fails: loaded before libc by faults.py into the processes of a job, it makes calls on files below a
 * directory fail, wait, or do less than they were asked to, as storage does; or calls of libbackstay for memory.
 *
 * FAULTY_UNDER: that directory. FAULTY_RANK: of which process (-1: of all). FAULTY_KIND: eio, enospc, erofs, eintr,
 * short, slow, stuck, enomem, clock. FAULTY_FROM, FAULTY_COUNT: which of the calls. FAULTY_SEED: of what is random.
 * FAULTY_SEEN: a file that it makes as it begins, in such a process, and to which each process adds a line with its
 * rank and the kind, once, as it meets the fault. Of the kind remount nothing is done but that: it is met where the
 * system itself refuses a call with EROFS. FAULTY_LOG: a file to which it adds a line for each call that has succeeded
 * and changes something: write, sync, resize, make, rename, remove, and the path. FAULTY_SECONDS: how long a call is
 * stuck. Of the kind dies the process is killed at the call FAULTY_FROM. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { most_files = 4096 };

static const char *under, *kind = "";
static long from, count, stuck_seconds;
static atomic_long calls, maps, random_state;
static atomic_uchar ours[most_files];
static atomic_flag was_met = ATOMIC_FLAG_INIT;

#define THEIRS(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long number(const char* name, long otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : otherwise;
}

static const char* rank_of_this(void) {
  const char* me = getenv("OMPI_COMM_WORLD_RANK");
  return me != NULL ? me : getenv("PMI_RANK"); /* MPICH */
}

__attribute__((constructor)) static void begin(void) {
  const char *me = rank_of_this(), *seen = getenv("FAULTY_SEEN");
  const long rank = number("FAULTY_RANK", -1);
  if (getenv("FAULTY_UNDER") == NULL || getenv("FAULTY_KIND") == NULL || me == NULL) return;
  if (rank >= 0 && rank != atol(me)) return;
  if (seen != NULL) (void)close(open(seen, O_CREAT | O_WRONLY, 0600));
  from = number("FAULTY_FROM", 0);
  count = number("FAULTY_COUNT", 0);
  stuck_seconds = number("FAULTY_SECONDS", 3);
  random_state = number("FAULTY_SEED", 1) + atol(me);
  kind = getenv("FAULTY_KIND");
  under = getenv("FAULTY_UNDER");
}

/* This process has met the fault. Leaves errno as it is. */
static void met(void) {
  const int before = errno;
  const char* name = getenv("FAULTY_SEEN");
  char line[64];
  if (name == NULL || atomic_flag_test_and_set(&was_met)) return;
  const int file = THEIRS(open)(name, O_WRONLY | O_APPEND | O_CLOEXEC);
  const int length = snprintf(line, sizeof line, "%s %s\n", rank_of_this(), kind);
  if (file >= 0 && write(file, line, (size_t)length) != length) abort();
  if (file >= 0) (void)THEIRS(close)(file);
  errno = before;
}

static unsigned chance(unsigned below) {
  const unsigned long x = (unsigned long)atomic_fetch_add(&random_state, 1) * 0x9e3779b97f4a7c15UL;
  return (unsigned)((x ^ (x >> 29)) * 0xbf58476d1ce4e5b9UL >> 33) % below;
}

static int is(const char* what) { return strcmp(kind, what) == 0; }

/* Of a call on our files that the system has done or refused. Returns the call's own result. */
static int noted(int result) {
  if (result < 0 && errno == EROFS && is("remount")) met();
  return result;
}

/* The new path of a rename. Returns the call's own result. */
static int tell(int result, const char* what, const char* path) {
  static int log = -1;
  const char* name = getenv("FAULTY_LOG");
  char line[PATH_MAX + 16];
  noted(result);
  if (name == NULL || result < 0) return result;
  if (log < 0) log = THEIRS(open)(name, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  const int length = snprintf(line, sizeof line, "%s %s\n", what, path);
  if (write(log, line, (size_t)length) != length) abort();
  return result;
}

static int tell_of_file(int result, const char* what, int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return result;
  path[length] = 0;
  return tell(result, what, path);
}

static int is_ours(const char* path) {
  return under != NULL && strncmp(path, under, strlen(under)) == 0 && strstr(path, "events.jsonl") == NULL;
}
static int is_our_file(int file) { return under != NULL && file >= 0 && file < most_files && ours[file]; }

/* What one call on our files meets: 0, or the errno with which it fails. `writes`: it would change something. */
static int meets(int writes, int can_be_interrupted) {
  const long call = atomic_fetch_add(&calls, 1);
  const int in_turn = call >= from && call < from + count;
  if (is("eintr")) return can_be_interrupted && chance(3) == 0 ? EINTR : 0;
  if (!in_turn) return 0;
  if (is("dies") && call == from) raise(SIGKILL);
  if (is("slow") || (is("stuck") && call == from)) met();
  if (is("slow")) usleep(chance(20000));
  if (is("stuck") && call == from) sleep((unsigned)stuck_seconds);
  if (is("eio")) return EIO;
  if (is("enospc") && writes) return ENOSPC;
  if (is("erofs") && writes) return EROFS;
  return 0;
}

static int fails(int error) {
  if (error == 0) return 0;
  met();
  errno = error;
  return 1;
}

static int opened(int file, const char* path) {
  if (file >= 0 && file < most_files) ours[file] = is_ours(path);
  return is_ours(path) ? noted(file) : file;
}

#define OPEN(name)                                                                                 \
  int name(const char* path, int flags, ...) {                                                     \
    va_list rest;                                                                                  \
    va_start(rest, flags);                                                                         \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                  \
    va_end(rest);                                                                                  \
    if (is_ours(path) && fails(meets((flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0, 1))) return -1; \
    return opened(THEIRS(name)(path, flags, mode), path);                                          \
  }
OPEN(open)
OPEN(open64)

int close(int file) {
  if (file >= 0 && file < most_files) ours[file] = 0;
  return THEIRS(close)(file);
}

#define MOVE(name, buffer, writes)                                                \
  ssize_t name(int file, buffer bytes, size_t size, off64_t offset) {             \
    if (is_our_file(file)) {                                                      \
      if (fails(meets(writes, 1))) return -1;                                     \
      if (is("short") && size > 1 && chance(2) == 0) {                            \
        size = 1 + chance((unsigned)(size - 1));                                  \
        met();                                                                    \
      }                                                                           \
    }                                                                             \
    const ssize_t moved = THEIRS(name)(file, bytes, size, offset);                \
    if (writes && moved > 0 && is_our_file(file)) tell_of_file(0, "write", file); \
    return moved;                                                                 \
  }
MOVE(pwrite, const void*, 1)
MOVE(pwrite64, const void*, 1)
MOVE(pread, void*, 0)
MOVE(pread64, void*, 0)

int fsync(int file) {
  if (is_our_file(file) && fails(meets(1, 1))) return -1;
  return is_our_file(file) ? tell_of_file(THEIRS(fsync)(file), "sync", file) : THEIRS(fsync)(file);
}
int ftruncate(int file, off_t size) {
  if (is_our_file(file) && fails(meets(1, 1))) return -1;
  const int result = THEIRS(ftruncate)(file, size);
  return is_our_file(file) ? tell_of_file(result, "resize", file) : result;
}
int ftruncate64(int file, off64_t size) {
  if (is_our_file(file) && fails(meets(1, 1))) return -1;
  const int result = THEIRS(ftruncate64)(file, size);
  return is_our_file(file) ? tell_of_file(result, "resize", file) : result;
}
int rename(const char* old, const char* new) {
  if (is_ours(new) && fails(meets(1, 0))) return -1;
  return is_ours(new) ? tell(THEIRS(rename)(old, new), "rename", new) : THEIRS(rename)(old, new);
}
int mkdir(const char* path, mode_t mode) {
  if (is_ours(path) && fails(meets(1, 0))) return -1;
  return is_ours(path) ? tell(THEIRS(mkdir)(path, mode), "make", path) : THEIRS(mkdir)(path, mode);
}
int unlink(const char* path) {
  if (is_ours(path) && fails(meets(1, 0))) return -1;
  return is_ours(path) ? tell(THEIRS(unlink)(path), "remove", path) : THEIRS(unlink)(path);
}
int remove(const char* path) {
  if (is_ours(path) && fails(meets(1, 0))) return -1;
  return is_ours(path) ? tell(THEIRS(remove)(path), "remove", path) : THEIRS(remove)(path);
}

/* What libbackstay itself maps: staging copies, and files in memory. What the program, MPI and the dynamic linker map
 * is left alone; malloc maps without these calls. */
static int has_no_memory(const void* caller) {
  Dl_info about;
  if (under == NULL || !is("enomem") || dladdr(caller, &about) == 0) return 0;
  if (about.dli_fname == NULL || strstr(about.dli_fname, "/libbackstay.so") == NULL) return 0;
  const long map = atomic_fetch_add(&maps, 1);
  return fails(map >= from && map < from + count ? ENOMEM : 0);
}

#define MAP(name)                                                                                      \
  void* name(void* address, size_t size, int protection, int flags, int file, off64_t offset) {        \
    if ((flags & MAP_ANONYMOUS) != 0 && has_no_memory(__builtin_return_address(0))) return MAP_FAILED; \
    return THEIRS(name)(address, size, protection, flags, file, offset);                               \
  }
MAP(mmap)
MAP(mmap64)

void* mremap(void* address, size_t before, size_t after, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* const to = flags & MREMAP_FIXED ? va_arg(rest, void*) : NULL;
  va_end(rest);
  if (after > before && has_no_memory(__builtin_return_address(0))) return MAP_FAILED;
  return THEIRS(mremap)(address, before, after, flags, to);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int status = THEIRS(clock_gettime)(clock, now);
  static atomic_long ahead;
  if (under == NULL || clock != CLOCK_REALTIME || !is("clock")) return status;
  if (chance(20) == 0) ahead = (long)chance(2000000) - 1000000;
  if (ahead != 0) met();
  now->tv_sec += ahead;
  return status;
}
