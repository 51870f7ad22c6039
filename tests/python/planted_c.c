/* planted_c: the same in C, of one process without MPI. */
#include <stdio.h>
#include <stdlib.h>

#include "backstay/backstay.h"

enum { n = 20000 };

int main(void) {
  backstay_session* run = NULL;
  backstay_error error;
  const char* options[] = {"every=100", NULL};
  double* state = calloc(n, sizeof *state);      /* state */
  double* scratch = malloc(n * sizeof *scratch); /* scratch */
  double total = 0;
  if (state == NULL || scratch == NULL) return 2;
  for (int i = 0; i < n; ++i) scratch[i] = state[i] = 1;
  if (backstay_open_alone(options, &run, &error) != BACKSTAY_OK) return 3;
  if (backstay_resume(run, NULL, &error) != BACKSTAY_OK) return 4;
  for (int step = 0; step < 6; ++step) {
    if (backstay_checkpoint(run, NULL, &error) != BACKSTAY_OK) return 5;
    for (int i = 0; i < n; ++i) scratch[i] = 0.5 * state[i];
    for (int i = 0; i < n; ++i) state[i] += scratch[i];
  }
  for (int i = 0; i < n; ++i) total += state[i];
  printf("sum %.17g\n", total);
  backstay_close(run);
  free(state);
  free(scratch);
  return 0;
}
