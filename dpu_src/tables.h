/* The tables of a round, for learner.c and tasklet_learner.c: in WRAM while the DPU learns, in MRAM before and after.
 *
 * What the choices beyond the paper keep besides the Q-table (struct aux) is here as well. Tasklets share the work:
 * each calls these functions with its own number. */
#ifndef SWIFTRL_TABLES_H
#define SWIFTRL_TABLES_H

#include <attributes.h>
#include <mram.h>
#include <stdint.h>

#include "layout.h"
#include "td_update.h"

#define TABLE_ENTRIES ((N_STATES * N_ACTIONS + 1) / 2 * 2) /* DMA moves multiples of 8 bytes: pad to an even count */

__mram_noinit value_t q_table[TABLE_ENTRIES];
static __dma_aligned value_t q[TABLE_ENTRIES];

#if BOOTSTRAP == BOOTSTRAP_FROZEN
static value_t frozen[N_STATES + 1]; /* the last one is for transitions that terminated: nothing to bootstrap from */
#endif
#if UPDATE == UPDATE_VR
__mram_noinit value_t target_table[TABLE_ENTRIES];
static __dma_aligned value_t targets[TABLE_ENTRIES];
static value_t values[N_STATES];
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
static uint16_t visits[TABLE_ENTRIES];
#endif

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Tasklets take turns, one DMA transfer each. */
static void load_table(const __mram_ptr value_t *from, value_t *to, uint32_t tasklet) {
  for (uint32_t i = tasklet * DMA_BLOCK_BYTES; i < sizeof(q); i += NR_TASKLETS * DMA_BLOCK_BYTES)
    mram_read((const __mram_ptr uint8_t *)from + i, (uint8_t *)to + i, smaller(DMA_BLOCK_BYTES, sizeof(q) - i));
}

static void store_q_table(uint32_t tasklet) {
  for (uint32_t i = tasklet * DMA_BLOCK_BYTES; i < sizeof(q); i += NR_TASKLETS * DMA_BLOCK_BYTES)
    mram_write((uint8_t *)q + i, (__mram_ptr uint8_t *)q_table + i, smaller(DMA_BLOCK_BYTES, sizeof(q) - i));
}

/* Everything in WRAM as a round begins, but for the values of tasklets that first have to wait for all of q. */
static struct aux load_tables(uint32_t tasklet) {
  struct aux aux = {0};
  load_table(q_table, q, tasklet);
#if BOOTSTRAP == BOOTSTRAP_FROZEN
  if (tasklet == 0) frozen[N_STATES] = (value_t)-0.0f; /* x + -0 is x for every x, +0 and -0 included */
  aux.frozen = frozen;
#endif
#if UPDATE == UPDATE_VR
  load_table(target_table, targets, tasklet);
  aux.targets = targets;
  aux.values = values;
  if (BOOTSTRAP == BOOTSTRAP_CURRENT) keep_values(values, q);
#endif
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
  for (uint32_t i = tasklet; i < TABLE_ENTRIES; i += NR_TASKLETS) visits[i] = 0;
  aux.visits = visits;
#endif
  return aux;
}

#endif
