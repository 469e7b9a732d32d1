/* A power-of-two number of locks, chosen by a masked number: many objects share few locks. */
#ifndef DPUSIM_MUTEX_POOL_H
#define DPUSIM_MUTEX_POOL_H

#include <mutex.h>

struct mutex_pool {
  mutex_id_t first;
  uint32_t mask;
};

#define MUTEX_POOL_INIT(name, locks)                                                                                \
  _Static_assert((locks) > 0 && ((locks) & ((locks) - 1)) == 0, "the size of a mutex pool must be a power of two"); \
  __lock_bits uint8_t __lock_bits_##name[locks];                                                                    \
  const struct mutex_pool name = {__lock_bits_##name, (locks) - 1}

__dpusim_inline void mutex_pool_lock(const struct mutex_pool *pool, uint32_t id) {
  mutex_lock(pool->first + (id & pool->mask));
}

__dpusim_inline void mutex_pool_unlock(const struct mutex_pool *pool, uint32_t id) {
  mutex_unlock(pool->first + (id & pool->mask));
}

#endif
