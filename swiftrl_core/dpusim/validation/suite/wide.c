/* 64-bit arithmetic: running sums with carries, products, shifts, quotients. */
#include "suite.h"

#define N 128

__attribute__((noinline)) static uint64_t mix(const uint64_t *x, uint32_t n) {
  uint64_t sum = 0, product = 1, shifted = 0, quotients = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum += x[i];
    product *= x[i] | 1;
    shifted ^= x[i] >> (i & 31);
    quotients += x[i] / ((x[i] >> 40) | 1);
  }
  return sum ^ product ^ shifted ^ quotients;
}

int main(void) {
  static uint64_t x[N];
  fill((uint32_t *)x, 2 * N, 23);
  uint64_t mixed = mix(x, N);
  publish(&mixed, sizeof mixed);
  return 0;
}
