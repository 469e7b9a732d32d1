/* Product of a matrix and a vector of uint32: each tasklet takes a run of rows, two of them for each DMA of results.
 * Row and vector come in as blocks of 1,024 bytes (padded: narrower rows are over-read), as the benchmark does. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>

#define BLOCK_BYTES 1024
#define BLOCK_ELEMENTS (BLOCK_BYTES / sizeof(uint32_t))
#define ROWS_PER_WRITE 2

BARRIER_INIT(started, NR_TASKLETS)
__host uint32_t rows, columns; /* rows: a multiple of 2 * NR_TASKLETS */
/* In MRAM: matrix, then vector, then result; each followed by room for a block. */

/* The result stays in memory, so every step loads and stores it; a row that overruns its block stops the DPU. */
static void multiply_block(uint32_t *results, uint32_t at, const uint32_t *row, const uint32_t *vector, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i >= BLOCK_ELEMENTS) halt();
    results[at] += row[i] * vector[i];
  }
}

int main(void) {
  if (me() == 0) mem_reset();
  barrier_wait(&started);
  uint32_t share = rows / NR_TASKLETS, first = me() * share, row_bytes = columns * sizeof(uint32_t);
  __mram_ptr uint8_t *matrix = DPU_MRAM_HEAP_POINTER;
  __mram_ptr uint8_t *vector_far = matrix + rows * row_bytes + BLOCK_BYTES;
  __mram_ptr uint8_t *result_far = vector_far + row_bytes + BLOCK_BYTES;
  uint32_t *row = mem_alloc(BLOCK_BYTES), *vector = mem_alloc(BLOCK_BYTES), *results = mem_alloc(8);
  for (uint32_t at = first; at < first + share; at += ROWS_PER_WRITE) {
    for (uint32_t k = 0; k < ROWS_PER_WRITE; k++) {
      results[k] = 0;
      for (uint32_t done = 0; done < columns; done += BLOCK_ELEMENTS) {
        uint32_t left = columns - done;
        mram_read(matrix + (at + k) * row_bytes + done * sizeof(uint32_t), row, BLOCK_BYTES);
        mram_read(vector_far + done * sizeof(uint32_t), vector, BLOCK_BYTES);
        multiply_block(results, k, row, vector, left < BLOCK_ELEMENTS ? left : BLOCK_ELEMENTS);
      }
    }
    mram_write(results, result_far + at * sizeof(uint32_t), ROWS_PER_WRITE * sizeof(uint32_t));
  }
  return 0;
}
