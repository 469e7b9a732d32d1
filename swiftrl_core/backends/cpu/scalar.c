/* A few virtual PIM cores on this CPU, one after another: what dpu_src/learner.c or tasklet_learner.c does on one DPU,
 * without the DMA.
 *
 * Includes the kernel's td_update.h and does nothing clever. The backend uses it where there are too few cores to fill
 * lanes (engine.c) or each lane would need another alpha, and the tests as an independent check. A core's chunk stays
 * in the cache for all the episodes of a round.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, N_STATES, N_ACTIONS, UPDATE, ALPHA_SCHEDULE, BOOTSTRAP as for
 * the kernel; EARLY_EXIT, 0 or 1. */
#include <stdint.h>
#include <string.h>

#include "layout.h"
#include "td_update.h"

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)
#define ENTRIES (N_STATES * N_ACTIONS)

static uint32_t pass(value_t *restrict q, const struct transition *restrict chunk, const struct learner_args *args,
                     uint32_t random_state, const struct aux *aux) {
  if (BOOTSTRAP == BOOTSTRAP_FROZEN)
    for (uint32_t s = 0; s < N_STATES; s++) freeze(s, q, args, aux);
  for (uint32_t offset = 0; offset < STRIDE; offset++)
    for (uint32_t i = offset; i < args->transitions; i += STRIDE) {
      uint32_t index = SAMPLING == SAMPLING_RAN ? lcg_below(&random_state, args->transitions) : i;
      td_update(q, chunk[index], args, &random_state, aux);
    }
  return random_state;
}

/* Train cores first .. last - 1 from `table`, in UPDATE_VR with `targets`; core c's own ends at local +
 * c * ENTRIES. Core c owns records starts[c] .. starts[c + 1] - 1 and args[c], whose random_state is left where the
 * next round goes on. passes[c] counts episodes that were run; with EARLY_EXIT the first that changes no bit is the
 * last. */
void train_cores(const value_t *table, const value_t *targets, value_t *local, const struct transition *records,
                 const int64_t *starts, struct learner_args *args, int64_t *passes, int64_t first, int64_t last) {
  value_t values[N_STATES], frozen[N_STATES];
  uint16_t visits[ENTRIES];
  struct aux aux = {targets, values, visits, frozen};
  if (UPDATE == UPDATE_VR) keep_values(values, table);
  for (int64_t core = first; core < last; core++) {
    struct learner_args a = args[core];
    value_t *q = local + core * ENTRIES;
    memcpy(q, table, ENTRIES * sizeof(value_t));
    if (ALPHA_SCHEDULE != ALPHA_SCHEDULE_CONSTANT) memset(visits, 0, sizeof(visits));
    uint32_t episode = 0;
    while (episode < a.episodes) {
#if EARLY_EXIT
      value_t before[ENTRIES];
      memcpy(before, q, sizeof(before));
#endif
      a.random_state = pass(q, records + starts[core], &a, a.random_state, &aux);
      episode++;
#if EARLY_EXIT
      if (!memcmp(before, q, sizeof(before))) break;
#endif
    }
    args[core].random_state = a.random_state;
    passes[core] = episode;
  }
}
