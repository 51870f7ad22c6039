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
  const int length = vsnprintf(error->message, sizeof error->message, form, values);
  va_end(values);
  if (length >= (int)sizeof error->message) memcpy(error->message + sizeof error->message - 4, "...", 4);
  backstay_keep_failure(error->message);
  return error->code;
}

/* A logical of more than a byte is kept as the integer that it is in memory; what no file format knows, as bytes. */
static backstay_kind kind_of(const CFI_cdesc_t* x) {
  backstay_kind kind = BACKSTAY_OPAQUE;
  switch (x->type) {
    case CFI_type_int8_t:
    case CFI_type_int16_t:
    case CFI_type_int32_t:
    case CFI_type_int64_t:
      kind = BACKSTAY_INTEGER;
      break;
    case CFI_type_Bool:
      kind = BACKSTAY_BOOLEAN;
      break;
    case CFI_type_float:
    case CFI_type_double:
      kind = BACKSTAY_FLOATING;
      break;
    case CFI_type_float_Complex:
    case CFI_type_double_Complex:
      kind = BACKSTAY_COMPLEX;
      break;
    case CFI_type_char:
      kind = BACKSTAY_TEXT;
      break;
    default:
#ifdef CFI_type_Logical
      if ((x->type & CFI_type_mask) == CFI_type_Logical && x->elem_len <= 8) kind = BACKSTAY_INTEGER;
#endif
#if defined(__x86_64__) || defined(__i386__)
      if (x->type == CFI_type_long_double && x->elem_len == 16) kind = BACKSTAY_FLOATING;
      if (x->type == CFI_type_long_double_Complex && x->elem_len == 32) kind = BACKSTAY_COMPLEX;
#endif
      break;
  }
  return kind;
}

/* What the compiler says of an array; the lengths and distances, in bytes, in Fortran's order. backstay_data there. */
typedef struct {
  void* first;
  size_t size;
  int rank;
  backstay_kind kind;
  int64_t lengths[CFI_MAX_RANK], distances[CFI_MAX_RANK];
} array;

array backstay_fortran_describe(const CFI_cdesc_t* x);
array backstay_fortran_describe(const CFI_cdesc_t* x) {
  array out = {.first = x->base_addr, .size = x->elem_len, .rank = x->rank, .kind = kind_of(x)};
  for (int d = 0; d < x->rank && x->base_addr != NULL; ++d) {
    /* Of an empty part, as x(5:2), it is what the bounds come to; -1 in the last dimension is an unknown length, too. */
    const int64_t length = x->dim[d].extent;
    out.lengths[d] = length < 0 && !(length == -1 && d == x->rank - 1) ? 0 : length;
    out.distances[d] = x->dim[d].sm;
  }
  return out;
}

static backstay_type type_of(const array* x) { return (backstay_type){(int)x->kind, x->size, NULL, 0}; }

static int64_t count_of(const array* x) {
  int64_t count = 1;
  for (int d = 0; d < x->rank; ++d) count *= x->lengths[d];
  return count;
}

static int is_in_one_piece(const array* x) {
  int64_t distance = (int64_t)x->size;
  for (int d = 0; d < x->rank; ++d) {
    if (x->lengths[d] > 1 && x->distances[d] != distance) return 0;
    distance *= x->lengths[d];
  }
  return 1;
}

/* Where the values of x lie, the slowest dimension first, as C has it. */
static int lay_out(const char* name, const array* x, int64_t* shape, int64_t* strides, backstay_error* error) {
  const int64_t size = (int64_t)x->size;
  if (x->first == NULL) return refuse(error, "region '%s' is not allocated", name);
  if (x->rank > 7) return refuse(error, "region '%s' has %d dimensions: at most 7 are possible", name, x->rank);
  for (int d = 0; d < x->rank; ++d) {
    const int to = x->rank - 1 - d;
    const int64_t bytes = x->distances[d];
    if (x->lengths[d] < 0)
      return refuse(error,
                    "region '%s' is an array of assumed size, whose bounds are to be given, as in x(1:n), or an empty "
                    "part that looks like one, as x(2:0): protect x(2:1) there",
                    name);
    if (size == 0 || bytes < 0 || bytes % size != 0)
      return refuse(error,
                    "region '%s': its elements lie %lld bytes apart in dimension %d and have %lld: protect the whole "
                    "array that it is a part of",
                    name, (long long)bytes, d + 1, (long long)size);
    shape[to] = x->lengths[d];
    strides[to] = bytes / size;
  }
  return BACKSTAY_OK;
}

/* `ndim` lengths; the fastest dimension first, and bounds that count from 1 and include the last, as Fortran has it. */
int backstay_fortran_protect(backstay_session* session, const char* name, const array* x, int is_static,
                             const char* units, int placement, int ndim, const int64_t* global, const int64_t* lower,
                             const int64_t* upper, backstay_error* error);
int backstay_fortran_protect(backstay_session* session, const char* name, const array* x, int is_static,
                             const char* units, int placement, int ndim, const int64_t* global, const int64_t* lower,
                             const int64_t* upper, backstay_error* error) {
  int64_t shape[CFI_MAX_RANK], strides[CFI_MAX_RANK], globals[7], begin[7], end[7];
  backstay_region region = {.name = name, .units = units, .placement = placement};
  if (lay_out(name, x, shape, strides, error) != BACKSTAY_OK) return error->code;
  if (placement == BACKSTAY_BLOCK && ndim != x->rank)
    return refuse(error, "region '%s' has %d dimensions and its block %d: give as many bounds as it has dimensions",
                  name, x->rank, ndim);
  for (int d = 0; d < ndim; ++d) {
    globals[ndim - 1 - d] = global[d];
    begin[ndim - 1 - d] = lower[d] - 1;
    end[ndim - 1 - d] = upper[d];
  }
  region.type = type_of(x);
  region.ndim = x->rank;
  region.shape = shape;
  region.strides = strides;
  region.data = x->first;
  region.global = globals;
  region.lower = begin;
  region.upper = end;
  return is_static ? backstay_protect_static(session, &region, error) : backstay_protect(session, &region, error);
}

/* Memory that moves: `element` is of the type of its elements. */
int backstay_fortran_protect_memory(backstay_session* session, const char* name, const array* element,
                                    const char* units, int placement, int ndim, backstay_look look,
                                    backstay_resize resize, void* user, backstay_error* error);
int backstay_fortran_protect_memory(backstay_session* session, const char* name, const array* element,
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

int backstay_fortran_result(backstay_session* session, const array* x, backstay_error* error);
int backstay_fortran_result(backstay_session* session, const array* x, backstay_error* error) {
  if (x->first == NULL) return refuse(error, "result() was given an array that is not allocated");
  if (count_of(x) < 0 || !is_in_one_piece(x))
    return refuse(error, "result() was given a part of an array that does not lie in one piece: copy it before");
  return backstay_result(session, x->first, (size_t)count_of(x) * x->size, error);
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
