/* Sum of an int64 vector in MRAM: each tasklet sums its blocks, then the tasklets' sums meet in a tree of
 * handshakes. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <stdint.h>

#define BLOCK_BYTES 1024

BARRIER_INIT(started, NR_TASKLETS)
__host uint32_t elements;
__host int64_t sum;
static int64_t partial[NR_TASKLETS];

__attribute__((noinline)) static int64_t sum_block(const int64_t *block, uint32_t n) {
  int64_t total = 0;
  for (uint32_t i = 0; i < n; i++) total += block[i];
  return total;
}

/* In step k tasklets that are multiples of 2^(k+1) take in their neighbour 2^k further on. */
static void combine(uint32_t id) {
  for (uint32_t apart = 1; apart < NR_TASKLETS; apart *= 2) {
    if (id % (2 * apart)) {
      handshake_notify();
      return;
    }
    if (id + apart < NR_TASKLETS) {
      handshake_wait_for(id + apart);
      partial[id] += partial[id + apart];
    }
  }
}

int main(void) {
  uint32_t id = me();
  if (id == 0) mem_reset();
  barrier_wait(&started);
  uint32_t bytes = elements * sizeof(int64_t);
  int64_t *block = mem_alloc(BLOCK_BYTES), total = 0;
  __mram_ptr uint8_t *input = DPU_MRAM_HEAP_POINTER;
  for (uint32_t at = id * BLOCK_BYTES; at < bytes; at += NR_TASKLETS * BLOCK_BYTES) {
    uint32_t size = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
    mram_read(input + at, block, size);
    total += sum_block(block, size / sizeof(int64_t));
  }
  partial[id] = total;
  combine(id);
  if (id == 0) sum = partial[0];
  return 0;
}
