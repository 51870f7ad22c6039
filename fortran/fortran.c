/* The part of the Fortran module that reads the descriptors of arrays, which are the compiler's. */
#include <ISO_Fortran_binding.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backstay/backstay.h"
#include "backstay/config.hpp"

static int refuse(backstay_error* error, const char* form, ...) {
  va_list values;
  va_start(values, form);
  error->code = BACKSTAY_INVALID_ARGUMENT;
  vsnprintf(error->message, sizeof error->message, form, values);
  va_end(values);
  return error->code;
}

/* A logical of more than a byte is kept as the integer that it is in memory; what no file format knows, as bytes. */
static backstay_type type_of(const CFI_cdesc_t* x) {
  backstay_type type = {BACKSTAY_OPAQUE, x->elem_len, NULL, 0};
  switch (x->type) {
    case CFI_type_int8_t:
    case CFI_type_int16_t:
    case CFI_type_int32_t:
    case CFI_type_int64_t:
      type.kind = BACKSTAY_INTEGER;
      break;
    case CFI_type_Bool:
      type.kind = BACKSTAY_BOOLEAN;
      break;
    case CFI_type_float:
    case CFI_type_double:
      type.kind = BACKSTAY_FLOATING;
      break;
    case CFI_type_float_Complex:
    case CFI_type_double_Complex:
      type.kind = BACKSTAY_COMPLEX;
      break;
    case CFI_type_char:
      type.kind = BACKSTAY_TEXT;
      break;
    default:
#ifdef CFI_type_Logical
      if ((x->type & CFI_type_mask) == CFI_type_Logical && x->elem_len <= 8) type.kind = BACKSTAY_INTEGER;
#endif
#if defined(__x86_64__) || defined(__i386__)
      if (x->type == CFI_type_long_double && x->elem_len == 16) type.kind = BACKSTAY_FLOATING;
      if (x->type == CFI_type_long_double_Complex && x->elem_len == 32) type.kind = BACKSTAY_COMPLEX;
#endif
      break;
  }
  return type;
}

int backstay_fortran_is_text(const CFI_cdesc_t* x);
int backstay_fortran_is_text(const CFI_cdesc_t* x) { return x->type == CFI_type_char ? 1 : 0; }

static int64_t count_of(const CFI_cdesc_t* x) {
  int64_t count = 1;
  for (int d = 0; d < x->rank; ++d) count *= x->dim[d].extent;
  return count;
}

/* Where the values of x lie, the slowest dimension first, as C has it. */
static int lay_out(const char* name, const CFI_cdesc_t* x, int64_t* shape, int64_t* strides, backstay_error* error) {
  const int64_t size = (int64_t)x->elem_len;
  if (x->rank > 7) return refuse(error, "region '%s' has %d dimensions: at most 7 are possible", name, (int)x->rank);
  for (int d = 0; d < x->rank; ++d) {
    const int to = x->rank - 1 - d;
    const int64_t bytes = x->dim[d].sm;
    if (x->dim[d].extent < 0)
      return refuse(error, "region '%s' is an array of assumed size: give its bounds, as in x(1:n)", name);
    if (size == 0 || bytes < 0 || bytes % size != 0)
      return refuse(error,
                    "region '%s': its elements lie %lld bytes apart in dimension %d and have %lld: protect the whole "
                    "array that it is a part of",
                    name, (long long)bytes, d + 1, (long long)size);
    shape[to] = x->dim[d].extent;
    strides[to] = bytes / size;
  }
  if (x->base_addr == NULL && count_of(x) > 0) return refuse(error, "region '%s' is not allocated", name);
  return BACKSTAY_OK;
}

/* `ndim` lengths; the fastest dimension first, and bounds that count from 1 and include the last, as Fortran has it. */
int backstay_fortran_protect(backstay_session* session, const char* name, const CFI_cdesc_t* x, int is_static,
                             const char* units, int placement, int ndim, const int64_t* global, const int64_t* lower,
                             const int64_t* upper, backstay_error* error);
int backstay_fortran_protect(backstay_session* session, const char* name, const CFI_cdesc_t* x, int is_static,
                             const char* units, int placement, int ndim, const int64_t* global, const int64_t* lower,
                             const int64_t* upper, backstay_error* error) {
  static char nothing; /* where an array of no elements lies */
  int64_t shape[CFI_MAX_RANK], strides[CFI_MAX_RANK], globals[7], begin[7], end[7];
  backstay_region region = {.name = name, .units = units, .placement = placement};
  if (lay_out(name, x, shape, strides, error) != BACKSTAY_OK) return error->code;
  if (placement == BACKSTAY_BLOCK && ndim != x->rank)
    return refuse(error, "region '%s' has %d dimensions and its block %d: give as many bounds as it has dimensions",
                  name, (int)x->rank, ndim);
  for (int d = 0; d < ndim; ++d) {
    globals[ndim - 1 - d] = global[d];
    begin[ndim - 1 - d] = lower[d] - 1;
    end[ndim - 1 - d] = upper[d];
  }
  region.type = type_of(x);
  region.ndim = x->rank;
  region.shape = shape;
  region.strides = strides;
  region.data = x->base_addr != NULL ? x->base_addr : &nothing;
  region.global = globals;
  region.lower = begin;
  region.upper = end;
  return is_static ? backstay_protect_static(session, &region, error) : backstay_protect(session, &region, error);
}

/* Memory that moves: `element` is of the type of its elements. */
int backstay_fortran_protect_memory(backstay_session* session, const char* name, const CFI_cdesc_t* element,
                                    const char* units, int placement, int ndim, backstay_look look,
                                    backstay_resize resize, void* user, backstay_error* error);
int backstay_fortran_protect_memory(backstay_session* session, const char* name, const CFI_cdesc_t* element,
                                    const char* units, int placement, int ndim, backstay_look look,
                                    backstay_resize resize, void* user, backstay_error* error) {
  const backstay_region region = {.name = name,
                                  .units = units,
                                  .type = type_of(element),
                                  .ndim = ndim,
                                  .placement = placement,
                                  .look = look,
                                  .resize = resize,
                                  .user = user};
  if (placement == BACKSTAY_BLOCK) return refuse(error, "region '%s' changes its size, and blocks do not", name);
  return backstay_protect(session, &region, error);
}

int backstay_fortran_result(backstay_session* session, const CFI_cdesc_t* x, backstay_error* error);
int backstay_fortran_result(backstay_session* session, const CFI_cdesc_t* x, backstay_error* error) {
  if (x->rank > 0 && (count_of(x) < 0 || !CFI_is_contiguous(x)))
    return refuse(error, "result() was given a part of an array that does not lie in one piece: copy it before");
  return backstay_result(session, x->base_addr, (size_t)count_of(x) * x->elem_len, error);
}

#if !BACKSTAY_HAVE_MPI
/* Elsewhere these are in the library. */
int backstay_open_fortran(int comm, const char* const* options, backstay_session** session, backstay_error* error);
int backstay_comm_fortran(const backstay_session* session, int* comm, backstay_error* error);
int backstay_include_fortran(backstay_session* session, int comm, backstay_error* error);

static const char* const no_mpi = "this backstay was built without MPI: it has no communicators";
int backstay_open_fortran(int comm, const char* const* options, backstay_session** session, backstay_error* error) {
  (void)comm, (void)options, (void)session;
  return refuse(error, "%s", no_mpi);
}
int backstay_comm_fortran(const backstay_session* session, int* comm, backstay_error* error) {
  (void)session, (void)comm;
  return refuse(error, "%s", no_mpi);
}
int backstay_include_fortran(backstay_session* session, int comm, backstay_error* error) {
  (void)session, (void)comm;
  return refuse(error, "%s", no_mpi);
}
#endif
