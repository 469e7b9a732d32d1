/* Q-learning on one DPU by 1 to 24 tasklets, BOOTSTRAP_FROZEN (learn.h): tasklets change the time, never a bit.
 *
 * A tasklet issues at most one instruction every 11 cycles, so learner.c's single one leaves ten of eleven cycles idle.
 * How to share a chunk? A table for each tasklet does not do: 24 of Taxi's 12 KB are 288 KB, WRAM has 64, and a chunk cut
 * once more is learned by heart the sooner. Tasklets that share a table would race, and locks would let the timing decide
 * the order. So the host deals the chunk out by state-action PAIRS (swiftrl_core/pim/dealing.py): all of a pair's
 * transitions go to one tasklet, in the chunk's order. Not by states: a quarter of FrozenLake's transitions leave its
 * first one.
 *
 * Why the bits do not depend on the tasklets. An update of (s, a) reads the record, Q(s, a), Tbar(s, a) and the count of
 * (s, a)'s updates, and `ahead` of the next state. In a pass `ahead` is not written: it is computed before, between two
 * barriers, from the whole table that the last pass left. Q(s, a) and its count are written by the one tasklet that
 * owns the pair, once for each of its transitions, in the chunk's order, and nobody else reads them before the next
 * barrier. So by induction over passes every entry takes the values that one tasklet, going through the chunk from front
 * to back, would give it: how pairs are dealt, how many tasklets there are and who is quicker cannot show. That learner
 * is what scalar.c, engine.c and learner.cu compute. Each address has one writer between two barriers, and no reader but
 * him if he writes: there is no race, and the simulator's check finds none (tests/test_tasklets.py).
 *
 * A run of transitions of one pair keeps Q(s, a) in a register. An update is then two loads, an addition, a subtraction,
 * the step and an addition; the maximum and gamma are paid once a state and pass. A share streams through a block of
 * WRAM; one that fits its block stays there from the first pass to the last.
 *
 * Build switches: NR_TASKLETS, BLOCK_BYTES of WRAM for each tasklet's transitions, a multiple of 8 up to 2,048;
 * NUMBER_FORMAT, UPDATE, ALPHA_SCHEDULE (layout.h), N_STATES, N_ACTIONS. */
#include <alloc.h>
#include <attributes.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#include "layout.h"
#include "learn.h"

#if BOOTSTRAP != BOOTSTRAP_FROZEN || ALGORITHM != ALGORITHM_Q_LEARNING || SAMPLING != SAMPLING_SEQ
#error "tasklet_learner.c is for Q-learning in SEQ with -DBOOTSTRAP=BOOTSTRAP_FROZEN; learner.c has the others"
#endif

union word {
  struct run run;
  struct outcome outcome;
};

#define BLOCK_WORDS (BLOCK_BYTES / sizeof(union word))
#define TABLE_ENTRIES ((N_STATES * N_ACTIONS + 1) / 2 * 2) /* DMA moves multiples of 8 bytes: pad to an even count */
#define CHUNK ((__mram_ptr union word *)DPU_MRAM_HEAP_POINTER)

__host struct learner_args args;
__host uint32_t shares[NR_TASKLETS + 1]; /* tasklet t's is CHUNK[shares[t]] up to CHUNK[shares[t + 1]], exclusive */
__mram_noinit value_t q_table[TABLE_ENTRIES];

static __dma_aligned value_t q[TABLE_ENTRIES];
static __dma_aligned union word blocks[NR_TASKLETS][BLOCK_WORDS];
static value_t ahead[N_STATES + 1]; /* and behind the last state what lies ahead of termination: nothing */
#if UPDATE == UPDATE_VR
__mram_noinit value_t target_table[TABLE_ENTRIES];
static __dma_aligned value_t targets[TABLE_ENTRIES];
static value_t values[N_STATES];
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
static uint16_t visits[TABLE_ENTRIES];
#endif
BARRIER_INIT(everybody, NR_TASKLETS)

/* A tasklet's transitions, and where the block of them begins that WRAM holds. */
struct share {
  uint32_t first, behind, held;
  union word *block;
};

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Tasklets take turns, a DMA transfer each. */
static void load_table(const __mram_ptr value_t *from, value_t *to) {
  for (uint32_t i = me() * DMA_BLOCK_BYTES; i < sizeof(q); i += NR_TASKLETS * DMA_BLOCK_BYTES)
    mram_read((const __mram_ptr uint8_t *)from + i, (uint8_t *)to + i, smaller(DMA_BLOCK_BYTES, sizeof(q) - i));
}

static void store_table(void) {
  for (uint32_t i = me() * DMA_BLOCK_BYTES; i < sizeof(q); i += NR_TASKLETS * DMA_BLOCK_BYTES)
    mram_write((uint8_t *)q + i, (__mram_ptr uint8_t *)q_table + i, smaller(DMA_BLOCK_BYTES, sizeof(q) - i));
}

/* Everything in WRAM as a round finds it; state s is its tasklet's own up to the end of the launch. */
static struct beside begin_round(void) {
  struct beside beside = {.ahead = ahead};
  load_table(q_table, q);
  if (me() == 0) ahead[N_STATES] = (value_t)-0.0f; /* x + -0 is x for every x, +0 and -0 included */
#if UPDATE == UPDATE_VR
  load_table(target_table, targets);
  beside.targets = targets;
  beside.values = values;
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
  for (uint32_t i = me(); i < TABLE_ENTRIES; i += NR_TASKLETS) visits[i] = 0;
  beside.visits = visits;
#endif
  barrier_wait(&everybody);
#if UPDATE == UPDATE_VR
  for (uint32_t s = me(); s < N_STATES; s += NR_TASKLETS) values[s] = largest(&q[s * N_ACTIONS]);
#endif
  return beside;
}

/* Learn from `count` outcomes of a pair: learn() of learn.h with Q(s, a) in a register. */
static void learn_run(uint32_t pair, const union word *word, uint32_t count, const struct learner_args *a) {
  value_t value = q[pair];
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
  uint32_t n = visits[pair];
#endif
  for (const union word *behind = word + count; word < behind; word++) {
#if UPDATE == UPDATE_VR
    value_t target = targets[pair] + ahead[word->outcome.next];
#else
    value_t target = word->outcome.reward + ahead[word->outcome.next];
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
    if (n < VISITS_LIMIT) n++;
    struct learner_args slow = slowed(a, n);
    value += step_towards(target, value, &slow);
#else
    value += step_towards(target, value, a);
#endif
  }
  q[pair] = value;
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
  visits[pair] = n;
#endif
}

/* One pass over a share, block by block. A run that a block cuts goes on in the next one. */
static void pass(struct share *share, const struct learner_args *a) {
  struct run run = {0, 0};
  for (uint32_t at = share->first; at < share->behind; at += BLOCK_WORDS) {
    uint32_t words = smaller(BLOCK_WORDS, share->behind - at);
    if (share->held != at) mram_read(&CHUNK[at], share->block, words * sizeof(union word));
    share->held = at;
    for (const union word *word = share->block, *behind = word + words; word < behind;) {
      if (run.transitions == 0) run = (word++)->run;
      uint32_t count = smaller(run.transitions, behind - word);
      learn_run(run.pair, word, count, a);
      run.transitions -= count;
      word += count;
    }
  }
}

int main(void) {
  struct learner_args a = with_known(args);
  struct share share = {shares[me()], shares[me() + 1], UINT32_MAX, blocks[me()]};
  struct beside beside = begin_round();
  for (uint32_t episode = 0; episode < a.episodes; episode++) {
    for (uint32_t s = me(); s < N_STATES; s += NR_TASKLETS) look_ahead(s, q, &a, &beside);
    barrier_wait(&everybody);
    pass(&share, &a);
    barrier_wait(&everybody);
  }
  store_table();
  return 0;
}
