/* Sums of prefixes in log2(n) steps with a barrier between them: all tasklets wait for all, often. */
#include <barrier.h>

#include "suite.h"

#define N 256

BARRIER_INIT(in_step, NR_TASKLETS)
static uint32_t from[N], to[N];

int main(void) {
  uint32_t id = me(), *a = from, *b = to;
  if (id == 0) fill(from, N, 31);
  barrier_wait(&in_step);
  for (uint32_t apart = 1; apart < N; apart *= 2) {
    for (uint32_t i = id; i < N; i += NR_TASKLETS) b[i] = a[i] + (i >= apart ? a[i - apart] : 0);
    barrier_wait(&in_step);
    uint32_t *c = a;
    a = b, b = c;
  }
  if (id == 0) publish(a, sizeof from);
  return 0;
}
