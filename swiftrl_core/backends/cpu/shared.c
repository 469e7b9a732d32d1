/* A baseline: threads update one table without locks, each from its own chunk.
 *
 * The rule is the kernel's (td_rule.h, td_update.h), the random numbers too. What a thread reads depends on which
 * thread came first, and two updates of one entry at once lose one of them, so a run of several threads does not
 * repeat. Entries are read and written by relaxed atomic operations: plain loads and stores to the CPU, but defined in
 * C.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, N_STATES, N_ACTIONS as for the kernel. */
#include <stdint.h>

#include "layout.h"
#include "td_update.h"

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)

static inline value_t peek(const value_t *entry) {
  value_t value;
  __atomic_load(entry, &value, __ATOMIC_RELAXED);
  return value;
}

static inline void poke(value_t *entry, value_t value) { __atomic_store(entry, &value, __ATOMIC_RELAXED); }

/* td_update of td_update.h, on a copy of the next state's row. */
static void update(value_t *q, struct transition t, const struct learner_args *args, uint32_t *random_state) {
  value_t *entry = entry_of(t, q), target = t.reward;
  if (!ends(t)) {
    value_t row[N_ACTIONS];
    uint32_t next = next_of(t);
    for (uint32_t a = 0; a < N_ACTIONS; a++) row[a] = peek(&q[row_at(next) + a]);
    target = bootstrapped_target(t.reward, value_of_next(next, row, args, random_state, 0), args);
  }
  poke(entry, updated(peek(entry), target, args));
}

/* What one thread does: args->episodes passes over its chunk. */
void train_shared(value_t *q, const struct transition *chunk, struct learner_args *args) {
  struct learner_args a = *args;
  uint32_t random_state = a.random_state;
  for (uint32_t episode = 0; episode < a.episodes; episode++)
    for (uint32_t offset = 0; offset < STRIDE; offset++)
      for (uint32_t i = offset; i < a.transitions; i += STRIDE) {
        uint32_t index = SAMPLING == SAMPLING_RAN ? lcg_below(&random_state, a.transitions) : i;
        update(q, chunk[index], &a, &random_state);
      }
  args->random_state = random_state;
}
