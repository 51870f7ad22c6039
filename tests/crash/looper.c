/* looper STEPS: a program in C whose ranks are replaced when they are lost. Rank 0 prints "sum S" at the end: the same
 * with and without a loss. An MPI call that fails sends it back to backstay_loop.
 *
 * LOOPER_DIES=PROCESS,MICROSECONDS: that one dies so long after it has begun to close its session and MPI.
 * LOOPER_RESUMES=PROCESS,N: that one dies when its Nth call of backstay_resume has returned.
 * LOOPER_QUITS=PROCESS,STEP: that one calls quick_exit(4) at that step.
 * LOOPER_EXITS, LOOPER_ABORTS, LOOPER_ERRS=PROCESS,STEP: that one calls exit(4) or MPI_Abort at that step, or makes a
 * mistake in MPI that is fatal. LOOPER_READS=1: a thread of the one that exits is in fgets() for a pipe meanwhile.
 * LOOPER_CODE=N: what exit and MPI_Abort are called with there, in place of 4 and 5.
 * LOOPER_MPI_GIVES_UP=PROCESS,STEP: Open MPI ends it as it does by itself.
 * LOOPER_RETURNS=PROCESS,STEP: the body of that one, or with PROCESS -1 of all, returns an error at that step.
 * LOOPER_MERGES=FILE: all merge an intercommunicator at step 100; process 1 dies before it, if it can make that file.
 * LOOPER_COPIES=FILE: all copy a communicator that is older than the session at step 100, and process 1 does as above.
 * LOOPER_LEAVES=FILE: process 1 dies between the end of the loop and that of its session, as above.
 * LOOPER_TARRIES=PROCESS,SECONDS: that one stands still for so long in the end of its session, where all have agreed
 * that it has come, and dies.
 * LOOPER_LATE=FILE: process 1 dies at step 100, as above, and the last rank sends in a communicator that rank 0 has
 * freed. LOOPER_KEEPS=1: a communicator that the body has made once is kept over repairs, against what the guide says.
 * LOOPER_PAIR=1: ranks 0 and 1 talk in a communicator of their own, which they keep over repairs, too.
 * LOOPER_STARTS=1: the body makes what it starts from before it resumes. LOOPER_ERRORS=1: it wants MPI's error codes.
 * LOOPER_STATUS=N: what all end with. LOOPER_INIT=1: what it starts from comes of messages in backstay_init.
 * LOOPER_LOCKS=PROCESS,SECONDS: what is open in that one stays so for that long, when it has died, too: its locks.
 * LOOPER_RESTS=PROCESS,SECONDS: that one goes on behind its session for so long, and says so.
 * LOOPER_CLOSES_AT_EXIT=1: all close their sessions in a function that they have registered before, and wait for a
 * message to themselves before and in it.
 * LOOPER_RAISES=1: all raise SIGTERM between the end of the loop and that of their sessions.
 * LOOPER_LAST_WORDS=1: it says so at its exit, in a function that it has registered before its session.
 * LOOPER_GOES_ON=1: where backstay_loop has failed it makes the calls of the session all the same, and says the codes.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backstay/backstay.h"
#include "backstay/backstay_mpi.h"

#define CELLS 1000

typedef struct {
  backstay_session* session;
  int64_t step, steps;
  unsigned resumes;
  double cells[CELLS];
  double offset;         /* from backstay_init */
  double weights[CELLS]; /* static: made at a fresh start only, or put back */
  MPI_Comm older;        /* than the session: of all processes */
  MPI_Comm kept;         /* over repairs */
} simulation;

static int say(const char* what, const backstay_error* error) {
  fprintf(stderr, "looper: %s: %s\n", what, error->message);
  return 1;
}

static int number_in(const char* variable, int otherwise) {
  return getenv(variable) != NULL ? atoi(getenv(variable)) : otherwise;
}

/* This process is the first number of that variable, of which `second` gets the second one. */
static int is_me(const char* variable, unsigned* second) {
  const char *text = getenv(variable), *mine = getenv("OMPI_COMM_WORLD_RANK");
  int process = -1;
  return text != NULL && mine != NULL && sscanf(text, "%d,%u", &process, second) == 2 &&
         (process == -1 || process == atoi(mine));
}

/* Past what fork() calls in libraries, which would let go of locks. */
static void keep_what_is_open(void) {
  static unsigned seconds = 0;
  if (seconds > 0 || !is_me("LOOPER_LOCKS", &seconds) || syscall(SYS_fork) != 0) return;
  sleep(seconds);
  _exit(0);
}

/* What the others begin with, too. */
static int set_up(void* user) {
  simulation* s = user;
  backstay_error error;
  MPI_Comm comm;
  int rank;
  double mine, sum = 0;
  if (backstay_comm(s->session, &comm, &error) != 0) return say("comm", &error);
  MPI_Comm_rank(comm, &rank);
  mine = 1.0 / (rank + 3);
  if (MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS) return 2;
  s->offset = sum;
  return 0;
}

static int is_process_1(void) {
  const char* mine = getenv("OMPI_COMM_WORLD_RANK");
  return mine != NULL && atoi(mine) == 1;
}

/* Process 1 does, the first time. */
static void die_once(const char* file) {
  if (is_process_1() && open(file, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) raise(SIGKILL);
}

static void rest(unsigned seconds) {
  while (seconds > 0) seconds = sleep(seconds);
}

static int is_closing = 0;

#if defined(OPEN_MPI)
/* Backstay's agreement, and MPI's behind it. */
__attribute__((visibility("default"))) int MPIX_Comm_iagree(MPI_Comm comm, int* flags, MPI_Request* request) {
  unsigned seconds = 0;
  if (is_closing && is_me("LOOPER_TARRIES", &seconds)) {
    rest(seconds);
    raise(SIGKILL);
  }
  __typeof__(&MPIX_Comm_iagree) theirs;
  *(void**)&theirs = dlsym(RTLD_NEXT, "MPIX_Comm_iagree");
  return theirs(comm, flags, request);
}
#endif

/* Of ranks with even and with odd numbers. */
static int merge(MPI_Comm comm, int rank, const char* file) {
  MPI_Comm half, between, whole;
  if (MPI_Comm_split(comm, rank % 2, rank, &half) != MPI_SUCCESS) return 2;
  if (MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 7, &between) != MPI_SUCCESS) return 2;
  die_once(file);
  if (MPI_Intercomm_merge(between, rank % 2, &whole) != MPI_SUCCESS) return 2;
  MPI_Comm_free(&whole);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
  return 0;
}

/* Never ends, as the spares are not there: the first time a loss ends it, and then it is not tried again. */
static int copy(MPI_Comm comm, MPI_Comm older, const char* file) {
  MPI_Comm out;
  const int again = access(file, F_OK) == 0;
  if (MPI_Barrier(comm) != MPI_SUCCESS) return 2;
  if (again) return 0;
  usleep(is_process_1() ? 200000 : 0); /* the others are in it */
  die_once(file);
  return MPI_Comm_dup(older, &out) == MPI_SUCCESS ? 0 : 2;
}

/* Of ranks 0 and 1, made once. */
static int talk_in_a_pair(MPI_Comm comm, int rank, MPI_Comm* pair) {
  const int members[] = {0, 1};
  MPI_Group all, two;
  if (rank > 1) return 0;
  if (*pair == MPI_COMM_NULL) {
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, 2, members, &two);
    if (MPI_Comm_create_group(comm, two, 0, pair) != MPI_SUCCESS) return 2;
    MPI_Group_free(&two);
    MPI_Group_free(&all);
  }
  return MPI_Barrier(*pair) == MPI_SUCCESS ? 0 : 2;
}

/* The last rank hears of the loss of process 1 late, and sends what rank 0 no longer waits for. */
static int send_late(MPI_Comm comm, int rank, int size, const char* file) {
  MPI_Comm made;
  int value = 0;
  const int again = access(file, F_OK) == 0;
  if (MPI_Barrier(comm) != MPI_SUCCESS) return 2;
  if (again) return 0;
  if (MPI_Comm_dup(comm, &made) != MPI_SUCCESS) return 2;
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, size - 1, 1, made);
  if (rank == size - 1) MPI_Recv(&value, 1, MPI_INT, 0, 1, made, MPI_STATUS_IGNORE);
  die_once(file);
  usleep(rank == size - 1 ? 20000 : 0);
  if (rank == size - 1) MPI_Send(&value, 1, MPI_INT, 0, 1, made);
  const int code = rank == 0 ? MPI_Recv(&value, 1, MPI_INT, 1, 1, made, MPI_STATUS_IGNORE) : MPI_SUCCESS;
  MPI_Comm_free(&made);
  return code == MPI_SUCCESS ? 0 : 2;
}

/* Open MPI's own end, which is declared nowhere; ISO C converts no data pointer to a function's. */
static void give_up(void) {
  int (*end)(int, const char*, ...) = NULL;
  void* found = dlsym(RTLD_DEFAULT, "ompi_rte_abort");
  memcpy(&end, &found, sizeof end);
  if (end != NULL) end(-1, "it sees no way on\n");
  exit(3);
}

static void* read_it(void* input) {
  char line[8];
  return fgets(line, sizeof line, input);
}

/* What does not come. */
static void maybe_read(void) {
  static pthread_t thread;
  int ends[2];
  if (getenv("LOOPER_READS") == NULL || pipe(ends) != 0) return;
  FILE* input = fdopen(ends[0], "r");
  pthread_create(&thread, NULL, read_it, input);
  while (ftrylockfile(input) == 0) {
    funlockfile(input);
    usleep(1000);
  }
}

static int body(void* user) {
  simulation* s = user;
  backstay_error error;
  MPI_Comm comm;
  int rank, size;
  double sum = 0, all = 0, theirs;
  unsigned dies_at = 0, exits_at = 0, quits_at = 0, aborts_at = 0, errs_at = 0, returns_at = 0, gives_up_at = 0;
  const int exits = is_me("LOOPER_EXITS", &exits_at), quits = is_me("LOOPER_QUITS", &quits_at),
            aborts = is_me("LOOPER_ABORTS", &aborts_at), errs = is_me("LOOPER_ERRS", &errs_at),
            returns = is_me("LOOPER_RETURNS", &returns_at), gives_up = is_me("LOOPER_MPI_GIVES_UP", &gives_up_at);
  const char *merges = getenv("LOOPER_MERGES"), *copies = getenv("LOOPER_COPIES"), *late = getenv("LOOPER_LATE");
  backstay_resumed found;
  for (int i = 0; i < CELLS && getenv("LOOPER_STARTS") != NULL; ++i) s->cells[i] = 1;
  if (backstay_resume(s->session, &found, &error) != 0) return say("resume", &error);
  if (is_me("LOOPER_RESUMES", &dies_at) && ++s->resumes == dies_at) raise(SIGKILL);
  keep_what_is_open();
  for (int i = 0; i < CELLS && !found.resumed; ++i) s->weights[i] = 0.25 + 0.5 * i / CELLS;
  if (backstay_comm(s->session, &comm, &error) != 0) return say("comm", &error);
  if (getenv("LOOPER_ERRORS") != NULL) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (getenv("LOOPER_KEEPS") != NULL && s->kept == MPI_COMM_NULL && MPI_Comm_dup(comm, &s->kept) != MPI_SUCCESS)
    return 2;
  for (; s->step < s->steps; ++s->step) {
    if (exits && s->step == exits_at) {
      maybe_read();
      exit(number_in("LOOPER_CODE", 4));
    }
    if (quits && s->step == quits_at) quick_exit(4);
    if (aborts && s->step == aborts_at) MPI_Abort(comm, number_in("LOOPER_CODE", 5));
    if (returns && s->step == returns_at) return 9;
    if (gives_up && s->step == gives_up_at) give_up();
    if (errs && s->step == errs_at) MPI_Send(&sum, 1, MPI_DOUBLE, 1000, 0, comm);
    if (s->step == 100 && merges != NULL && merge(comm, rank, merges) != 0) return 2;
    if (s->step == 100 && copies != NULL && copy(comm, s->older, copies) != 0) return 2;
    if (s->step == 100 && late != NULL && send_late(comm, rank, size, late) != 0) return 2;
    if (getenv("LOOPER_PAIR") != NULL && talk_in_a_pair(comm, rank, &s->kept) != 0) return 2;
    if (backstay_checkpoint(s->session, NULL, &error) != 0) return say("checkpoint", &error);
    if (MPI_Sendrecv(&s->cells[CELLS - 1], 1, MPI_DOUBLE, (rank + 1) % size, 0, &theirs, 1, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
      return 2;
    for (int i = CELLS - 1; i > 0; --i) s->cells[i] = s->weights[i] * s->cells[i - 1] + (double)s->step;
    s->cells[0] = theirs / 4 + rank + s->offset;
  }
  for (int i = 0; i < CELLS; ++i) sum += s->cells[i];
  if (MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS) return 2;
  if (rank == 0) printf("sum %.17g\n", all);
  fflush(stdout); /* it may be killed before it ends */
  return 0;
}

static void* die(void* microseconds) {
  usleep(*(const useconds_t*)microseconds);
  raise(SIGKILL);
  return NULL;
}

static void maybe_die_soon(void) {
  static useconds_t microseconds;
  pthread_t thread;
  if (is_me("LOOPER_DIES", &microseconds)) pthread_create(&thread, NULL, die, &microseconds);
}

/* As one who looks at no code. backstay_status is to work. */
static void go_on(simulation* s, const backstay_region* region) {
  static const char* const names[] = {"step"};
  backstay_session* run = s->session;
  backstay_counters counters;
  backstay_verified verified;
  int number = 0;
  const int codes[] = {backstay_wait(run, NULL),
                       backstay_checkpoint(run, &number, NULL),
                       backstay_checkpoint_now(run, &number, NULL),
                       backstay_resume(run, NULL, NULL),
                       backstay_replay(run, NULL, NULL),
                       backstay_verify(run, &verified, NULL, NULL, NULL),
                       backstay_prune(run, 1, NULL),
                       backstay_stopping(run, &number, NULL),
                       backstay_save_only(run, names, 1, NULL),
                       backstay_init_done(run, NULL),
                       backstay_declare(run, "none", NULL, 0, &number, NULL),
                       backstay_begin(run, 0, NULL),
                       backstay_end(run, NULL),
                       backstay_result(run, &number, sizeof number, NULL),
                       backstay_unprotect(run, "step", NULL),
                       backstay_protect(run, region, NULL),
                       backstay_init(run, set_up, s, NULL),
                       backstay_loop(run, body, s, NULL)};
  backstay_error error;
  char text[200] = "";
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; ++i) {
    const size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, " %d", codes[i]);
  }
  number = backstay_status(run, &counters, &error);
  backstay_wait(run, &error);
  fprintf(stderr, "looper: codes%s; status %d, %llu taken, %llu in flight; %s\n", text, number,
          (unsigned long long)counters.taken, (unsigned long long)counters.in_flight, error.message);
  sleep(2); /* the launcher ends all when one has ended */
}

static void say_last_words(void) { puts("last words"); }

static backstay_session* to_close = NULL;

static void talk_to_myself(void) {
  int sent = 1, got = 0;
  MPI_Request both[2];
  MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &both[0]);
  MPI_Isend(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &both[1]);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void close_at_exit(void) {
  if (to_close == NULL) return; /* a spare */
  talk_to_myself();
  is_closing = 1;
  backstay_close(to_close);
  puts("closed");
}

int main(int argc, char** argv) {
  static simulation s = {.kept = MPI_COMM_NULL};
  const int64_t shape[] = {CELLS};
  backstay_region step = {.name = "step", .type = BACKSTAY_TYPE_OF(s.step), .data = &s.step};
  backstay_region cells = {.name = "cells", .type = BACKSTAY_TYPE_OF(s.cells[0]), .ndim = 1};
  backstay_region weights = {.name = "weights", .type = BACKSTAY_TYPE_OF(s.weights[0]), .ndim = 1};
  backstay_error error;
  s.steps = argc > 1 ? atoll(argv[1]) : 300;
  if (getenv("LOOPER_LAST_WORDS") != NULL) atexit(say_last_words);
  if (getenv("LOOPER_CLOSES_AT_EXIT") != NULL) atexit(close_at_exit);
  cells.shape = weights.shape = shape;
  cells.data = s.cells;
  weights.data = s.weights;
  if (getenv("LOOPER_COPIES") != NULL) {
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_dup(MPI_COMM_WORLD, &s.older);
  }
  if (backstay_open_world(argc, argv, NULL, &s.session, &error) != 0) return say("open", &error);
  if (getenv("LOOPER_COPIES") != NULL && backstay_include(s.session, s.older, &error) != 0)
    return say("include", &error);
  if (getenv("LOOPER_INIT") != NULL && backstay_init(s.session, set_up, &s, &error) != 0) return say("init", &error);
  if (backstay_protect(s.session, &step, &error) != 0 || backstay_protect(s.session, &cells, &error) != 0 ||
      backstay_protect_static(s.session, &weights, &error) != 0 || backstay_loop(s.session, body, &s, &error) != 0) {
    say("loop", &error);
    if (getenv("LOOPER_GOES_ON") != NULL) go_on(&s, &step);
    backstay_close(s.session);
    return 3;
  }
  unsigned rests = 0;
  if (getenv("LOOPER_LEAVES") != NULL) die_once(getenv("LOOPER_LEAVES"));
  maybe_die_soon();
  if (getenv("LOOPER_RAISES") != NULL) raise(SIGTERM);
  if (getenv("LOOPER_CLOSES_AT_EXIT") != NULL) {
    talk_to_myself();
    to_close = s.session;
    return 0;
  }
  is_closing = 1;
  backstay_close(s.session);
  if (getenv("LOOPER_COPIES") != NULL) MPI_Finalize(); /* or else the session has */
  if (is_me("LOOPER_RESTS", &rests)) {
    rest(rests);
    puts("rested");
  }
  return number_in("LOOPER_STATUS", 0);
}
