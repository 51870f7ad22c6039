/* placer STEPS: a program in C that holds one array of CELLS numbers in blocks, on however many ranks there are, and
 * takes its block anew each time that backstay_loop runs its body. Rank 0 prints "sum S", which is the same on any
 * number of ranks, and "ranks N" at the end. */
#include <stdio.h>
#include <stdlib.h>

#include "backstay/backstay.h"
#include "backstay/backstay_mpi.h"

#define CELLS 1000

typedef struct {
  backstay_session* session;
  int64_t step, steps;
  int64_t* cells; /* [lower, upper) of all; whole numbers, so that the order of a sum makes no difference */
} simulation;

static int say(const char* what, const backstay_error* error) {
  fprintf(stderr, "placer: %s: %s\n", what, error->message);
  return 1;
}

static int body(void* user) {
  simulation* s = user;
  backstay_error error;
  MPI_Comm comm;
  int rank, size;
  if (backstay_comm(s->session, &comm, &error) != 0) return say("comm", &error);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int64_t global = CELLS, lower = CELLS * (int64_t)rank / size, upper = CELLS * (int64_t)(rank + 1) / size;
  const int64_t mine = upper - lower;
  int64_t* cells = malloc((size_t)mine * sizeof *cells);
  if (cells == NULL) return 2;
  for (int64_t i = 0; i < mine; ++i) cells[i] = lower + i;
  const backstay_region region = {.name = "cells",
                                  .type = BACKSTAY_TYPE_OF(cells[0]),
                                  .ndim = 1,
                                  .shape = &mine,
                                  .data = cells,
                                  .placement = BACKSTAY_BLOCK,
                                  .global = &global,
                                  .lower = &lower,
                                  .upper = &upper};
  if (backstay_protect(s->session, &region, &error) != 0) return say("protect", &error);
  free(s->cells); /* nothing knows of the block before any more */
  s->cells = cells;
  if (backstay_resume(s->session, NULL, &error) != 0) return say("resume", &error);
  int64_t sum, all;
  for (;; ++s->step) {
    if (backstay_checkpoint(s->session, NULL, &error) != 0) return say("checkpoint", &error);
    sum = all = 0;
    for (int64_t i = 0; i < mine; ++i) sum += cells[i];
    if (MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, comm) != MPI_SUCCESS) return 2;
    if (s->step == s->steps) break;
    for (int64_t i = 0; i < mine; ++i) cells[i] = (cells[i] * 31 + all + lower + i) % 1000003;
  }
  if (rank == 0) printf("sum %lld\nranks %d\n", (long long)all, size);
  fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  static simulation s;
  backstay_region step = {.name = "step", .type = BACKSTAY_TYPE_OF(s.step), .data = &s.step};
  backstay_error error;
  s.steps = argc > 1 ? atoll(argv[1]) : 300;
  if (backstay_open_world(argc, argv, NULL, &s.session, &error) != 0) return say("open", &error);
  int failed = backstay_protect(s.session, &step, &error) != 0 || backstay_loop(s.session, body, &s, &error) != 0;
  if (failed) say("loop", &error);
  backstay_close(s.session);
  free(s.cells);
  return failed ? 3 : 0;
}
