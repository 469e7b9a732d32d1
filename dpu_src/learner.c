/* A tabular learner on one DPU: Q-learning or SARSA from logged transitions, one tasklet, as in the paper.
 *
 * The host has put a chunk of transitions at the start of the MRAM heap and the current Q-table into `q_table`. A launch
 * copies the table into WRAM, makes `episodes` passes over the chunk and writes the table back. WRAM holds 64 KiB and
 * serves a load in one cycle; MRAM holds 64 MiB behind a DMA engine that takes about 77 cycles to start, so
 * transitions stream through WRAM in blocks of 256 (2,048 bytes, the longest transfer).
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT (layout.h), N_STATES, N_ACTIONS. Twelve learners, one source.
 * UPDATE and ALPHA_SCHEDULE choose beyond the paper (learn.h). Without the switches of tuning.h this is the kernel whose
 * time the paper's figures show; with them it leaves the same bits in less time.
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
#include "tuning.h"

#if NR_TASKLETS != 1
#error "learner.c learns with one tasklet: build it with -DNR_TASKLETS=1"
#endif

#ifndef BLOCK_RECORDS
#define BLOCK_RECORDS (DMA_BLOCK_BYTES / sizeof(struct transition))
#endif
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

/* KEPT_MAXIMA: max Q(s, .) of every state, so that Q-learning need not scan the next state's row. An entry that rises past
 * its row's maximum is the new one; only where the maximum's own entry falls must its row be scanned. Whether it is the
 * maximum's own is told by its bits: of +0 and -0 the one kept stands in the row. It need not be the one that a scan finds
 * first, which cannot matter: target - Q is the same for both, or a zero that leaves Q as it is. */
#if KEPT_MAXIMA
#if ALGORITHM != ALGORITHM_Q_LEARNING || UPDATE != UPDATE_TD || ALPHA_SCHEDULE != ALPHA_SCHEDULE_CONSTANT
#error "KEPT_MAXIMA is for the paper's Q-learning; build other learners without it"
#endif
#define SHIFT_DIVIDES ((N_ACTIONS & (N_ACTIONS - 1)) == 0) /* a pair by N_ACTIONS; where not, a load is cheaper */

static value_t maxima[N_STATES];
static uint16_t states[SHIFT_DIVIDES ? 1 : N_STATES * N_ACTIONS];

static void begin_maxima(void) {
  keep_values(maxima, q);
  for (uint32_t state = 0, pair = 0; !SHIFT_DIVIDES && state < N_STATES; state++)
    for (uint32_t action = 0; action < N_ACTIONS; action++) states[pair++] = state;
}

INLINE int same(value_t a, value_t b) { return __builtin_bit_cast(uint32_t, a) == __builtin_bit_cast(uint32_t, b); }

/* What an entry becomes where the next state's largest is `best`; study/ puts another rule in its place. */
#ifndef LEARNED
#define LEARNED(t, old, best, args) learned(t, old, best, args)
INLINE value_t learned(struct transition t, value_t old, value_t best, const struct learner_args *args) {
  value_t target = t.step >> 31 ? t.reward : bootstrapped_target(t.reward, best, args);
  return old + step_towards(target, old, args);
}
#endif

/* td_update with maxima[s'] for the largest entry of the next state's row. */
INLINE void update_with_maxima(struct transition t, const struct learner_args *args) {
  uint32_t pair = t.step & 0xffff;
  value_t old = q[pair], new = LEARNED(t, old, maxima[(t.step >> 16) & 0x7fff], args);
  if (same(new, old)) return;
  q[pair] = new;
  uint32_t state = SHIFT_DIVIDES ? pair / N_ACTIONS : states[pair];
  if (EXCEEDS(new, maxima[state]))
    maxima[state] = new;
  else if (same(old, maxima[state]))
    maxima[state] = largest(&q[state * N_ACTIONS]);
}
#define LEARN(t) update_with_maxima(t, &a)
#endif

/* HELD_CHUNK: `held` is the first of the records in `block`; none at a launch, for the host may have changed the chunk. */
#if HELD_CHUNK
static uint32_t held;

static void fetch(uint32_t first, uint32_t records) {
  if (first == held) return;
  for (uint32_t i = 0; i < records; i += DMA_BLOCK_BYTES / sizeof(struct transition))
    mram_read(&CHUNK[first + i], &block[i], smaller(DMA_BLOCK_BYTES, (records - i) * sizeof(struct transition)));
  held = first;
}
#else
static void fetch(uint32_t first, uint32_t records) {
  mram_read(&CHUNK[first], block, records * sizeof(struct transition));
}
#endif

#ifndef LEARN
#define LEARN(t) learn(q, t, &a, &random_state, &beside)
#endif

#if SAMPLING == SAMPLING_RAN
static uint32_t pass(struct learner_args a, uint32_t random_state, struct beside beside) {
#if HELD_CHUNK
  if (a.transitions <= BLOCK_RECORDS) {
    fetch(0, a.transitions);
    for (uint32_t i = 0; i < a.transitions; i++) LEARN(block[lcg_below(&random_state, a.transitions)]);
    return random_state;
  }
#endif
  for (uint32_t i = 0; i < a.transitions; i++) {
    fetch(lcg_below(&random_state, a.transitions), 1);
    LEARN(block[0]);
  }
  return random_state;
}
#else
static uint32_t pass(struct learner_args a, uint32_t random_state, struct beside beside) {
  for (uint32_t offset = 0; offset < STRIDE; offset++)
    for (uint32_t first = 0; first < a.transitions; first += BLOCK_RECORDS) {
      uint32_t records = smaller(BLOCK_RECORDS, a.transitions - first);
      fetch(first, records);
      for (uint32_t i = offset; i < records; i += STRIDE) LEARN(block[i]);
    }
  return random_state;
}
#endif

int main(void) {
  load_table(q_table, q);
  struct beside beside = make_beside();
#if KEPT_MAXIMA
  begin_maxima();
#endif
#if HELD_CHUNK
  held = UINT32_MAX;
#endif
  uint32_t random_state = args.random_state;
  for (uint32_t episode = 0; episode < args.episodes; episode++)
    random_state = pass(with_known(args), random_state, beside);
  args.random_state = random_state;
  store_table();
  return 0;
}
