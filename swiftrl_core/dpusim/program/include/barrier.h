/* A meeting point of a fixed number of tasklets; reusable. Waiting tasklets sleep and issue nothing. */
#ifndef DPUSIM_BARRIER_H
#define DPUSIM_BARRIER_H

#include <attributes.h>
#include <intrinsics.h>
#include <stdint.h>

typedef struct barrier_t {
  uint8_t wait_queue;    /* 0xff: nobody waits; the machine keeps the queue itself */
  uint8_t count;         /* how many are still to come */
  uint8_t initial_count; /* how many must come; the one field that the machine reads, at every barrier_wait */
  uint8_t lock;
  uint32_t reserved;
} barrier_t;

#define BARRIER_INIT(name, tasklets)                                               \
  _Static_assert((tasklets) > 0 && (tasklets) < 128, "a barrier counts 1 to 127"); \
  barrier_t name = {0xff, (tasklets), (tasklets), 0, 0};
#define BARRIER_GET(name) (&name)

__dpusim_inline void barrier_wait(barrier_t *barrier) {
  __asm__ volatile(".insn i 0x0b, 7, x0, %0, 0" : : "r"(barrier) : "memory");
}

#endif
