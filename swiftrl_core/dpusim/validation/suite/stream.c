/* Blocks from MRAM to WRAM and back, doubled on the way; the last block is shorter, so sizes come at run time. */
#include <mram.h>

#include "suite.h"

#define WORDS 3000 /* not a multiple of the block */
#define BLOCK 256  /* words */

__mram_noinit uint32_t data[WORDS];

int main(void) {
  __dma_aligned static uint32_t block[BLOCK];
  uint32_t seed = 29, sum = 0;
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t at = 0; at < WORDS; at += BLOCK) {
      uint32_t n = WORDS - at < BLOCK ? WORDS - at : BLOCK;
      if (pass) mram_read(&data[at], block, n * sizeof *block);
      for (uint32_t i = 0; i < n; i++) {
        block[i] = pass ? 2 * block[i] : draw(&seed);
        sum += block[i];
      }
      mram_write(block, &data[at], n * sizeof *block);
    }
  }
  publish(&sum, sizeof sum);
  return 0;
}
