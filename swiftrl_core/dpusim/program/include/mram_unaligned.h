/* MRAM at any address and of any size, at the price of more transfers; and changes of less than 8 bytes that are safe
 * when several tasklets use the same 8. Each file that includes this takes 8 of the DPU's locks. */
#ifndef DPUSIM_MRAM_UNALIGNED_H
#define DPUSIM_MRAM_UNALIGNED_H

#include <mram.h>
#include <mutex_pool.h>
#include <stdint.h>
#include <string.h>

static __lock_bits uint8_t __mram_unaligned_bits[8];
static const struct mutex_pool __mram_unaligned_locks = {__mram_unaligned_bits, 7};

/* Read `n` bytes into a buffer that is a multiple of 8 and has room for 8 more. Returns where in it they begin. */
static inline void *mram_read_unaligned(const __mram_ptr void *from, void *buffer, unsigned int n) {
  uint32_t address = (uint32_t)from, before = address & 7;
  mram_read((const __mram_ptr void *)(address - before), buffer, (before + n + 7) & ~7u);
  return (uint8_t *)buffer + before;
}

/* Change some of the 8 bytes at `address`, nobody else meanwhile. */
static inline void __mram_change(uint32_t address, uint32_t first, const void *from, uint32_t n) {
  uint64_t word;
  mutex_pool_lock(&__mram_unaligned_locks, address >> 3);
  mram_read((const __mram_ptr void *)address, &word, 8);
  memcpy((uint8_t *)&word + first, from, n);
  mram_write(&word, (__mram_ptr void *)address, 8);
  mutex_pool_unlock(&__mram_unaligned_locks, address >> 3);
}

/* Write `n` bytes, at most 2,048. The WRAM address must be as far behind a multiple of 8 as the MRAM address. */
static inline void mram_write_unaligned(const void *from, __mram_ptr void *to, unsigned int n) {
  const uint8_t *source = from;
  uint32_t address = (uint32_t)to, before = address & 7;
  if (before) {
    uint32_t head = 8 - before < n ? 8 - before : n;
    __mram_change(address - before, before, source, head);
    source += head, address += head, n -= head;
  }
  if (n >= 8) mram_write(source, (__mram_ptr void *)address, n & ~7u);
  if (n % 8) __mram_change(address + (n & ~7u), 0, source + (n & ~7u), n % 8);
}

static inline void __mram_update(uint32_t address, void (*update)(void *, void *), void *arguments) {
  uint64_t word;
  uint32_t low = address & ~7u;
  mutex_pool_lock(&__mram_unaligned_locks, low >> 3);
  mram_read((const __mram_ptr void *)low, &word, 8);
  update((uint8_t *)&word + (address & 7), arguments);
  mram_write(&word, (__mram_ptr void *)low, 8);
  mutex_pool_unlock(&__mram_unaligned_locks, low >> 3);
}

static inline void __mram_write_int(uint32_t address, int value) {
  __mram_change(address & ~7u, address & 7, &value, sizeof value);
}

static inline void __mram_write_byte(uint32_t address, uint8_t value) {
  __mram_change(address & ~7u, address & 7, &value, sizeof value);
}

/* `update_func` gets a pointer to a copy of the value in WRAM, and `args`. */
#define mram_update_int_atomic(dest, update_func, args) \
  __mram_update((uint32_t)(dest), (void (*)(void *, void *))(update_func), (void *)(args))
#define mram_update_byte_atomic(dest, update_func, args) \
  __mram_update((uint32_t)(dest), (void (*)(void *, void *))(update_func), (void *)(args))
#define mram_write_int_atomic(dest, val) __mram_write_int((uint32_t)(dest), (val))
#define mram_write_byte_atomic(dest, val) __mram_write_byte((uint32_t)(dest), (val))

#endif
