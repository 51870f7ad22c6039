/* What the library that is preloaded (preload.c) and the fences tell each other. C, as that library needs nothing of
 * C++. */
#ifndef BACKSTAY_CHECK_HOOKS_H
#define BACKSTAY_CHECK_HOOKS_H

#include <signal.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Called by the preloaded library, in any thread and in signal handlers. `code`: where the program goes on. */
struct backstay_check_hooks {
  /** The kernel is about to use these bytes: none of them may lie in a closed page. */
  void (*open)(const void* memory, size_t bytes, int writes, const void* code);
  /** It has used them. */
  void (*used)(const void* memory, size_t bytes, int writes, const void* code);
  /** The program gives this memory back, or changes its pages. */
  void (*forget)(const void* memory, size_t bytes);
  /** sigaction() of SIGSEGV or SIGTRAP. */
  void (*action)(int signal, const struct sigaction* wanted, struct sigaction* before);
};

enum { backstay_check_steps = 8 };

/** Of a thread; zero at first. */
struct backstay_check_thread {
  void* steps[backstay_check_steps]; /**< addresses in pages that are open for one instruction */
  size_t count;
  int tracing;           /**< instructions after which it stops; several: handlers came in between */
  const void* repeating; /**< they are open until this thread is seen at another instruction than this */
  int inside;            /**< its fault is being looked at */
  const void* unknown;   /**< the last fault that was in no page of ours */
  unsigned long long unknown_since;
};

enum { backstay_check_frames = 24 };

/** An allocation of the program's. */
struct backstay_check_memory {
  void *begin, *end;                  /**< what it has for itself: whole pages, if it has pages of its own */
  void* data;                         /**< what was given, of */
  size_t bytes;                       /**< so many that were asked for */
  unsigned long long number;          /**< no other allocation has it */
  int is_lent;                        /**< the kernel uses it at any time: a stack, a buffer of a FILE */
  size_t frames;                      /**< of */
  void* stack[backstay_check_frames]; /**< where those who asked go on, the innermost first */
};

/** What the preloaded library has. */
struct backstay_check_services {
  size_t version; /**< backstay_check_version */
  int* watching;  /**< 0: no page is closed, and open, used and forget need not be called */
  int* acts;      /**< 0: action need not be called */
  struct backstay_check_thread* (*thread)(void);
  int (*action)(int signal, const struct sigaction* wanted, struct sigaction* before); /**< the real one */
  int (*protect)(void* memory, size_t bytes, int protection);                          /**< likewise, mprotect() */
  /** The next allocation that is there and of 16 KiB or more, from place `*at` on, which moves behind it; 0: none. */
  int (*memory)(size_t* at, struct backstay_check_memory* found);
  /** From so many bytes on the callers of allocations are noted; 0: of none. */
  size_t (*stacks_from)(void);
};

/** Found by dlsym(). NULL: there is one in this process already. */
typedef const struct backstay_check_services* (*backstay_check_attach_function)(
    const struct backstay_check_hooks* hooks);
#define BACKSTAY_CHECK_ATTACH "backstay_check_attach"
enum { backstay_check_version = 3 };

#ifdef __cplusplus
}
#endif
#endif
