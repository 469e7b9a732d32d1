/* Product of a matrix and a vector of uint32: each tasklet takes a run of rows, two of them for each DMA of results.
 * Row and vector come in as blocks of 1,024 bytes, as in the benchmark: whole blocks first, then what is left of the
 * row in a loop of its own that looks out for the block's end. The last block is over-read. */
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
/* In MRAM: matrix, then vector, then result; each followed by room for a block, the vector of an even length. */

/* Take in a block of a row. In a matrix of odd width every second row begins in the middle of 8 bytes, where no DMA
 * can. */
static void read_row(uint32_t *block, __mram_ptr uint8_t *far) {
  uint32_t odd = (uint32_t)far % 8;
  mram_read(far - odd, block, BLOCK_BYTES);
  if (odd) {
    mram_read(far - odd + BLOCK_BYTES, block + BLOCK_ELEMENTS, 8);
    for (uint32_t i = 0; i < BLOCK_ELEMENTS; i++) block[i] = block[i + 1];
  }
}

/* Out of line, as in the kernels that were measured. */
__attribute__((noinline)) static uint32_t multiply_block(const uint32_t *row, const uint32_t *vector) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < BLOCK_ELEMENTS; i++) sum += row[i] * vector[i];
  return sum;
}

/* The results are volatile because the DPU's compiler (LLVM 12, like 13 and 15) loads and stores one in every step of a
 * loop that it may leave early; ours (LLVM 20) would no longer load it. */
int main(void) {
  if (me() == 0) mem_reset();
  barrier_wait(&started);
  uint32_t n_rows = rows, n_columns = columns, row_bytes = n_columns * sizeof(uint32_t);
  uint32_t share = n_rows / NR_TASKLETS, first = me() * share;
  __mram_ptr uint8_t *matrix = DPU_MRAM_HEAP_POINTER;
  __mram_ptr uint8_t *vector_far = matrix + n_rows * row_bytes + BLOCK_BYTES;
  __mram_ptr uint8_t *result_far = vector_far + (row_bytes + 7) / 8 * 8 + BLOCK_BYTES;
  uint32_t *row = mem_alloc(BLOCK_BYTES + 8), *vector = mem_alloc(BLOCK_BYTES);
  volatile uint32_t *results = mem_alloc(8);
  for (uint32_t at = first; at < first + share; at += ROWS_PER_WRITE) {
    __mram_ptr uint8_t *row_far = matrix + at * row_bytes;
    results[0] = results[1] = 0;
    for (uint32_t k = 0; k < ROWS_PER_WRITE && at + k < n_rows; k++, row_far += row_bytes) {
      uint32_t done = 0;
      for (; done + BLOCK_ELEMENTS < n_columns; done += BLOCK_ELEMENTS) {
        read_row(row, row_far + done * sizeof(uint32_t));
        mram_read(vector_far + done * sizeof(uint32_t), vector, BLOCK_BYTES);
        results[k] += multiply_block(row, vector);
      }
      read_row(row, row_far + done * sizeof(uint32_t));
      mram_read(vector_far + done * sizeof(uint32_t), vector, BLOCK_BYTES);
      for (uint32_t i = 0; i < n_columns - done; i++) {
        if (i >= BLOCK_ELEMENTS) halt(); /* a row that overruns its block */
        results[k] += row[i] * vector[i];
      }
    }
    mram_write((uint32_t *)results, result_far + at * sizeof(uint32_t), ROWS_PER_WRITE * sizeof(uint32_t));
  }
  return 0;
}
