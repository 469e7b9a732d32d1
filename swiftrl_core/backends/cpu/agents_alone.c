/* Independent agents, one after the other: what dpu_src/multi_agent.c does on its tasklets, without the DMA.
 *
 * This is for agents that do not stay in step: SARSA and RAN draw random numbers and send each its own way, and agents
 * with their own data have nothing to share. The others learn in lanes (agents.c). The update is the kernel's
 * td_update.h, in plain loops.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, N_STATES, N_ACTIONS as for the kernel. */
#include <stdint.h>
#include <string.h>

#include "layout.h"
#include "td_update.h"

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)
#define ENTRIES (N_STATES * N_ACTIONS)

static uint32_t pass(value_t *restrict q, const struct transition *restrict chunk, const struct learner_args *args,
                     uint32_t random_state) {
  for (uint32_t offset = 0; offset < STRIDE; offset++)
    for (uint32_t i = offset; i < args->transitions; i += STRIDE) {
      uint32_t index = SAMPLING == SAMPLING_RAN ? lcg_below(&random_state, args->transitions) : i;
      td_update(q, chunk[index], args, &random_state, 0);
    }
  return random_state;
}

/* Train agents first .. last - 1 from tables of zeros; agent a's table is at tables + a * ENTRIES. It learns from
 * args[a].transitions records, which begin at records + starts[a], in args[a].episodes passes. */
void train_agents(const struct transition *records, const int64_t *starts, const struct learner_args *args,
                  value_t *tables, int64_t first, int64_t last) {
  for (int64_t agent = first; agent < last; agent++) {
    value_t *q = tables + agent * ENTRIES;
    memset(q, 0, ENTRIES * sizeof(value_t));
    uint32_t random_state = args[agent].random_state;
    for (uint32_t episode = 0; episode < args[agent].episodes; episode++)
      random_state = pass(q, records + starts[agent], &args[agent], random_state);
  }
}
