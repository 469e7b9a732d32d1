/* A tabular learner on one DPU: Q-learning or SARSA from logged transitions, one tasklet, as in the paper.
 *
 * The host has put a chunk of transitions at the start of the MRAM heap and the current Q-table into `q_table`. A launch
 * copies the table into WRAM, makes `episodes` passes over the chunk and writes the table back. WRAM holds 64 KiB and
 * serves a load in one cycle; MRAM holds 64 MiB behind a DMA engine that takes about 77 cycles to start, so
 * transitions stream through WRAM in blocks of 256 (2,048 bytes, the longest transfer).
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT (layout.h), N_STATES, N_ACTIONS. Twelve learners, one source.
 * UPDATE and ALPHA_SCHEDULE choose beyond the paper (learn.h).
 *
 *   SEQ  the chunk from front to back
 *   STR  the same blocks four times over, taking records 0, 4, 8, ... then 1, 5, 9, ...: each once a pass
 *   RAN  as many draws as there are transitions, uniform with replacement, each fetched by its own DMA of 8 bytes */
#include <alloc.h>
#include <attributes.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#include "layout.h"
#include "learn.h"

#if NR_TASKLETS != 1
#error "learner.c learns with one tasklet: build it with -DNR_TASKLETS=1"
#endif

#define BLOCK_RECORDS (DMA_BLOCK_BYTES / sizeof(struct transition))
#define TABLE_ENTRIES ((N_STATES * N_ACTIONS + 1) / 2 * 2) /* DMA moves multiples of 8 bytes: pad to an even count */
#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)
#define CHUNK ((__mram_ptr struct transition *)DPU_MRAM_HEAP_POINTER)

__host struct learner_args args;
__mram_noinit value_t q_table[TABLE_ENTRIES];

static __dma_aligned value_t q[TABLE_ENTRIES];
static __dma_aligned struct transition block[BLOCK_RECORDS];

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void load_table(const __mram_ptr value_t *from, value_t *to) {
  for (uint32_t i = 0; i < sizeof(q); i += DMA_BLOCK_BYTES)
    mram_read((const __mram_ptr uint8_t *)from + i, (uint8_t *)to + i, smaller(DMA_BLOCK_BYTES, sizeof(q) - i));
}

static void store_table(void) {
  for (uint32_t i = 0; i < sizeof(q); i += DMA_BLOCK_BYTES)
    mram_write((uint8_t *)q + i, (__mram_ptr uint8_t *)q_table + i, smaller(DMA_BLOCK_BYTES, sizeof(q) - i));
}

/* What learn.h keeps beside the table, ready for a round; nothing for the paper's choices. */
#if UPDATE == UPDATE_VR
__mram_noinit value_t target_table[TABLE_ENTRIES];
static __dma_aligned value_t targets[TABLE_ENTRIES];
static value_t values[N_STATES];
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
static uint16_t visits[TABLE_ENTRIES];
#endif

static struct beside make_beside(void) {
  struct beside beside = {0};
#if UPDATE == UPDATE_VR
  load_table(target_table, targets);
  keep_values(values, q);
  beside.targets = targets;
  beside.values = values;
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
  for (uint32_t i = 0; i < TABLE_ENTRIES; i++) visits[i] = 0;
  beside.visits = visits;
#endif
  return beside;
}

#if SAMPLING == SAMPLING_RAN
static uint32_t pass(struct learner_args a, uint32_t random_state, struct beside beside) {
  for (uint32_t i = 0; i < a.transitions; i++) {
    mram_read(&CHUNK[lcg_below(&random_state, a.transitions)], block, sizeof(struct transition));
    learn(q, block[0], &a, &random_state, &beside);
  }
  return random_state;
}
#else
static uint32_t pass(struct learner_args a, uint32_t random_state, struct beside beside) {
  for (uint32_t offset = 0; offset < STRIDE; offset++)
    for (uint32_t first = 0; first < a.transitions; first += BLOCK_RECORDS) {
      uint32_t records = smaller(BLOCK_RECORDS, a.transitions - first);
      mram_read(&CHUNK[first], block, records * sizeof(struct transition));
      for (uint32_t i = offset; i < records; i += STRIDE) learn(q, block[i], &a, &random_state, &beside);
    }
  return random_state;
}
#endif

int main(void) {
  load_table(q_table, q);
  struct beside beside = make_beside();
  uint32_t random_state = args.random_state;
  for (uint32_t episode = 0; episode < args.episodes; episode++) random_state = pass(args, random_state, beside);
  args.random_state = random_state;
  store_table();
  return 0;
}
