/* Largest, smallest, clamped, counted by bit: comparisons that a DPU turns into selects and tests. */
#include "suite.h"

#define N 512

struct summary {
  int32_t largest, smallest, clamped, odd, negative;
};

__attribute__((noinline)) static void summarise(struct summary *s, const int32_t *x, uint32_t n) {
  int32_t largest = x[0], smallest = x[0], clamped = 0, odd = 0, negative = 0;
  for (uint32_t i = 0; i < n; i++) {
    int32_t value = x[i];
    largest = value > largest ? value : largest;
    smallest = value < smallest ? value : smallest;
    clamped += value > 4096 ? 4096 : value < -4096 ? -4096 : value;
    if (value & 1) odd++;
    if (value < 0) negative++;
  }
  *s = (struct summary){largest, smallest, clamped, odd, negative};
}

int main(void) {
  static uint32_t words[N];
  struct summary s;
  fill(words, N, 19);
  for (uint32_t i = 0; i < N; i++) words[i] = (uint32_t)((int32_t)words[i] >> (i % 24));
  summarise(&s, (const int32_t *)words, N);
  publish(&s, sizeof s);
  return 0;
}
