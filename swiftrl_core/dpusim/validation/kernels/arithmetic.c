/* Throughput of one operation on one type, in the manner of PrIM's arithmetic benchmark (arXiv 2105.03814, section
 * 3.1): every tasklet takes blocks of 1,024 bytes into WRAM and does load, operation, store on each element. Only that
 * loop is timed, between barriers, so that no tasklet waits for a DMA while another computes.
 * Build with TYPE (int32_t, int64_t, float, double) and OPERATOR (+ - * /). */
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <perfcounter.h>
#include <stdint.h>

#define BLOCK_BYTES 1024
#define BLOCK_ELEMENTS (BLOCK_BYTES / sizeof(TYPE))

BARRIER_INIT(in_step, NR_TASKLETS)
__host TYPE operand;
__host uint32_t rounds;
__host uint64_t cycles[NR_TASKLETS];

/* Inlined, so that `value` stays in a register: a call would be timed as well. */
static inline void update(TYPE *block, TYPE value) {
  for (uint32_t i = 0; i < BLOCK_ELEMENTS; i++) block[i] = block[i] OPERATOR value;
}

int main(void) {
  __dma_aligned static uint8_t blocks[NR_TASKLETS][BLOCK_BYTES];
  uint32_t id = me();
  TYPE *block = (TYPE *)blocks[id];
  uint64_t spent = 0;
  if (id == 0) perfcounter_config(COUNT_CYCLES, true);
  for (uint32_t round = 0; round < rounds; round++) {
    mram_read(DPU_MRAM_HEAP_POINTER + (round * NR_TASKLETS + id) * BLOCK_BYTES, block, BLOCK_BYTES);
    barrier_wait(&in_step);
    perfcounter_t start = perfcounter_get();
    update(block, operand);
    spent += perfcounter_get() - start;
    barrier_wait(&in_step);
  }
  cycles[id] = spent;
  return 0;
}
