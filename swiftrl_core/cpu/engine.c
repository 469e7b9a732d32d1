/* Many virtual PIM cores on this CPU: what dpu_src/learner.c does on one DPU, for a range of cores, one after another.
 *
 * The update is the very td_update.h that the kernel includes, so the tables agree in every bit. A core's chunk stays in
 * the cache for all the episodes of a round: cores are the outer loop, episodes the inner one.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, N_ACTIONS. */
#include <stdint.h>

#include "layout.h"
#include "td_update.h"

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)

static void one_pass(value_t *restrict q, const struct transition *restrict chunk, const struct learner_args *a,
                     uint32_t *random_state) {
  for (uint32_t offset = 0; offset < STRIDE; offset++)
    for (uint32_t i = offset; i < a->transitions; i += STRIDE) {
      uint32_t index = SAMPLING == SAMPLING_RAN ? lcg_below(random_state, a->transitions) : i;
      td_update(q, chunk[index], a, random_state);
    }
}

/* Train cores first .. last - 1. Core c owns records starts[c] .. starts[c + 1] - 1, the table at c * entries (which
 * holds where it starts from) and args[c], whose random_state is left where the next round goes on. */
void train_cores(value_t *tables, const struct transition *records, const int64_t *starts, struct learner_args *args,
                 int64_t entries, int64_t first, int64_t last) {
  for (int64_t core = first; core < last; core++) {
    struct learner_args a = args[core];
    uint32_t random_state = a.random_state;
    for (uint32_t episode = 0; episode < a.episodes; episode++)
      one_pass(tables + core * entries, records + starts[core], &a, &random_state);
    args[core].random_state = random_state;
  }
}
