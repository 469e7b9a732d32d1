/* One short loop over vectors in MRAM: LOOP_ADD c = a + b, LOOP_SUM of all a + b, LOOP_COUNT a histogram of a. Each
 * tasklet goes through a stretch of its own, `block` elements of type T a transfer. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#define DEPTH 12
#define RESULT_BYTES (LOOP_ADD ? bytes : LOOP_SUM ? 8 : n_bins * sizeof(T)) /* of a tasklet, in WRAM */

BARRIER_INIT(started, NR_TASKLETS)
__host uint32_t blocks, block, bins; /* of each tasklet; elements of each; of LOOP_COUNT */

int main(void) {
  if (me() == 0) mem_reset();
  barrier_wait(&started);
  uint32_t n = block, n_bins = bins, bytes = n * sizeof(T), stretch = blocks * bytes, vector = NR_TASKLETS * stretch;
  T *a = mem_alloc(bytes), *b = mem_alloc(bytes), *c = mem_alloc(RESULT_BYTES);
  __mram_ptr uint8_t *far = DPU_MRAM_HEAP_POINTER + me() * stretch;
  T sum = 0;
  if (LOOP_COUNT)
    for (uint32_t bin = 0; bin < n_bins; bin++) c[bin] = 0;
  for (uint32_t i = 0; i < blocks; i++, far += bytes) {
    mram_read(far, a, bytes);
    if (!LOOP_COUNT) mram_read(far + vector, b, bytes);
    for (uint32_t k = 0; k < n; k++) {
      if (LOOP_ADD) c[k] = a[k] + b[k];
      if (LOOP_SUM) sum += a[k] + b[k];
      if (LOOP_COUNT) c[(a[k] * n_bins) >> DEPTH]++;
    }
    if (LOOP_ADD) mram_write(c, far + 2 * vector, bytes);
  }
  if (LOOP_SUM) c[0] = sum;
  if (!LOOP_ADD) mram_write(c, DPU_MRAM_HEAP_POINTER + 2 * vector + me() * RESULT_BYTES, RESULT_BYTES);
  return 0;
}
