/* MRAM bandwidth against the size of a transfer: every tasklet reads (or, with WRITE, writes) TRANSFER bytes again and
 * again. Enough tasklets keep the DMA engine busy all the time. */
#include <defs.h>
#include <mram.h>
#include <stdint.h>

__host uint32_t transfers; /* of each tasklet */

int main(void) {
  __dma_aligned static uint8_t buffers[NR_TASKLETS][TRANSFER];
  uint8_t *buffer = buffers[me()];
  __mram_ptr uint8_t *far = DPU_MRAM_HEAP_POINTER + me() * TRANSFER;
  for (uint32_t i = 0; i < transfers; i++) {
#ifdef WRITE
    mram_write(buffer, far, TRANSFER);
#else
    mram_read(far, buffer, TRANSFER);
#endif
  }
  return 0;
}
