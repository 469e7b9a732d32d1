/* Virtual mutexes: a bit of WRAM each, behind few hardware locks. For one lock an item of a large table. */
#ifndef DPUSIM_VMUTEX_H
#define DPUSIM_VMUTEX_H

#include <mutex_pool.h>
#include <stdint.h>

struct vmutex {
  struct mutex_pool locks;
  uint8_t *taken; /* a bit a mutex */
};

#define VMUTEX_INIT(name, mutexes, locks_behind)                                                 \
  _Static_assert((mutexes) > 0 && (mutexes) % 8 == 0, "virtual mutexes come in multiples of 8"); \
  _Static_assert((locks_behind) > 0 && ((locks_behind) & ((locks_behind) - 1)) == 0,             \
                 "the hardware locks behind virtual mutexes must be a power of two");            \
  __lock_bits uint8_t __lock_bits_##name[locks_behind];                                          \
  static uint8_t __vmutex_bits_##name[(mutexes) / 8];                                            \
  const struct vmutex name = {{__lock_bits_##name, (locks_behind) - 1}, __vmutex_bits_##name}

/* Eight mutexes share a byte, so they share its lock, too. */
__dpusim_inline bool __vmutex_take(const struct vmutex *mutexes, uint32_t id) {
  uint8_t *taken = &mutexes->taken[id / 8], bit = (uint8_t)(1u << id % 8);
  mutex_pool_lock(&mutexes->locks, id / 8);
  bool free = !(*taken & bit);
  *taken |= bit;
  mutex_pool_unlock(&mutexes->locks, id / 8);
  return free;
}

__dpusim_inline void vmutex_lock(const struct vmutex *mutexes, uint32_t id) { while (!__vmutex_take(mutexes, id)); }

__dpusim_inline void vmutex_unlock(const struct vmutex *mutexes, uint32_t id) {
  mutex_pool_lock(&mutexes->locks, id / 8);
  mutexes->taken[id / 8] &= (uint8_t)~(1u << id % 8);
  mutex_pool_unlock(&mutexes->locks, id / 8);
}

#endif
