/* b += a on int32 vectors in MRAM, in blocks of 1,024 bytes that the tasklets take in turn. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#define BLOCK_BYTES 1024

BARRIER_INIT(started, NR_TASKLETS)
__host uint32_t elements; /* of each vector; the second one lies right behind the first */

__attribute__((noinline)) static void add_block(int32_t *b, const int32_t *a, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) b[i] += a[i];
}

int main(void) {
  if (me() == 0) mem_reset();
  barrier_wait(&started);
  uint32_t bytes = elements * sizeof(int32_t);
  int32_t *a = mem_alloc(BLOCK_BYTES), *b = mem_alloc(BLOCK_BYTES);
  __mram_ptr uint8_t *a_far = DPU_MRAM_HEAP_POINTER, *b_far = a_far + bytes;
  for (uint32_t at = me() * BLOCK_BYTES; at < bytes; at += NR_TASKLETS * BLOCK_BYTES) {
    uint32_t size = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
    mram_read(a_far + at, a, size);
    mram_read(b_far + at, b, size);
    add_block(b, a, size / sizeof(int32_t));
    mram_write(b, b_far + at, size);
  }
  return 0;
}
