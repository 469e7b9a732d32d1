/* The lock bits of a DPU by themselves, as mutexes use them. */
#ifndef DPUSIM_ATOMIC_BIT_H
#define DPUSIM_ATOMIC_BIT_H

#include <mutex.h>

#define ATOMIC_BIT_GET(name) (__lock_bit_##name)
#define ATOMIC_BIT_INIT(name) __lock_bits uint8_t __lock_bit_##name[1]
#define ATOMIC_BIT_EXTERN(name) extern __lock_bits uint8_t __lock_bit_##name[1]
#define ATOMIC_BIT_ACQUIRE(name) mutex_lock(ATOMIC_BIT_GET(name))
#define ATOMIC_BIT_RELEASE(name) mutex_unlock(ATOMIC_BIT_GET(name))

#endif
