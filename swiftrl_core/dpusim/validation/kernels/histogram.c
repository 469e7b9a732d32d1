/* Histogram of 12-bit pixels (uint32 each) in MRAM: a histogram for each tasklet, added up at the end. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#define BLOCK_BYTES 1024
#define DEPTH 12

BARRIER_INIT(in_step, NR_TASKLETS)
__host uint32_t pixels, bins; /* bins * 4 bytes go out in one DMA: at most 512 */
static uint32_t *histograms[NR_TASKLETS];

__attribute__((noinline)) static void count_block(uint32_t *histogram, uint32_t n_bins, const uint32_t *block,
                                                  uint32_t n) {
  for (uint32_t i = 0; i < n; i++) histogram[(block[i] * n_bins) >> DEPTH]++;
}

/* Each tasklet adds up every NR_TASKLETS-th bin. */
static void combine(uint32_t id) {
  for (uint32_t bin = id; bin < bins; bin += NR_TASKLETS) {
    uint32_t total = 0;
    for (uint32_t t = 0; t < NR_TASKLETS; t++) total += histograms[t][bin];
    histograms[0][bin] = total;
  }
}

int main(void) {
  uint32_t id = me();
  if (id == 0) mem_reset();
  barrier_wait(&in_step);
  uint32_t bytes = pixels * sizeof(uint32_t);
  uint32_t *block = mem_alloc(BLOCK_BYTES), *histogram = mem_alloc(bins * sizeof(uint32_t));
  __mram_ptr uint8_t *input = DPU_MRAM_HEAP_POINTER;
  for (uint32_t bin = 0; bin < bins; bin++) histogram[bin] = 0;
  for (uint32_t at = id * BLOCK_BYTES; at < bytes; at += NR_TASKLETS * BLOCK_BYTES) {
    uint32_t size = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
    mram_read(input + at, block, size);
    count_block(histogram, bins, block, size / sizeof(uint32_t));
  }
  histograms[id] = histogram;
  barrier_wait(&in_step);
  combine(id);
  barrier_wait(&in_step);
  if (id == 0) mram_write(histograms[0], input + bytes, bins * sizeof(uint32_t));
  return 0;
}
