/* Products: by constants of few and of many digits, of bytes and halfwords, and of words known at run time only. */
#include "suite.h"

#define N 256

__attribute__((noinline)) static uint32_t products(const TYPE *x, const TYPE *y, uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < n; i++) {
#ifdef FACTOR
    sum += (uint32_t)x[i] * FACTOR;
#else
    sum += (uint32_t)x[i] * y[i];
#endif
  }
  return sum;
}

int main(void) {
  static uint32_t x[N], y[N];
  fill(x, N, 3), fill(y, N, 5);
  uint32_t sum = products((const TYPE *)x, (const TYPE *)y, N);
  publish(&sum, sizeof sum);
  return 0;
}
