/* A polynomial, its quotient and a clamp in floating point; zeros among the inputs take the routines' short ways. */
#include "suite.h"

#define N 64

__attribute__((noinline)) static void evaluate(REAL *x, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    REAL value = ((REAL)0.5 * x[i] - (REAL)2.25) * x[i] + (REAL)1;
    if (value < 0) value = -value;
    if (value > (REAL)100) value = (REAL)100;
    x[i] = value / (x[i] + (REAL)3);
  }
}

int main(void) {
  static uint32_t words[N];
  static REAL x[N];
  fill(words, N, 17);
  for (uint32_t i = 0; i < N; i++) x[i] = (REAL)(int32_t)(i % 5 ? words[i] % 1000 : 0) / (REAL)16;
  evaluate(x, N);
  publish(x, sizeof x);
  return 0;
}
