/* Independent Q-learners on one DPU, one on each tasklet: a population instead of a team.
 *
 * A DPU's tasklets take turns, an instruction each: a tasklet issues at most one every 11 cycles, the pipeline one a cycle.
 * A single learner leaves ten of eleven cycles idle. So up to 11 agents learn in about the time of one, and more than that
 * share the pipeline; what limits their number is WRAM, 64 KiB for all their tables.
 *
 * Tasklets share nothing that is written, so there is no barrier and no mutex. Each has its own arguments (alpha, gamma, a
 * random generator), its table in WRAM from beginning to end, and a block of WRAM through which it streams its transitions
 * from the MRAM heap: args[i].transitions records from number first[i] on, which may be the same for all. Tables start at
 * zero and end in `q_tables`. A tasklet whose args say 0 episodes only clears its table.
 *
 * Build switches: NR_TASKLETS agents; ALGORITHM, SAMPLING, NUMBER_FORMAT (layout.h), N_STATES, N_ACTIONS; samplings as in
 * learner.c. */
#include <alloc.h>
#include <attributes.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#include "layout.h"
#include "td_update.h"

/* All blocks together take no more WRAM than learner.c's one: its size halved as often as 2 * NR_TASKLETS - 1 has bits
 * behind its first. A power of two, from 2,048 bytes for one tasklet to 64 for 24, which STR's stride divides. */
#define BLOCK_BYTES (DMA_BLOCK_BYTES >> (31 - __builtin_clz(2 * NR_TASKLETS - 1)))
#define BLOCK_RECORDS (BLOCK_BYTES / sizeof(struct transition))
#define TABLE_ENTRIES ((N_STATES * N_ACTIONS + 1) / 2 * 2) /* DMA moves multiples of 8 bytes: pad to an even count */
#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)
#define RECORDS ((__mram_ptr struct transition *)DPU_MRAM_HEAP_POINTER)

__host struct learner_args args[NR_TASKLETS];
__host uint32_t first[NR_TASKLETS];
__mram_noinit value_t q_tables[NR_TASKLETS][TABLE_ENTRIES];

static __dma_aligned value_t tables[NR_TASKLETS][TABLE_ENTRIES];
static __dma_aligned struct transition blocks[NR_TASKLETS][BLOCK_RECORDS];

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void store_table(const value_t *q, __mram_ptr value_t *to) {
  const uint32_t bytes = TABLE_ENTRIES * sizeof(value_t);
  for (uint32_t i = 0; i < bytes; i += DMA_BLOCK_BYTES)
    mram_write((const uint8_t *)q + i, (__mram_ptr uint8_t *)to + i, smaller(DMA_BLOCK_BYTES, bytes - i));
}

#if SAMPLING == SAMPLING_RAN
static uint32_t pass(value_t *q, struct transition *block, const __mram_ptr struct transition *chunk,
                     struct learner_args a, uint32_t random_state) {
  for (uint32_t i = 0; i < a.transitions; i++) {
    mram_read(&chunk[lcg_below(&random_state, a.transitions)], block, sizeof(struct transition));
    td_update(q, block[0], &a, &random_state);
  }
  return random_state;
}
#else
static uint32_t pass(value_t *q, struct transition *block, const __mram_ptr struct transition *chunk,
                     struct learner_args a, uint32_t random_state) {
  for (uint32_t offset = 0; offset < STRIDE; offset++)
    for (uint32_t at = 0; at < a.transitions; at += BLOCK_RECORDS) {
      uint32_t records = smaller(BLOCK_RECORDS, a.transitions - at);
      mram_read(&chunk[at], block, records * sizeof(struct transition));
      for (uint32_t i = offset; i < records; i += STRIDE) td_update(q, block[i], &a, &random_state);
    }
  return random_state;
}
#endif

int main(void) {
  uint32_t agent = me();
  struct learner_args a = args[agent];
  value_t *q = tables[agent];
  for (uint32_t i = 0; i < TABLE_ENTRIES; i++) q[i] = 0;
  for (uint32_t episode = 0; episode < a.episodes; episode++)
    a.random_state = pass(q, blocks[agent], RECORDS + first[agent], a, a.random_state);
  args[agent].random_state = a.random_state;
  store_table(q, q_tables[agent]);
  return 0;
}
