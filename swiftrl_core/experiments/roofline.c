/* Ceilings of one core: how fast it reads memory, and how many single-precision operations it makes. */
#include <stdint.h>

/* The compiler must not see that a pass repeats the one before. */
#define FORGET() __asm__ volatile("" ::: "memory")

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float lanes __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t words_vector __attribute__((vector_size(VECTOR_BYTES), aligned(8)));

#define STREAMS 8 /* sums, so that no addition waits for another */

/* Read `words` 64-bit words `passes` times, a whole number of STREAMS vectors; return the sum of all that was read. */
uint64_t read_stream(const uint64_t *data, int64_t words, int64_t passes) {
  words_vector sums[STREAMS] = {0};
  int64_t vectors = words * (int64_t)sizeof(uint64_t) / VECTOR_BYTES;
  for (int64_t pass = 0; pass < passes; pass++) {
    const words_vector *from = (const words_vector *)data;
    for (int64_t i = 0; i + STREAMS <= vectors; i += STREAMS)
      for (int s = 0; s < STREAMS; s++) sums[s] += from[i + s];
    FORGET();
  }
  uint64_t total = 0;
  for (int s = 0; s < STREAMS; s++)
    for (int l = 0; l < (int)(VECTOR_BYTES / sizeof(uint64_t)); l++) total += sums[s][l];
  return total;
}

#define CHAINS 12 /* independent, to hide the latency of an operation; with two factors they fit 16 registers */

/* Multiply, then add, in every lane of 12 vectors, `steps` times. Two operations: the update's rule rounds each, so a
 * fused one is no use to it. Returns how many single-precision operations that were. */
int64_t peak_vector(int64_t steps, float factor, float summand, float *result) {
  lanes chain[CHAINS];
  for (int c = 0; c < CHAINS; c++) chain[c] = (lanes){0} + (float)c;
  for (int64_t step = 0; step < steps; step++)
    for (int c = 0; c < CHAINS; c++) chain[c] = chain[c] * factor + summand;
  for (int c = 1; c < CHAINS; c++) chain[0] += chain[c];
  *result = chain[0][0];
  return steps * CHAINS * 2 * (int64_t)(VECTOR_BYTES / sizeof(float));
}

/* The same with one number where there was a vector. */
int64_t peak_scalar(int64_t steps, float factor, float summand, float *result) {
  float chain[CHAINS];
  for (int c = 0; c < CHAINS; c++) chain[c] = (float)c;
  for (int64_t step = 0; step < steps; step++)
    for (int c = 0; c < CHAINS; c++) {
      chain[c] = chain[c] * factor + summand;
#if defined(__x86_64__)
      __asm__("" : "+x"(chain[c])); /* one number, in a register of its own */
#elif defined(__aarch64__)
      __asm__("" : "+w"(chain[c]));
#endif
    }
  for (int c = 1; c < CHAINS; c++) chain[0] += chain[c];
  *result = chain[0];
  return steps * CHAINS * 2;
}
