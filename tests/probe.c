/* A kernel for tests of the binding: scales its block in MRAM, sums it, counts launches, and faults when told to. */
#include <attributes.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>
#include <stdio.h>

enum { WORDS = 64 };

__host uint32_t launches; /* zero after load only: nothing is reset between launches */
__host int32_t factor;
__host uint32_t stop_here; /* not zero: the DPU stops with a fault */
__host int64_t sum;
__host uint8_t bytes[12];
__mram_noinit int32_t block[WORDS];
__mram_noinit uint8_t tail[12];

__dma_aligned int32_t buffer[WORDS]; /* an ordinary variable: the host cannot see it */

int main(void) {
  launches++;
  if (stop_here) halt();
  mram_read(block, buffer, sizeof(buffer));
  int64_t total = 0;
  for (int i = 0; i < WORDS; i++) {
    buffer[i] *= factor;
    total += buffer[i];
  }
  sum = total;
  mram_write(buffer, block, sizeof(buffer));
#ifdef PRINTS
  printf("launch %u\n", launches);
#endif
  return 0;
}
