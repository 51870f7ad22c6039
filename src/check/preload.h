/* What the parts of the preloaded library share. */
#ifndef BACKSTAY_CHECK_PRELOAD_H
#define BACKSTAY_CHECK_PRELOAD_H

#include <stddef.h>
#include <string.h>

#include "check/hooks.h"

#define PUBLIC __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

extern const struct backstay_check_hooks* preload_hooks;
extern int preload_watching;

static inline int is_watched(void) {
  return __builtin_expect(__atomic_load_n(&preload_watching, __ATOMIC_RELAXED) != 0, 0) != 0;
}

/* The function `name` of the C library, which is `known` from then on. */
void* preload_find(void** known, const char* name);

/* Whoever has this memory gives it to the kernel, or to a thread as its stack, for longer than a call. */
void preload_lend(const void* memory, size_t bytes);

/* The function `name` of the C library, as REAL_name. */
#define REAL(type, name, ...)                        \
  typedef type (*type_of_##name)(__VA_ARGS__);       \
  static type_of_##name real_##name(void) {          \
    static void* known;                              \
    void* const found = preload_find(&known, #name); \
    type_of_##name out;                              \
    memcpy(&out, &found, sizeof out);                \
    return out;                                      \
  }                                                  \
  typedef type (*type_of_##name)(__VA_ARGS__)

#endif
