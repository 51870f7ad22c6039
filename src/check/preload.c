/* Loaded before a program whose declared computations are looked at (`backstay run --check` does that). Memory pages
 * are closed meanwhile, and a system call fails on a closed page where an instruction would come to the handler of
 * faults: so what gives the program's memory to the kernel has to say so before. Without a session that looks at
 * accesses all of this does what it would without. */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "check/hooks.h"
#include "check/preload.h"

const struct backstay_check_hooks* preload_hooks;
int preload_watching;
static int acts;
static __thread struct backstay_check_thread this_thread __attribute__((tls_model("initial-exec")));

/* ---- what the fences ask for ---------------------------------------------------------------------------------- */

void* preload_find(void** known, const char* name) {
  void* found = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (found == NULL) {
    found = dlsym(RTLD_NEXT, name);
    __atomic_store_n(known, found, __ATOMIC_RELAXED);
  }
  return found;
}

REAL(int, sigaction, int, const struct sigaction*, struct sigaction*);

static struct backstay_check_thread* thread_of(void) { return &this_thread; }

static int really_act(int signal, const struct sigaction* wanted, struct sigaction* before) {
  return real_sigaction()(signal, wanted, before);
}

REAL(int, mprotect, void*, size_t, int);

static int really_protect(void* memory, size_t bytes, int protection) {
  return real_mprotect()(memory, bytes, protection);
}

/* ---- large allocations ------------------------------------------------------------------------------------------
 * Noted from the begin of the process, as arrays are older than sessions. Without locks, as a child of fork() might
 * find them held. */

enum { noted_from = 16384, most_notes = 1 << 15, probes = 64, page_bytes = 4096 };

struct note {
  uintptr_t key; /* its address; 0: none was here ever; `removed`: it may be used again; `taken`: about to be filled */
  struct backstay_check_memory memory;
};
enum { removed = 1, taken = 2, first_key = 16 };
static struct note notes[most_notes];
static unsigned long long noted_so_far;

static struct note* note_at(uintptr_t key, size_t probe) {
  return &notes[(key / page_bytes * 31 + key / 16 + probe) % most_notes];
}

/* Another one (jemalloc, tcmalloc) has other things before what it gives, or nothing. */
static int is_malloc_of_glibc(void) {
  static int known; /* 1: no, 2: yes; 0: not looked up yet */
  int out = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (out == 0) {
    Dl_info of_malloc, of_glibc;
    void* const next = dlsym(RTLD_NEXT, "malloc");
    void* const glibc = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    out = dladdr(next, &of_malloc) != 0 && dladdr(glibc, &of_glibc) != 0 && of_malloc.dli_fbase == of_glibc.dli_fbase
              ? 2
              : 1;
    __atomic_store_n(&known, out, __ATOMIC_RELAXED);
  }
  return out == 2;
}

/* malloc gives a large one pages of its own, with 16 bytes before it: the last 8 are the length, of which the second
 * bit says so, the others how far before that its pages begin. */
static void find_extent(char* at, struct backstay_check_memory* out) {
  size_t head[2];
  memcpy(head, at - sizeof head, sizeof head);
  out->begin = at;
  out->end = at + malloc_usable_size(at);
  if (!is_malloc_of_glibc()) return;
  const size_t length = head[1] & ~(size_t)7;
  char* const chunk = at - sizeof head;
  if ((head[1] & 7) == 2 && ((uintptr_t)chunk - head[0]) % page_bytes == 0 && (head[0] + length) % page_bytes == 0) {
    out->begin = chunk - head[0];
    out->end = chunk + length;
  }
}

/* `backstay advise` asks for it. The environment is not there yet when the very first allocations are made. */
static size_t stacks_from(void) {
  static size_t known; /* the bytes, and 1; 0: not looked up yet */
  size_t out = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (out == 0 && environ != NULL) {
    const char* text = getenv("BACKSTAY_ALLOCATIONS");
    size_t bytes = 0;
    for (; text != NULL && *text >= '0' && *text <= '9' && bytes < SIZE_MAX / 20; ++text)
      bytes = bytes * 10 + (size_t)(*text - '0');
    out = bytes + 1;
    __atomic_store_n(&known, out, __ATOMIC_RELAXED);
  }
  return out == 0 ? 0 : out - 1;
}

/* Of libgcc_s, which every program with a session has; it takes no memory. */
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIP

struct walk {
  struct backstay_check_memory* memory;
  uintptr_t caller;
};

static _Unwind_Reason_Code at_frame(struct _Unwind_Context* context, void* given) {
  struct walk* const walk = given;
  struct backstay_check_memory* const out = walk->memory;
  const uintptr_t code = _Unwind_GetIP(context);
  /* The first ones are ours; the one that asked stands there already. */
  if (walk->caller != 0) {
    if (code == walk->caller) walk->caller = 0;
    return _URC_NO_REASON;
  }
  if (code == 0 || out->frames == backstay_check_frames) return _URC_END_OF_STACK;
  memcpy(&out->stack[out->frames++], &code, sizeof code);
  return _URC_NO_REASON;
}

static void take_stack(struct backstay_check_memory* out, void* caller) {
  static __thread int is_taking __attribute__((tls_model("initial-exec")));
  out->stack[0] = caller;
  out->frames = 1;
  if (_Unwind_Backtrace == NULL || is_taking) return;
  is_taking = 1;
  struct walk walk = {out, (uintptr_t)caller};
  (void)_Unwind_Backtrace(at_frame, &walk);
  is_taking = 0;
}

/* `caller`: where the program goes on. */
static void* noted(void* at, size_t bytes, void* caller) {
  if (at == NULL || malloc_usable_size(at) < noted_from) return at;
  const uintptr_t key = (uintptr_t)at;
  for (size_t i = 0; i < probes; ++i) {
    struct note* const note = note_at(key, i);
    uintptr_t before = __atomic_load_n(&note->key, __ATOMIC_RELAXED);
    if (before > removed ||
        !__atomic_compare_exchange_n(&note->key, &before, taken, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    struct backstay_check_memory* const memory = &note->memory;
    find_extent(at, memory);
    memory->data = at;
    memory->bytes = bytes;
    memory->number = __atomic_add_fetch(&noted_so_far, 1, __ATOMIC_RELAXED);
    memory->is_lent = 0;
    memory->frames = 0;
    if (stacks_from() > 0 && bytes >= stacks_from()) take_stack(memory, caller);
    __atomic_store_n(&note->key, key, __ATOMIC_RELEASE);
    break;
  }
  return at;
}

static void forget_note(void* at) {
  if (at == NULL || malloc_usable_size(at) < noted_from) return;
  for (size_t i = 0; i < probes; ++i) {
    struct note* const note = note_at((uintptr_t)at, i);
    const uintptr_t key = __atomic_load_n(&note->key, __ATOMIC_RELAXED);
    if (key == 0) return;
    if (key != (uintptr_t)at) continue;
    __atomic_store_n(&note->key, removed, __ATOMIC_RELEASE);
    return;
  }
}

static int next_memory(size_t* at, struct backstay_check_memory* found) {
  while (*at < most_notes) {
    const struct note* const note = &notes[(*at)++];
    const uintptr_t key = __atomic_load_n(&note->key, __ATOMIC_ACQUIRE);
    if (key < first_key) continue;
    *found = note->memory;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    /* Another thread may have given it back meanwhile. */
    if (__atomic_load_n(&note->key, __ATOMIC_RELAXED) == key && found->data == (void*)key) return 1;
  }
  return 0;
}

/* Only what nobody has protected may lie in such memory. */
void preload_lend(const void* memory, size_t bytes) {
  for (size_t i = 0; stacks_from() > 0 && memory != NULL && i < most_notes; ++i) {
    struct note* const note = &notes[i];
    if (__atomic_load_n(&note->key, __ATOMIC_ACQUIRE) < first_key) continue;
    if ((const char*)memory >= (char*)note->memory.begin && (const char*)memory < (char*)note->memory.end)
      note->memory.is_lent = 1;
  }
  if (memory != NULL && is_watched()) preload_hooks->forget(memory, bytes);
}

PUBLIC const struct backstay_check_services* backstay_check_attach(const struct backstay_check_hooks* given);
const struct backstay_check_services* backstay_check_attach(const struct backstay_check_hooks* given) {
  static const struct backstay_check_services services = {
      backstay_check_version, &preload_watching, &acts,      thread_of, really_act,
      really_protect,         next_memory,       stacks_from};
  const struct backstay_check_hooks* before = NULL; /* of another copy of the library in this process */
  if (!__atomic_compare_exchange_n(&preload_hooks, &before, given, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
      before != given)
    return NULL;
  return &services;
}

/* ---- memory that the kernel reads or writes --------------------------------------------------------------------- */

static void open_parts(const struct iovec* parts, size_t count, int writes, const void* code) {
  for (size_t i = 0; i < count; ++i) preload_hooks->open(parts[i].iov_base, parts[i].iov_len, writes, code);
}

static void used_parts(const struct iovec* parts, size_t count, ssize_t bytes, int writes, const void* code) {
  for (size_t i = 0; i < count && bytes > 0; ++i) {
    const size_t part = parts[i].iov_len < (size_t)bytes ? parts[i].iov_len : (size_t)bytes;
    preload_hooks->used(parts[i].iov_base, part, writes, code);
    bytes -= (ssize_t)part;
  }
}

/* `real` with one buffer; `writes`: the kernel fills it. */
#define WITH_BUFFER(type, memory, bytes, writes, call)                                                        \
  if (!is_watched()) return call;                                                                             \
  preload_hooks->open(memory, bytes, writes, CALLER);                                                         \
  const type done = call;                                                                                     \
  if (done > 0) preload_hooks->used(memory, (size_t)done < (bytes) ? (size_t)done : (bytes), writes, CALLER); \
  return done

#define WITH_PARTS(parts, count, writes, call)              \
  if (!is_watched()) return call;                           \
  open_parts(parts, (size_t)(count), writes, CALLER);       \
  const ssize_t done = call;                                \
  used_parts(parts, (size_t)(count), done, writes, CALLER); \
  return done

REAL(ssize_t, read, int, void*, size_t);
PUBLIC ssize_t read(int file, void* to, size_t bytes) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real_read()(file, to, bytes));
}

REAL(ssize_t, pread, int, void*, size_t, off_t);
PUBLIC ssize_t pread(int file, void* to, size_t bytes, off_t at) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real_pread()(file, to, bytes, at));
}

REAL(ssize_t, pread64, int, void*, size_t, off64_t);
PUBLIC ssize_t pread64(int file, void* to, size_t bytes, off64_t at) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real_pread64()(file, to, bytes, at));
}

REAL(ssize_t, recv, int, void*, size_t, int);
PUBLIC ssize_t recv(int socket, void* to, size_t bytes, int flags) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real_recv()(socket, to, bytes, flags));
}

REAL(ssize_t, getrandom, void*, size_t, unsigned);
PUBLIC ssize_t getrandom(void* to, size_t bytes, unsigned flags) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real_getrandom()(to, bytes, flags));
}

REAL(ssize_t, write, int, const void*, size_t);
PUBLIC ssize_t write(int file, const void* from, size_t bytes) {
  WITH_BUFFER(ssize_t, from, bytes, 0, real_write()(file, from, bytes));
}

REAL(ssize_t, pwrite, int, const void*, size_t, off_t);
PUBLIC ssize_t pwrite(int file, const void* from, size_t bytes, off_t at) {
  WITH_BUFFER(ssize_t, from, bytes, 0, real_pwrite()(file, from, bytes, at));
}

REAL(ssize_t, pwrite64, int, const void*, size_t, off64_t);
PUBLIC ssize_t pwrite64(int file, const void* from, size_t bytes, off64_t at) {
  WITH_BUFFER(ssize_t, from, bytes, 0, real_pwrite64()(file, from, bytes, at));
}

REAL(ssize_t, send, int, const void*, size_t, int);
PUBLIC ssize_t send(int socket, const void* from, size_t bytes, int flags) {
  WITH_BUFFER(ssize_t, from, bytes, 0, real_send()(socket, from, bytes, flags));
}

REAL(ssize_t, recvfrom, int, void*, size_t, int, __SOCKADDR_ARG, socklen_t*);
PUBLIC ssize_t recvfrom(int socket, void* to, size_t bytes, int flags, __SOCKADDR_ARG sender, socklen_t* length) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real_recvfrom()(socket, to, bytes, flags, sender, length));
}

REAL(ssize_t, sendto, int, const void*, size_t, int, __CONST_SOCKADDR_ARG, socklen_t);
PUBLIC ssize_t sendto(int socket, const void* from, size_t bytes, int flags, __CONST_SOCKADDR_ARG receiver,
                      socklen_t length) {
  WITH_BUFFER(ssize_t, from, bytes, 0, real_sendto()(socket, from, bytes, flags, receiver, length));
}

REAL(ssize_t, readv, int, const struct iovec*, int);
PUBLIC ssize_t readv(int file, const struct iovec* parts, int count) {
  WITH_PARTS(parts, count, 1, real_readv()(file, parts, count));
}

REAL(ssize_t, writev, int, const struct iovec*, int);
PUBLIC ssize_t writev(int file, const struct iovec* parts, int count) {
  WITH_PARTS(parts, count, 0, real_writev()(file, parts, count));
}

REAL(ssize_t, preadv, int, const struct iovec*, int, off_t);
PUBLIC ssize_t preadv(int file, const struct iovec* parts, int count, off_t at) {
  WITH_PARTS(parts, count, 1, real_preadv()(file, parts, count, at));
}

REAL(ssize_t, preadv64, int, const struct iovec*, int, off64_t);
PUBLIC ssize_t preadv64(int file, const struct iovec* parts, int count, off64_t at) {
  WITH_PARTS(parts, count, 1, real_preadv64()(file, parts, count, at));
}

REAL(ssize_t, pwritev, int, const struct iovec*, int, off_t);
PUBLIC ssize_t pwritev(int file, const struct iovec* parts, int count, off_t at) {
  WITH_PARTS(parts, count, 0, real_pwritev()(file, parts, count, at));
}

REAL(ssize_t, pwritev64, int, const struct iovec*, int, off64_t);
PUBLIC ssize_t pwritev64(int file, const struct iovec* parts, int count, off64_t at) {
  WITH_PARTS(parts, count, 0, real_pwritev64()(file, parts, count, at));
}

REAL(ssize_t, preadv2, int, const struct iovec*, int, off_t, int);
PUBLIC ssize_t preadv2(int file, const struct iovec* parts, int count, off_t at, int flags) {
  WITH_PARTS(parts, count, 1, real_preadv2()(file, parts, count, at, flags));
}

REAL(ssize_t, preadv64v2, int, const struct iovec*, int, off64_t, int);
PUBLIC ssize_t preadv64v2(int file, const struct iovec* parts, int count, off64_t at, int flags) {
  WITH_PARTS(parts, count, 1, real_preadv64v2()(file, parts, count, at, flags));
}

REAL(ssize_t, pwritev2, int, const struct iovec*, int, off_t, int);
PUBLIC ssize_t pwritev2(int file, const struct iovec* parts, int count, off_t at, int flags) {
  WITH_PARTS(parts, count, 0, real_pwritev2()(file, parts, count, at, flags));
}

REAL(ssize_t, pwritev64v2, int, const struct iovec*, int, off64_t, int);
PUBLIC ssize_t pwritev64v2(int file, const struct iovec* parts, int count, off64_t at, int flags) {
  WITH_PARTS(parts, count, 0, real_pwritev64v2()(file, parts, count, at, flags));
}

REAL(ssize_t, recvmsg, int, struct msghdr*, int);
PUBLIC ssize_t recvmsg(int socket, struct msghdr* message, int flags) {
  WITH_PARTS(message->msg_iov, message->msg_iovlen, 1, real_recvmsg()(socket, message, flags));
}

REAL(ssize_t, sendmsg, int, const struct msghdr*, int);
PUBLIC ssize_t sendmsg(int socket, const struct msghdr* message, int flags) {
  WITH_PARTS(message->msg_iov, message->msg_iovlen, 0, real_sendmsg()(socket, message, flags));
}

REAL(ssize_t, process_vm_readv, pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long,
     unsigned long);
PUBLIC ssize_t process_vm_readv(pid_t process, const struct iovec* here, unsigned long count, const struct iovec* there,
                                unsigned long count_there, unsigned long flags) {
  WITH_PARTS(here, count, 1, real_process_vm_readv()(process, here, count, there, count_there, flags));
}

REAL(ssize_t, process_vm_writev, pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long,
     unsigned long);
PUBLIC ssize_t process_vm_writev(pid_t process, const struct iovec* here, unsigned long count,
                                 const struct iovec* there, unsigned long count_there, unsigned long flags) {
  WITH_PARTS(here, count, 0, real_process_vm_writev()(process, here, count, there, count_there, flags));
}
/* Those of FILE give large buffers to the kernel as they are. */
#define WITH_ITEMS(memory, size, count, writes, call)            \
  if (!is_watched()) return call;                                \
  preload_hooks->open(memory, (size) * (count), writes, CALLER); \
  const size_t done = call;                                      \
  preload_hooks->used(memory, done*(size), writes, CALLER);      \
  return done

REAL(size_t, fread, void*, size_t, size_t, FILE*);
PUBLIC size_t fread(void* to, size_t size, size_t count, FILE* file) {
  WITH_ITEMS(to, size, count, 1, real_fread()(to, size, count, file));
}

REAL(size_t, fwrite, const void*, size_t, size_t, FILE*);
PUBLIC size_t fwrite(const void* from, size_t size, size_t count, FILE* file) {
  WITH_ITEMS(from, size, count, 0, real_fwrite()(from, size, count, file));
}

#undef fread_unlocked
#undef fwrite_unlocked
REAL(size_t, fread_unlocked, void*, size_t, size_t, FILE*);
PUBLIC size_t fread_unlocked(void* to, size_t size, size_t count, FILE* file) {
  WITH_ITEMS(to, size, count, 1, real_fread_unlocked()(to, size, count, file));
}

REAL(size_t, fwrite_unlocked, const void*, size_t, size_t, FILE*);
PUBLIC size_t fwrite_unlocked(const void* from, size_t size, size_t count, FILE* file) {
  WITH_ITEMS(from, size, count, 0, real_fwrite_unlocked()(from, size, count, file));
}

/* What programs call that are compiled with -D_FORTIFY_SOURCE. */
#define CHECKED(type, name, ...) \
  REAL(type, name, __VA_ARGS__); \
  PUBLIC type name(__VA_ARGS__)

CHECKED(ssize_t, __read_chk, int, void*, size_t, size_t);
ssize_t __read_chk(int file, void* to, size_t bytes, size_t room) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real___read_chk()(file, to, bytes, room));
}

CHECKED(ssize_t, __pread_chk, int, void*, size_t, off_t, size_t);
ssize_t __pread_chk(int file, void* to, size_t bytes, off_t at, size_t room) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real___pread_chk()(file, to, bytes, at, room));
}

CHECKED(ssize_t, __pread64_chk, int, void*, size_t, off64_t, size_t);
ssize_t __pread64_chk(int file, void* to, size_t bytes, off64_t at, size_t room) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real___pread64_chk()(file, to, bytes, at, room));
}

CHECKED(ssize_t, __recv_chk, int, void*, size_t, size_t, int);
ssize_t __recv_chk(int socket, void* to, size_t bytes, size_t room, int flags) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real___recv_chk()(socket, to, bytes, room, flags));
}

CHECKED(ssize_t, __recvfrom_chk, int, void*, size_t, size_t, int, __SOCKADDR_ARG, socklen_t*);
ssize_t __recvfrom_chk(int socket, void* to, size_t bytes, size_t room, int flags, __SOCKADDR_ARG sender,
                       socklen_t* length) {
  WITH_BUFFER(ssize_t, to, bytes, 1, real___recvfrom_chk()(socket, to, bytes, room, flags, sender, length));
}

CHECKED(size_t, __fread_chk, void*, size_t, size_t, size_t, FILE*);
size_t __fread_chk(void* to, size_t room, size_t size, size_t count, FILE* file) {
  WITH_ITEMS(to, size, count, 1, real___fread_chk()(to, room, size, count, file));
}

CHECKED(size_t, __fread_unlocked_chk, void*, size_t, size_t, size_t, FILE*);
size_t __fread_unlocked_chk(void* to, size_t room, size_t size, size_t count, FILE* file) {
  WITH_ITEMS(to, size, count, 1, real___fread_unlocked_chk()(to, room, size, count, file));
}

/* What a call that is known uses of memory. 0: it is not known. Libraries make these by their numbers, and in the place
 * of arguments that a call has not is what was left in registers: addresses of arrays, too. Where new mappings may lie
 * is only a wish. */
static int open_what_it_uses(long number, void* const* memory, const long* arguments, const void* code) {
  switch (number) {
    case SYS_gettid:
    case SYS_getpid:
    case SYS_getppid:
    case SYS_tgkill:
    case SYS_membarrier:
    case SYS_sched_yield:
    case SYS_brk:
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_mprotect:
    case SYS_shmat:
    case SYS_shmdt:
      return 1;
    case SYS_getrandom:
      preload_hooks->open(memory[0], (size_t)arguments[1], 1, code);
      return 1;
    case SYS_getcpu:
      preload_hooks->open(memory[0], sizeof(unsigned), 1, code);
      preload_hooks->open(memory[1], sizeof(unsigned), 1, code);
      return 1;
    case SYS_sched_getaffinity:
      preload_hooks->open(memory[2], (size_t)arguments[1], 1, code);
      return 1;
    case SYS_futex:
      switch (arguments[1] & FUTEX_CMD_MASK) {
        case FUTEX_WAIT:
        case FUTEX_WAIT_BITSET:
          preload_hooks->open(memory[3], sizeof(struct timespec), 1, code);
          /* fall through */
        case FUTEX_WAKE:
        case FUTEX_WAKE_BITSET:
          preload_hooks->open(memory[0], sizeof(uint32_t), 1, code);
          return 1;
        default:
          return 0;
      }
    default:
      return 0;
  }
}

/* It takes the pages of its first two arguments away, or changes what may be done to them: a library that watches the
 * C library's mappings (UCX does) makes all of them by their numbers. */
static int changes_pages(long number, long fourth) {
  switch (number) {
    case SYS_munmap:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_mprotect:
      return 1;
    case SYS_mmap:
      return (fourth & MAP_FIXED) != 0;
    default:
      return 0;
  }
}

/* Any other: whatever may be an address is opened. */
REAL(long, syscall, long, long, long, long, long, long, long);
PUBLIC long syscall(long number, ...) {
  va_list list;
  long arguments[6];
  void* memory[6];
  va_start(list, number);
  for (int i = 0; i < 6; ++i) arguments[i] = va_arg(list, long);
  va_end(list);
  memcpy(memory, arguments, sizeof memory);
  if (is_watched()) {
    if (changes_pages(number, arguments[3])) preload_hooks->forget(memory[0], (size_t)arguments[1]);
    if (number == SYS_mremap && (arguments[3] & MREMAP_FIXED) != 0)
      preload_hooks->forget(memory[4], (size_t)arguments[2]);
    const int is_known = open_what_it_uses(number, memory, arguments, CALLER);
    for (int i = 0; i < 6 && !is_known; ++i) {
      /* Its length may be the argument behind it. */
      const long length = i < 5 ? arguments[i + 1] : 0;
      preload_hooks->open(memory[i], length > 8 && length < 1L << 40 ? (size_t)length : 8, 1, CALLER);
    }
  }
  return real_syscall()(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

/* ---- memory that the program takes and gives back, or whose pages it changes --------------------------------------
 */

REAL(void*, memalign, size_t, size_t);
PUBLIC void* memalign(size_t alignment, size_t bytes) {
  return noted(real_memalign()(alignment, bytes), bytes, CALLER);
}

REAL(void*, aligned_alloc, size_t, size_t);
PUBLIC void* aligned_alloc(size_t alignment, size_t bytes) {
  return noted(real_aligned_alloc()(alignment, bytes), bytes, CALLER);
}

REAL(int, posix_memalign, void**, size_t, size_t);
PUBLIC int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  const int failed = real_posix_memalign()(memory, alignment, bytes);
  if (failed == 0) (void)noted(*memory, bytes, CALLER);
  return failed;
}

/* Arrays get pages of their own, also where the heap has room among others. */
REAL(void*, malloc, size_t);
PUBLIC void* malloc(size_t bytes) {
  if (bytes < noted_from || bytes > SIZE_MAX - page_bytes) return real_malloc()(bytes);
  const size_t whole_pages = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  return noted(real_memalign()(page_bytes, whole_pages), bytes, CALLER);
}

/* Pages that are new to the process hold zeros, or all of them a byte that the C library was told to fill them with. */
static void clear(char* at, size_t bytes) {
  size_t length;
  if (!is_malloc_of_glibc()) {
    memset(at, 0, bytes);
    return;
  }
  memcpy(&length, at - sizeof length, sizeof length);
  if ((length & 7) != 2 || *at != 0) memset(at, 0, bytes);
}

REAL(void*, calloc, size_t, size_t);
PUBLIC void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  const int too_many = __builtin_mul_overflow(count, size, &bytes);
  if (too_many || bytes < noted_from || bytes > SIZE_MAX - page_bytes) return real_calloc()(count, size);
  char* const out = real_memalign()(page_bytes, (bytes + page_bytes - 1) / page_bytes * page_bytes);
  if (out != NULL) clear(out, bytes);
  return noted(out, bytes, CALLER);
}

static void leave(void* memory) {
  if (memory == NULL) return;
  if (is_watched()) preload_hooks->forget(memory, malloc_usable_size(memory));
  forget_note(memory);
}

REAL(void, free, void*);
PUBLIC void free(void* memory) {
  leave(memory);
  real_free()(memory);
}

/* One that fails leaves what was there, which is no longer noted then. */
REAL(void*, realloc, void*, size_t);
PUBLIC void* realloc(void* memory, size_t bytes) {
  leave(memory);
  return noted(real_realloc()(memory, bytes), bytes, CALLER);
}

REAL(void*, reallocarray, void*, size_t, size_t);
PUBLIC void* reallocarray(void* memory, size_t count, size_t size) {
  leave(memory);
  return noted(real_reallocarray()(memory, count, size), count * size, CALLER);
}

REAL(int, munmap, void*, size_t);
PUBLIC int munmap(void* memory, size_t bytes) {
  if (is_watched()) preload_hooks->forget(memory, bytes);
  return real_munmap()(memory, bytes);
}

PUBLIC int mprotect(void* memory, size_t bytes, int protection) {
  if (is_watched()) preload_hooks->forget(memory, bytes);
  return real_mprotect()(memory, bytes, protection);
}

REAL(int, madvise, void*, size_t, int);
PUBLIC int madvise(void* memory, size_t bytes, int advice) {
  if (is_watched()) preload_hooks->forget(memory, bytes);
  return real_madvise()(memory, bytes, advice);
}

REAL(void*, mremap, void*, size_t, size_t, int, void*);
PUBLIC void* mremap(void* memory, size_t before, size_t after, int flags, ...) {
  va_list list;
  va_start(list, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(list, void*) : NULL;
  va_end(list);
  if (is_watched()) preload_hooks->forget(memory, before);
  if (is_watched() && to != NULL) preload_hooks->forget(to, after);
  return real_mremap()(memory, before, after, flags, to);
}

/* ---- signals ------------------------------------------------------------------------------------------------------
 */

/* A fault while its signal is blocked ends the program at once. */
static void unblock(sigset_t* set) {
  sigdelset(set, SIGSEGV);
  sigdelset(set, SIGTRAP);
}

static int acts_on(int signal) {
  return (signal == SIGSEGV || signal == SIGTRAP) && __atomic_load_n(&acts, __ATOMIC_SEQ_CST);
}

PUBLIC int sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) {
  struct sigaction changed;
  if (wanted != NULL) {
    changed = *wanted;
    unblock(&changed.sa_mask);
  }
  if (!acts_on(signal)) return real_sigaction()(signal, wanted != NULL ? &changed : NULL, before);
  preload_hooks->action(signal, wanted != NULL ? &changed : NULL, before);
  return 0;
}

REAL(sighandler_t, signal, int, sighandler_t);
PUBLIC sighandler_t signal(int number, sighandler_t handler) {
  if (!acts_on(number)) return real_signal()(number, handler);
  struct sigaction wanted, before;
  memset(&wanted, 0, sizeof wanted);
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESTART;
  preload_hooks->action(number, &wanted, &before);
  return before.sa_handler;
}

REAL(int, pthread_sigmask, int, const sigset_t*, sigset_t*);
PUBLIC int pthread_sigmask(int how, const sigset_t* wanted, sigset_t* before) {
  sigset_t changed;
  if (wanted != NULL) changed = *wanted;
  if (wanted != NULL && how != SIG_UNBLOCK) unblock(&changed);
  return real_pthread_sigmask()(how, wanted != NULL ? &changed : NULL, before);
}

REAL(int, sigprocmask, int, const sigset_t*, sigset_t*);
PUBLIC int sigprocmask(int how, const sigset_t* wanted, sigset_t* before) {
  sigset_t changed;
  if (wanted != NULL) changed = *wanted;
  if (wanted != NULL && how != SIG_UNBLOCK) unblock(&changed);
  return real_sigprocmask()(how, wanted != NULL ? &changed : NULL, before);
}
