/* Quotients and remainders, signed and unsigned, of operands whose widths vary. */
#include "suite.h"

#define N 256

__attribute__((noinline)) static void divide(TYPE *x, const TYPE *y, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) x[i] = x[i] OPERATOR y[i];
}

int main(void) {
  static uint32_t x[N], y[N];
  fill(x, N, 11), fill(y, N, 13);
  for (uint32_t i = 0; i < N; i++) x[i] >>= i % 9, y[i] = (y[i] >> (i % 29)) | 1;
  divide((TYPE *)x, (const TYPE *)y, N);
  publish(x, sizeof x);
  return 0;
}
