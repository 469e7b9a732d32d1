/* A histogram that all tasklets share: one lock, or a pool of locks chosen by bin. */
#include <barrier.h>
#include <mutex.h>
#include <mutex_pool.h>

#include "suite.h"

#define N 1024
#define BINS 64

BARRIER_INIT(in_step, NR_TASKLETS)
#ifdef POOL
MUTEX_POOL_INIT(locks, POOL);
#else
MUTEX_INIT(lock);
#endif
static uint32_t histogram[BINS], values[N];

static void add(uint32_t bin) {
#ifdef POOL
  mutex_pool_lock(&locks, bin);
  histogram[bin]++;
  mutex_pool_unlock(&locks, bin);
#else
  mutex_lock(lock);
  histogram[bin]++;
  mutex_unlock(lock);
#endif
}

int main(void) {
  uint32_t id = me();
  if (id == 0) {
    fill(values, N, 37);
    for (uint32_t i = 0; i < BINS; i++) histogram[i] = 0;
  }
  barrier_wait(&in_step);
  for (uint32_t i = id; i < N; i += NR_TASKLETS) add(values[i] % BINS);
  barrier_wait(&in_step);
  if (id == 0) publish(histogram, sizeof histogram);
  return 0;
}
