/* Runs agents.c under a sanitizer, on all sizes of teams. Built with it by tests/test_cpu_sanitizers.py. Every array
 * has its exact size, so that a step beyond its end is seen; exits with 0 if agents learn the same in any company. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

#define ENTRIES (N_STATES * N_ACTIONS)

int64_t lanes(void);
int train_vectors(const struct transition *records, int64_t transitions, const struct learner_args *args,
                  value_t *tables, int64_t agents, int64_t first, int64_t last);

enum { TRANSITIONS = 101, AGENTS = 131 };

static uint32_t draw(int n) { return (uint32_t)(rand() % n); }

static void make(struct transition *records, struct learner_args *args) {
  for (int i = 0; i < TRANSITIONS; i++) {
    records[i].step = draw(ENTRIES) | draw(N_STATES) << 16 | (uint32_t)(draw(5) == 0) << 31;
    records[i].reward = (value_t)draw(1000) - 500;
  }
  for (int a = 0; a < AGENTS; a++) {
    args[a] = (struct learner_args){.transitions = TRANSITIONS, .episodes = 3};
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
    args[a].alpha = (float)(1 + a % 32) / 100, args[a].gamma = (float)(a % 19) / 20;
#else
    args[a].alpha = 1 + a % 5, args[a].alpha_scale = 5, args[a].gamma = 1 + a % 7, args[a].gamma_scale = 8;
#endif
  }
}

/* All agents' tables, learnt `unit` vectors at a time. */
static value_t *learn(const struct transition *records, const struct learner_args *args, int64_t unit) {
  int64_t vectors = (AGENTS + lanes() - 1) / lanes();
  value_t *tables = malloc(AGENTS * ENTRIES * sizeof(*tables));
  for (int64_t first = 0; first < vectors; first += unit) {
    int64_t last = first + unit < vectors ? first + unit : vectors;
    if (train_vectors(records, TRANSITIONS, args, tables, AGENTS, first, last)) exit(1);
  }
  return tables;
}

int main(void) {
  struct transition *records = malloc(TRANSITIONS * sizeof(*records));
  struct learner_args *args = malloc(AGENTS * sizeof(*args));
  make(records, args);
  value_t *alone = learn(records, args, 1);
  int differ = 0;
  for (int64_t unit = 2; unit <= 16; unit++) {
    value_t *together = learn(records, args, unit);
    differ |= memcmp(alone, together, AGENTS * ENTRIES * sizeof(*alone));
    free(together);
  }
  free(alone);
  free(args);
  free(records);
  return differ != 0;
}
