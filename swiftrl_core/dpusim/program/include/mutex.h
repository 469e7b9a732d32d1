/* Hardware locks. A lock spins: each failed try costs one instruction.
 *
 * A mutex is one of the DPU's 56 free lock bits. The linker numbers them: each is a byte of the section of lock
 * bits, and the lowest byte of its address is the number of the bit. */
#ifndef DPUSIM_MUTEX_H
#define DPUSIM_MUTEX_H

#include <attributes.h>
#include <intrinsics.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint8_t *mutex_id_t;

#define __lock_bits __attribute__((section(".bss.__dpu_lock_bits")))

#define MUTEX_INIT(name)                    \
  __lock_bits uint8_t __lock_bit_##name[1]; \
  const mutex_id_t name = __lock_bit_##name
#define MUTEX_GET(name) (name)

__dpusim_inline void mutex_lock(mutex_id_t mutex) {
  __asm__ volatile(".insn i 0x0b, 5, x0, %0, 0" : : "r"(mutex) : "memory");
}

/* Returns true when the lock was taken. */
__dpusim_inline bool mutex_trylock(mutex_id_t mutex) {
  uint32_t taken;
  __asm__ volatile(".insn i 0x0b, 5, %0, %1, 1" : "=r"(taken) : "r"(mutex) : "memory");
  return taken;
}

__dpusim_inline void mutex_unlock(mutex_id_t mutex) {
  __asm__ volatile(".insn i 0x0b, 6, x0, %0, 0" : : "r"(mutex) : "memory");
}

#endif
