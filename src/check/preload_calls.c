/* What programs give to the kernel besides arrays: names of files, structs, buffers and stacks. Nobody has protected
 * these, but they may lie in arrays that are closed because the program has only allocated them (`backstay advise`).
 * Their pages are opened for as long as a step takes. */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "check/preload.h"

static void opened(const void* memory, size_t bytes) {
  if (memory != NULL && is_watched()) preload_hooks->open(memory, bytes, 1, NULL);
}

/* Only as far as it goes: behind its last page an array may begin. It may be no text at all, of which the kernel will
 * say so: it is the kernel that reads it here, too. */
REAL(ssize_t, process_vm_readv, pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long,
     unsigned long);
static void opened_text(const char* text) {
  if (text == NULL || !is_watched()) return;
  enum { page = 4096 };
  const int errno_before = errno;
  char copy[256];
  for (size_t at = 0; at < PATH_MAX;) {
    const size_t to_end = page - (uintptr_t)(text + at) % page;
    const size_t bytes = to_end < sizeof copy ? to_end : sizeof copy;
    opened(text + at, bytes);
    const struct iovec from = {(void*)(uintptr_t)(text + at), bytes}, to = {copy, bytes};
    if (real_process_vm_readv()(getpid(), &to, 1, &from, 1, 0) != (ssize_t)bytes) {
      opened(text, PATH_MAX);
      break;
    }
    if (memchr(copy, 0, bytes) != NULL) break;
    at += bytes;
  }
  errno = errno_before;
}

/* ---- names of files ------------------------------------------------------------------------------------------- */

#define OPENING(name)                                 \
  REAL(int, name, const char*, int, mode_t);          \
  PUBLIC int name(const char* path, int flags, ...) { \
    va_list list;                                     \
    va_start(list, flags);                            \
    const mode_t mode = va_arg(list, mode_t);         \
    va_end(list);                                     \
    opened_text(path);                                \
    return real_##name()(path, flags, mode);          \
  }                                                   \
  typedef int of_##name
OPENING(open);
OPENING(open64);

#define OPENING_AT(name)                                             \
  REAL(int, name, int, const char*, int, mode_t);                    \
  PUBLIC int name(int directory, const char* path, int flags, ...) { \
    va_list list;                                                    \
    va_start(list, flags);                                           \
    const mode_t mode = va_arg(list, mode_t);                        \
    va_end(list);                                                    \
    opened_text(path);                                               \
    return real_##name()(directory, path, flags, mode);              \
  }                                                                  \
  typedef int of_##name
OPENING_AT(openat);
OPENING_AT(openat64);

/* Functions of a path, of two, and of a path and something else. */
#define OF_A_PATH(type, name)          \
  REAL(type, name, const char*);       \
  PUBLIC type name(const char* path) { \
    opened_text(path);                 \
    return real_##name()(path);        \
  }                                    \
  typedef int of_##name
#define OF_TWO_PATHS(type, name, second_type)              \
  REAL(type, name, const char*, second_type);              \
  PUBLIC type name(const char* path, second_type second) { \
    opened_text(path);                                     \
    opened_text(second);                                   \
    return real_##name()(path, second);                    \
  }                                                        \
  typedef int of_##name
#define OF_A_PATH_AND(type, name, second_type)             \
  REAL(type, name, const char*, second_type);              \
  PUBLIC type name(const char* path, second_type second) { \
    opened_text(path);                                     \
    return real_##name()(path, second);                    \
  }                                                        \
  typedef int of_##name
#define OF_A_PATH_AND_A_STRUCT(name, struct_type)       \
  REAL(int, name, const char*, struct_type*);           \
  PUBLIC int name(const char* path, struct_type* out) { \
    opened_text(path);                                  \
    opened(out, sizeof *out);                           \
    return real_##name()(path, out);                    \
  }                                                     \
  typedef int of_##name

OF_A_PATH(DIR*, opendir);
OF_A_PATH(int, rmdir);
OF_A_PATH(int, unlink);
OF_A_PATH(int, remove);
OF_A_PATH(int, chdir);
OF_A_PATH(int, system);
OF_TWO_PATHS(FILE*, fopen, const char*);
OF_TWO_PATHS(FILE*, fopen64, const char*);
OF_TWO_PATHS(FILE*, popen, const char*);
OF_TWO_PATHS(int, rename, const char*);
OF_TWO_PATHS(int, link, const char*);
OF_TWO_PATHS(int, symlink, const char*);
OF_A_PATH_AND(int, access, int);
OF_A_PATH_AND(int, mkdir, mode_t);
OF_A_PATH_AND(int, chmod, mode_t);
OF_A_PATH_AND(int, creat, mode_t);
OF_A_PATH_AND(int, truncate, off_t);
OF_A_PATH_AND_A_STRUCT(stat, struct stat);
OF_A_PATH_AND_A_STRUCT(lstat, struct stat);
OF_A_PATH_AND_A_STRUCT(stat64, struct stat64);
OF_A_PATH_AND_A_STRUCT(lstat64, struct stat64);
OF_A_PATH_AND_A_STRUCT(statfs, struct statfs);

REAL(int, mkstemp, char*);
PUBLIC int mkstemp(char* path) {
  opened_text(path);
  return real_mkstemp()(path);
}

REAL(char*, mkdtemp, char*);
PUBLIC char* mkdtemp(char* path) {
  opened_text(path);
  return real_mkdtemp()(path);
}

REAL(ssize_t, readlink, const char*, char*, size_t);
PUBLIC ssize_t readlink(const char* path, char* to, size_t bytes) {
  opened_text(path);
  opened(to, bytes);
  return real_readlink()(path, to, bytes);
}

REAL(char*, getcwd, char*, size_t);
PUBLIC char* getcwd(char* to, size_t bytes) {
  opened(to, bytes);
  return real_getcwd()(to, bytes);
}

/* ---- structs ---------------------------------------------------------------------------------------------------- */

#define OF_A_STRUCT(name, first_type, struct_type)      \
  REAL(int, name, first_type, struct_type*);            \
  PUBLIC int name(first_type first, struct_type* out) { \
    opened(out, sizeof *out);                           \
    return real_##name()(first, out);                   \
  }                                                     \
  typedef int of_##name

OF_A_STRUCT(fstat, int, struct stat);
OF_A_STRUCT(fstat64, int, struct stat64);
OF_A_STRUCT(fstatfs, int, struct statfs);
OF_A_STRUCT(getrusage, __rusage_who_t, struct rusage);
OF_A_STRUCT(getrlimit, __rlimit_resource_t, struct rlimit);
OF_A_STRUCT(setrlimit, __rlimit_resource_t, const struct rlimit);

REAL(int, uname, struct utsname*);
PUBLIC int uname(struct utsname* out) {
  opened(out, sizeof *out);
  return real_uname()(out);
}

REAL(int, nanosleep, const struct timespec*, struct timespec*);
PUBLIC int nanosleep(const struct timespec* time, struct timespec* left) {
  opened(time, sizeof *time);
  opened(left, sizeof *left);
  return real_nanosleep()(time, left);
}

REAL(int, clock_nanosleep, clockid_t, int, const struct timespec*, struct timespec*);
PUBLIC int clock_nanosleep(clockid_t clock, int flags, const struct timespec* time, struct timespec* left) {
  opened(time, sizeof *time);
  opened(left, sizeof *left);
  return real_clock_nanosleep()(clock, flags, time, left);
}

REAL(int, pipe, int[2]);
PUBLIC int pipe(int files[2]) {
  opened(files, 2 * sizeof files[0]);
  return real_pipe()(files);
}

REAL(pid_t, waitpid, pid_t, int*, int);
PUBLIC pid_t waitpid(pid_t process, int* status, int flags) {
  opened(status, sizeof *status);
  return real_waitpid()(process, status, flags);
}

REAL(int, poll, struct pollfd*, nfds_t, int);
PUBLIC int poll(struct pollfd* files, nfds_t count, int timeout) {
  opened(files, count * sizeof *files);
  return real_poll()(files, count, timeout);
}

REAL(int, select, int, fd_set*, fd_set*, fd_set*, struct timeval*);
PUBLIC int select(int count, fd_set* read, fd_set* write, fd_set* special, struct timeval* timeout) {
  fd_set* const sets[] = {read, write, special};
  for (int i = 0; i < 3; ++i) opened(sets[i], sizeof *sets[i]);
  opened(timeout, sizeof *timeout);
  return real_select()(count, read, write, special, timeout);
}

REAL(int, epoll_wait, int, struct epoll_event*, int, int);
PUBLIC int epoll_wait(int file, struct epoll_event* events, int count, int timeout) {
  opened(events, count > 0 ? (size_t)count * sizeof *events : 0);
  return real_epoll_wait()(file, events, count, timeout);
}

REAL(int, epoll_ctl, int, int, int, struct epoll_event*);
PUBLIC int epoll_ctl(int file, int what, int of, struct epoll_event* event) {
  opened(event, sizeof *event);
  return real_epoll_ctl()(file, what, of, event);
}

/* What lies behind the pointer, if it is one, is not known. */
REAL(int, ioctl, int, unsigned long, void*);
PUBLIC int ioctl(int file, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  opened(argument, 1 << 14);
  return real_ioctl()(file, request, argument);
}

/* Of a command without an argument it is what was left in a register. */
static int has_argument(int command) {
  switch (command) {
    case F_GETFD:
    case F_GETFL:
    case F_GETOWN:
    case F_GETSIG:
    case F_GETLEASE:
    case F_GETPIPE_SZ:
    case F_GET_SEALS:
      return 0;
    default:
      return 1;
  }
}

#define CONTROLLING(name)                            \
  REAL(int, name, int, int, void*);                  \
  PUBLIC int name(int file, int command, ...) {      \
    va_list list;                                    \
    va_start(list, command);                         \
    void* const argument = va_arg(list, void*);      \
    va_end(list);                                    \
    if (has_argument(command)) opened(argument, 64); \
    return real_##name()(file, command, argument);   \
  }                                                  \
  typedef int of_##name
CONTROLLING(fcntl);
CONTROLLING(fcntl64);

/* ---- memory that is used for longer than a call ----------------------------------------------------------------- */

REAL(int, sigaltstack, const stack_t*, stack_t*);
PUBLIC int sigaltstack(const stack_t* wanted, stack_t* before) {
  if (wanted != NULL) preload_lend(wanted->ss_sp, wanted->ss_size);
  opened(wanted, sizeof *wanted);
  opened(before, sizeof *before);
  return real_sigaltstack()(wanted, before);
}

REAL(int, pthread_attr_setstack, pthread_attr_t*, void*, size_t);
PUBLIC int pthread_attr_setstack(pthread_attr_t* attributes, void* stack, size_t bytes) {
  preload_lend(stack, bytes);
  return real_pthread_attr_setstack()(attributes, stack, bytes);
}

REAL(int, swapcontext, ucontext_t*, const ucontext_t*);
PUBLIC int swapcontext(ucontext_t* from, const ucontext_t* to) {
  preload_lend(to->uc_stack.ss_sp, to->uc_stack.ss_size);
  return real_swapcontext()(from, to);
}

REAL(int, setcontext, const ucontext_t*);
PUBLIC int setcontext(const ucontext_t* to) {
  preload_lend(to->uc_stack.ss_sp, to->uc_stack.ss_size);
  return real_setcontext()(to);
}

REAL(int, setvbuf, FILE*, char*, int, size_t);
PUBLIC int setvbuf(FILE* file, char* buffer, int mode, size_t bytes) {
  preload_lend(buffer, bytes);
  return real_setvbuf()(file, buffer, mode, bytes);
}

REAL(void, setbuffer, FILE*, char*, size_t);
PUBLIC void setbuffer(FILE* file, char* buffer, size_t bytes) {
  preload_lend(buffer, bytes);
  real_setbuffer()(file, buffer, bytes);
}

REAL(void, setbuf, FILE*, char*);
PUBLIC void setbuf(FILE* file, char* buffer) {
  preload_lend(buffer, BUFSIZ);
  real_setbuf()(file, buffer);
}

/* ---- long texts, which the C library gives to the kernel as they are -------------------------------------------- */

REAL(int, fputs, const char*, FILE*);
PUBLIC int fputs(const char* text, FILE* file) {
  if (is_watched()) opened(text, strlen(text));
  return real_fputs()(text, file);
}

REAL(int, puts, const char*);
PUBLIC int puts(const char* text) {
  if (is_watched()) opened(text, strlen(text));
  return real_puts()(text);
}

REAL(int, vfprintf, FILE*, const char*, va_list);

/* As one text in memory of our own, if it is long. */
static int print(FILE* file, const char* format, va_list list) {
  if (!is_watched()) return real_vfprintf()(file, format, list);
  va_list again;
  va_copy(again, list);
  char nothing[1];
  const int length = vsnprintf(nothing, sizeof nothing, format, again);
  va_end(again);
  enum { short_enough = 1024 };
  if (length < short_enough) return real_vfprintf()(file, format, list);
  const size_t bytes = (size_t)length + 1;
  char* const text = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (text == MAP_FAILED) return real_vfprintf()(file, format, list);
  (void)vsnprintf(text, bytes, format, list);
  const size_t done = fwrite(text, 1, (size_t)length, file);
  munmap(text, bytes);
  return done == (size_t)length ? length : -1;
}

PUBLIC int vfprintf(FILE* file, const char* format, va_list list) { return print(file, format, list); }
PUBLIC int vprintf(const char* format, va_list list) { return print(stdout, format, list); }

#define PRINTING(file, format)                \
  va_list list;                               \
  va_start(list, format);                     \
  const int done = print(file, format, list); \
  va_end(list);                               \
  return done

PUBLIC int fprintf(FILE* file, const char* format, ...) { PRINTING(file, format); }
PUBLIC int printf(const char* format, ...) { PRINTING(stdout, format); }

/* What programs call that are compiled with -D_FORTIFY_SOURCE. */
REAL(int, __vfprintf_chk, FILE*, int, const char*, va_list);
static int print_checked(FILE* file, int flag, const char* format, va_list list) {
  return is_watched() ? print(file, format, list) : real___vfprintf_chk()(file, flag, format, list);
}

#define PRINTING_CHECKED(file, flag, format)                \
  va_list list;                                             \
  va_start(list, format);                                   \
  const int done = print_checked(file, flag, format, list); \
  va_end(list);                                             \
  return done

PUBLIC int __fprintf_chk(FILE* file, int flag, const char* format, ...);
int __fprintf_chk(FILE* file, int flag, const char* format, ...) { PRINTING_CHECKED(file, flag, format); }
PUBLIC int __printf_chk(int flag, const char* format, ...);
int __printf_chk(int flag, const char* format, ...) { PRINTING_CHECKED(stdout, flag, format); }
PUBLIC int __vfprintf_chk(FILE* file, int flag, const char* format, va_list list);
int __vfprintf_chk(FILE* file, int flag, const char* format, va_list list) {
  return print_checked(file, flag, format, list);
}
PUBLIC int __vprintf_chk(int flag, const char* format, va_list list);
int __vprintf_chk(int flag, const char* format, va_list list) { return print_checked(stdout, flag, format, list); }
