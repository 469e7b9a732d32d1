/* Counting semaphores. */
#ifndef DPUSIM_SEM_H
#define DPUSIM_SEM_H

#include <attributes.h>
#include <intrinsics.h>
#include <stdint.h>

typedef struct sem_t {
  int32_t count;
} sem_t;

#define SEMAPHORE_INIT(name, counter) sem_t name = {(counter)};

/* Sleep until the count is above zero, then take one. */
__dpusim_inline void sem_take(sem_t *sem) {
  uint32_t ignored;
  __dpusim_system(ignored, DPUSIM_SEM_TAKE, sem);
}

/* Give one back, and wake a sleeper. */
__dpusim_inline void sem_give(sem_t *sem) {
  uint32_t ignored;
  __dpusim_system(ignored, DPUSIM_SEM_GIVE, sem);
}

#endif
