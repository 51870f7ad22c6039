/* A program in C that uses an installed backstay.
 *   program write DIR   saves `step`, the block `u` (from inside a halo) and the list `particles`
 *   program read DIR    puts them back, on any number of ranks, and checks every value
 *   program owned DIR   a region by callbacks, which it redistributes if the number of ranks is another
 *   program alone DIR   without MPI: a struct, a text, and calls that must be refused */
#include <backstay/backstay.h>
#include <backstay/backstay_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 24, columns = 3, halo = 1 };

static int failures = 0;

static void expect(int truth, const char* fact) {
  if (truth) return;
  ++failures;
  fprintf(stderr, "not so: %s\n", fact);
}
#define EXPECT(truth) expect((truth), #truth)

/* Ends the program unless the call worked. */
static void need(int code, const backstay_error* error) {
  if (code == BACKSTAY_OK) return;
  fprintf(stderr, "code %d: %s\n", code, error->message);
  exit(1);
}

static void list_of_options(const char* dir, char* text, const char* options[4]) {
  snprintf(text, 1000, "dir=%s", dir);
  options[0] = text;
  options[1] = "log=quiet";
  options[2] = "every=1000000";
  options[3] = NULL;
}

/* ---- the block and the list ----------------------------------------------------------------------------------- */

typedef struct {
  double* x;
  int64_t count;
} pool;

static int pool_look(void* user, void** data, int64_t* shape) {
  const pool* p = user;
  *data = p->x;
  shape[0] = p->count;
  return 0;
}

static int pool_resize(void* user, const int64_t* shape, void** data) {
  pool* p = user;
  double* x = realloc(p->x, (size_t)(shape[0] + 1) * sizeof *x);
  if (x == NULL) return 1;
  p->x = x;
  p->count = shape[0];
  *data = x;
  return 0;
}

typedef struct {
  int rank, size;
  int64_t step, first, last; /* rows [first, last) of u are this rank's */
  double u[rows + 2 * halo][columns + 2 * halo];
  pool particles;
} field;

static void protect_field(backstay_session* run, field* f) {
  backstay_error error;
  const backstay_region step = {.name = "step", .type = BACKSTAY_TYPE_OF(f->step), .data = &f->step};
  need(backstay_protect(run, &step, &error), &error);

  const int64_t global[] = {rows, columns}, lower[] = {f->first, 0}, upper[] = {f->last, columns};
  const int64_t shape[] = {f->last - f->first, columns}, strides[] = {columns + 2 * halo, 1};
  const backstay_region u = {.name = "u",
                             .units = "m s-1",
                             .type = BACKSTAY_TYPE_OF(f->u[0][0]),
                             .ndim = 2,
                             .shape = shape,
                             .strides = strides,
                             .data = &f->u[halo][halo],
                             .placement = BACKSTAY_BLOCK,
                             .global = global,
                             .lower = lower,
                             .upper = upper};
  need(backstay_protect(run, &u, &error), &error);

  const backstay_region particles = {.name = "particles",
                                     .type = BACKSTAY_TYPE_OF(*f->particles.x),
                                     .ndim = 1,
                                     .placement = BACKSTAY_DISTRIBUTED_LIST,
                                     .look = pool_look,
                                     .resize = pool_resize,
                                     .user = &f->particles};
  need(backstay_protect(run, &particles, &error), &error);
}

static double value_at(int64_t row, int column) { return 0.1 * (double)(row * columns + column); }

static void write_field(backstay_session* run, field* f) {
  backstay_error error;
  int outcome = -1;
  f->step = 41;
  for (int64_t row = f->first; row < f->last; ++row)
    for (int c = 0; c < columns; ++c) f->u[row - f->first + halo][c + halo] = value_at(row, c);
  void* data;
  const int64_t length = f->last - f->first; /* the list is as long as the rows: 0, 1, 2, ... over all ranks */
  EXPECT(pool_resize(&f->particles, &length, &data) == 0);
  for (int64_t i = 0; i < length; ++i) f->particles.x[i] = (double)(f->first + i);
  need(backstay_checkpoint(run, &outcome, &error), &error);
  EXPECT(outcome == BACKSTAY_NOT_DUE);
  need(backstay_checkpoint_now(run, &outcome, &error), &error);
  EXPECT(outcome == BACKSTAY_TAKEN);
  need(backstay_wait(run, &error), &error);
  backstay_verified verified;
  need(backstay_verify(run, &verified, NULL, NULL, &error), &error);
  EXPECT(verified.lines == 1 && verified.damaged == 0);
}

static void read_field(backstay_session* run, field* f) {
  backstay_error error;
  backstay_resumed resumed;
  need(backstay_resume(run, &resumed, &error), &error);
  EXPECT(resumed.resumed == 1 && resumed.line == 1 && strcmp(resumed.level, "shared") == 0);
  EXPECT(f->step == 41);
  for (int64_t row = f->first; row < f->last; ++row)
    for (int c = 0; c < columns; ++c) EXPECT(f->u[row - f->first + halo][c + halo] == value_at(row, c));
  EXPECT(f->u[0][0] == 0 && f->u[halo][0] == 0);
  EXPECT(f->particles.count == f->last - f->first);
  for (int64_t i = 0; i < f->particles.count; ++i) EXPECT(f->particles.x[i] == (double)(f->first + i));
}

static void field_on_all_ranks(const char* what, const char* dir, int argc, char** argv) {
  char text[1000];
  const char* options[4];
  list_of_options(dir, text, options);
  backstay_session* run = NULL;
  backstay_error error;
  need(backstay_open_world(argc, argv, options, &run, &error), &error);
  field f;
  memset(&f, 0, sizeof f);
  need(backstay_rank(run, &f.rank, &error), &error);
  need(backstay_size(run, &f.size, &error), &error);
  f.first = rows * f.rank / f.size;
  f.last = rows * (f.rank + 1) / f.size;
  protect_field(run, &f);
  if (strcmp(what, "write") == 0)
    write_field(run, &f);
  else
    read_field(run, &f);
  backstay_close(run);
  free(f.particles.x);
}

/* ---- callbacks ------------------------------------------------------------------------------------------------- */

typedef struct {
  int rank;
  size_t total; /* bytes of all ranks, as redistribute saw them */
  int loaded;
} owned;

/* Rank r saves r + 1 bytes, in two pieces. */
static int owned_save(void* user, backstay_stream* stream) {
  const owned* o = user;
  const char byte = (char)o->rank;
  for (int i = 0; i < o->rank; ++i)
    if (backstay_write(stream, &byte, 1) != BACKSTAY_OK) return 1;
  return backstay_write(stream, &byte, 1);
}

static int owned_load(void* user, const void* bytes, size_t size) {
  owned* o = user;
  o->loaded = 1;
  return size == (size_t)o->rank + 1 && *(const char*)bytes == (char)o->rank ? 0 : 7;
}

static int owned_redistribute(void* user, size_t count, const void* const* bytes, const size_t* sizes, int rank,
                              int size) {
  owned* o = user;
  for (size_t i = 0; i < count; ++i) {
    o->total += sizes[i];
    if (sizes[i] != i + 1 || *(const char*)bytes[i] != (char)i) return 8;
  }
  return rank == o->rank && size > 0 ? 0 : 9;
}

/* The first launch saves; later ones put back. On a communicator of the program's own. */
static void owned_by_callbacks(const char* dir, int argc, char** argv) {
  char text[1000];
  const char* options[4];
  list_of_options(dir, text, options);
  backstay_session* run = NULL;
  backstay_error error;
  MPI_Comm mine, same;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  need(backstay_open_mpi(mine, options, &run, &error), &error);
  EXPECT(backstay_comm(run, &same, &error) == BACKSTAY_OK && same == mine);
  owned o = {0, 0, 0};
  need(backstay_rank(run, &o.rank, &error), &error);
  const backstay_callbacks callbacks = {owned_save, owned_load, owned_redistribute, &o};
  need(backstay_protect_callbacks(run, "owned", &callbacks, &error), &error);
  backstay_resumed resumed;
  need(backstay_resume(run, &resumed, &error), &error);
  int size = 0;
  need(backstay_size(run, &size, &error), &error);
  const size_t saved = (size_t)resumed.saved_ranks;
  if (!resumed.resumed)
    need(backstay_checkpoint_now(run, NULL, &error), &error);
  else if (resumed.saved_ranks == size)
    EXPECT(o.loaded == 1 && o.total == 0);
  else
    EXPECT(o.loaded == 0 && o.total == saved * (saved + 1) / 2);
  backstay_close(run);
  MPI_Comm_free(&mine);
  MPI_Finalize();
}

/* ---- alone ----------------------------------------------------------------------------------------------------- */

typedef struct {
  double x[3];
  int id;
} particle;

static void refused(int code, int wanted, const backstay_error* error, const char* word) {
  if (code == wanted && error->code == wanted && strstr(error->message, word) != NULL) return;
  ++failures;
  fprintf(stderr, "refused with code %d instead of %d, or without the word '%s': %s\n", code, wanted, word,
          error->message);
}

static void check_struct_and_text(backstay_session* run) {
  static const int64_t three[] = {3}, two[] = {2};
  particle p[2] = {{{1, 2, 3}, 4}, {{5, 6, 7}, 8}};
  char label[8] = "seven77";
  backstay_error error;
  const backstay_member members[] = {{"x", offsetof(particle, x), BACKSTAY_TYPE_OF(p->x[0]), 1, three},
                                     {"id", offsetof(particle, id), BACKSTAY_TYPE_OF(p->id), 0, NULL}};
  const backstay_type type = {BACKSTAY_COMPOUND, sizeof(particle), members, 2};
  const backstay_region particles = {.name = "p", .type = type, .ndim = 1, .shape = two, .data = p};
  need(backstay_protect(run, &particles, &error), &error);
  need(backstay_protect_text(run, "label", label, sizeof label, &error), &error);
  need(backstay_checkpoint_now(run, NULL, &error), &error);
  need(backstay_wait(run, &error), &error);
  memset(p, 0, sizeof p);
  memset(label, 'x', sizeof label);
  need(backstay_resume(run, NULL, &error), &error);
  EXPECT(p[0].x[2] == 3 && p[1].id == 8 && strcmp(label, "seven77") == 0);
  need(backstay_unprotect(run, "label", &error), &error);
  need(backstay_unprotect(run, "p", &error), &error);
}

static void check_refusals(backstay_session* run) {
  double x = 0;
  int number = -1;
  backstay_error e;
  backstay_region region = {.name = "x", .type = BACKSTAY_TYPE_OF(x), .data = &x};
  refused(backstay_protect(NULL, &region, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`session` is NULL");
  refused(backstay_protect(run, NULL, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`region` is NULL");
  refused(backstay_rank(run, NULL, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`rank` is NULL");
  refused(backstay_checkpoint(NULL, &number, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`session` is NULL");
  refused(backstay_unprotect(run, "nothing", &e), BACKSTAY_NOT_FOUND, &e, "not protected");
  refused(backstay_prune(run, 0, &e), BACKSTAY_INVALID_ARGUMENT, &e, "keep 1 or more");
  refused(backstay_protect_text(run, "t", NULL, 4, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`text` is NULL");
  const backstay_callbacks none = {NULL, NULL, NULL, NULL};
  refused(backstay_protect_callbacks(run, "c", &none, &e), BACKSTAY_INVALID_ARGUMENT, &e, "both needed");
  region.ndim = 9;
  refused(backstay_protect(run, &region, &e), BACKSTAY_INVALID_ARGUMENT, &e, "ndim is 9");
  region.ndim = 1;
  refused(backstay_protect(run, &region, &e), BACKSTAY_INVALID_ARGUMENT, &e, "is NULL");
  region.ndim = 0;
  region.type.kind = 99;
  refused(backstay_protect(run, &region, &e), BACKSTAY_INVALID_ARGUMENT, &e, "kind 99");
  region.type = BACKSTAY_TYPE_OF(x);
  region.placement = 99;
  refused(backstay_protect(run, &region, &e), BACKSTAY_INVALID_ARGUMENT, &e, "placement 99");
  region.placement = BACKSTAY_DEFAULT;
  need(backstay_protect(run, &region, &e), &e);
  refused(backstay_protect(run, &region, NULL), BACKSTAY_INVALID_ARGUMENT, &(backstay_error){1, "no place"},
          "no place");
  EXPECT(number == -1);
}

static void check_opening(const char* dir) {
  backstay_session* run = NULL;
  backstay_error e;
  char text[1000];
  const char* options[4];
  list_of_options(dir, text, options);
  refused(backstay_open_alone(options, NULL, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`session` is NULL");
  const char* unknown[] = {"evry=3", NULL};
  refused(backstay_open_alone(unknown, &run, &e), BACKSTAY_UNKNOWN_OPTION, &e, "every");
  const char* no_value[] = {"every", NULL};
  refused(backstay_open_alone(no_value, &run, &e), BACKSTAY_INVALID_ARGUMENT, &e, "name=value");
  refused(backstay_open_mpi(MPI_COMM_NULL, options, &run, &e), BACKSTAY_INVALID_ARGUMENT, &e, "MPI_COMM_NULL");
  EXPECT(run == NULL);
  backstay_close(NULL);
}

/* `u` is read, and `f` is overwritten but for its ends; once they are, too. */
static void check_computations(const char* dir) {
  static const int64_t ten[] = {10}, first[] = {1}, last[] = {9}, one[] = {1}, minus_one[] = {-1};
  double u[10] = {0}, f[10] = {0};
  char text[1000];
  int inside = -1, ends = -1, same = -1;
  backstay_session* run = NULL;
  backstay_error e;
  backstay_counters counters;
  const char* options[] = {text, "log=quiet", "every=1", "policy=wait", NULL};
  backstay_region region = {.name = "u", .type = BACKSTAY_TYPE_OF(u[0]), .ndim = 1, .shape = ten, .data = u};
  const backstay_access fluxes[] = {
      {.region = "u", .mode = BACKSTAY_READ, .ndim = 1, .reach_below = minus_one, .reach_above = one},
      {.region = "f", .mode = BACKSTAY_WRITE, .ndim = 1, .begin = first, .end = last}};
  const backstay_access all = {.region = "f", .mode = BACKSTAY_WRITE};
  snprintf(text, sizeof text, "dir=%s/declared", dir);
  need(backstay_open_alone(options, &run, &e), &e);
  need(backstay_protect(run, &region, &e), &e);
  refused(backstay_declare(run, "fluxes", fluxes, 2, &inside, &e), BACKSTAY_NOT_FOUND, &e, "'f' that is not protected");
  region.name = "f";
  region.data = f;
  need(backstay_protect(run, &region, &e), &e);
  need(backstay_declare(run, "fluxes", fluxes, 2, &inside, &e), &e);
  need(backstay_declare(run, "ends", &all, 1, &ends, &e), &e);
  need(backstay_declare(run, "fluxes", fluxes, 2, &same, &e), &e);
  EXPECT(inside == 0 && ends == 1 && same == inside);
  need(backstay_checkpoint(run, NULL, &e), &e);
  need(backstay_begin(run, inside, &e), &e);
  need(backstay_status(run, &counters, &e), &e);
  EXPECT(counters.left_out_bytes == 0 && counters.in_flight == 1);
  need(backstay_end(run, &e), &e);
  need(backstay_begin(run, ends, &e), &e);
  need(backstay_end(run, &e), &e);
  need(backstay_status(run, &counters, &e), &e);
  EXPECT(counters.left_out_bytes == sizeof f);
  u[0] = f[0] = 5;
  need(backstay_wait(run, &e), &e);
  need(backstay_resume(run, NULL, &e), &e);
  EXPECT(u[0] == 0 && f[0] == 5);

  const backstay_access half = {.region = "u", .mode = BACKSTAY_READ, .ndim = 1, .begin = first};
  const backstay_access no_length = {.region = "u", .mode = BACKSTAY_READ, .begin = first, .end = last};
  const backstay_access outside = {
      .region = "u", .mode = BACKSTAY_READ, .ndim = 1, .begin = first, .end = (int64_t[]){11}};
  const backstay_access nowhere = {.region = NULL};
  refused(backstay_declare(run, "x", &half, 1, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "given both or not at all");
  refused(backstay_declare(run, "x", &no_length, 1, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`ndim` is the length");
  refused(backstay_declare(run, "x", &outside, 1, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "not inside 0 to 10");
  refused(backstay_declare(run, "x", &nowhere, 1, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "region is NULL");
  refused(backstay_declare(run, "x", NULL, 1, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`accesses` is NULL");
  refused(backstay_declare(run, "x", &all, 1, NULL, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`computation` is NULL");
  refused(backstay_declare(run, NULL, &all, 1, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`name` is NULL");
  refused(backstay_declare(run, "x", NULL, 0, &same, &e), BACKSTAY_INVALID_ARGUMENT, &e, "has no accesses");
  refused(backstay_begin(run, 7, &e), BACKSTAY_INVALID_ARGUMENT, &e, "has not declared");
  backstay_close(run);
}

/* Five times `u` is doubled and read, four of them before the line; the second launch computes once. */
static void check_replay(const char* dir) {
  static const int64_t one[] = {1};
  char text[1000];
  const char* options[] = {text, "log=quiet", "every=1", "policy=wait", NULL};
  backstay_session* run = NULL;
  backstay_error e;
  backstay_resumed found;
  snprintf(text, sizeof text, "dir=%s/replayed", dir);
  for (int launch = 0; launch < 2; ++launch) {
    double u = 1, told = 0;
    int twice = -1, replaying = -1, ran = 0;
    const backstay_region region = {.name = "u", .type = BACKSTAY_TYPE_OF(u), .ndim = 1, .shape = one, .data = &u};
    const backstay_access all = {.region = "u", .mode = BACKSTAY_READ_WRITE};
    need(backstay_open_alone(options, &run, &e), &e);
    need(backstay_protect(run, &region, &e), &e);
    need(backstay_declare(run, "twice", &all, 1, &twice, &e), &e);
    need(backstay_replay(run, &found, &e), &e);
    EXPECT(found.resumed == launch);
    const char* list[] = {"u", NULL};
    refused(backstay_save_only(run, list, 2, &e), BACKSTAY_INVALID_ARGUMENT, &e, "one of the regions is NULL");
    refused(backstay_save_only(run, NULL, 1, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`regions` is NULL");
    list[1] = "x";
    refused(backstay_save_only(run, list, 2, &e), BACKSTAY_NOT_FOUND, &e, "'x', which is not protected");
    need(backstay_save_only(run, list, 1, &e), &e);
    for (int i = 0; i < (launch == 0 ? 4 : 5); ++i) {
      need(backstay_begin(run, twice, &e), &e);
      need(backstay_replaying(run, &replaying, &e), &e);
      EXPECT(replaying == (launch == 1 && i < 4));
      if (!replaying) {
        u *= 2;
        told = u;
        ++ran;
      }
      need(backstay_result(run, &told, sizeof told, &e), &e);
      EXPECT(told == (double)(2 << i));
      need(backstay_checkpoint(run, NULL, &e), &e);
    }
    EXPECT(u == (launch == 0 ? 16 : 32) && ran == (launch == 0 ? 4 : 1));
    refused(backstay_replay(run, NULL, &e), BACKSTAY_INVALID_ARGUMENT, &e, "called twice");
    refused(backstay_replaying(run, NULL, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`replaying` is NULL");
    refused(backstay_result(run, NULL, 8, &e), BACKSTAY_INVALID_ARGUMENT, &e, "`value` is NULL");
    need(backstay_wait(run, &e), &e);
    backstay_close(run);
  }
}

static void alone(const char* dir) {
  char text[1000];
  const char* options[4];
  backstay_session* run = NULL;
  backstay_error error;
  list_of_options(dir, text, options);
  check_opening(dir);
  check_computations(dir);
  check_replay(dir);
  need(backstay_open_alone(options, &run, &error), &error);
  EXPECT(error.code == BACKSTAY_OK && error.message[0] == '\0');
  check_struct_and_text(run);
  check_refusals(run);
  backstay_counters counters;
  int stopping = -1;
  need(backstay_status(run, &counters, &error), &error);
  EXPECT(counters.taken == 1 && counters.committed == 1 && counters.last_error[0] == '\0');
  EXPECT(backstay_stopping(run, &stopping, &error) == BACKSTAY_OK && stopping == 0);
  EXPECT(backstay_option_count() > 20 && strcmp(backstay_option_name(0), "dir") == 0);
  EXPECT(backstay_option_name(backstay_option_count()) == NULL);
  EXPECT(strlen(backstay_version()) >= 5);
  backstay_close(run);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (strcmp(argv[1], "alone") == 0)
    alone(argv[2]);
  else if (strcmp(argv[1], "owned") == 0)
    owned_by_callbacks(argv[2], argc, argv);
  else
    field_on_all_ranks(argv[1], argv[2], argc, argv);
  return failures == 0 ? 0 : 1;
}
