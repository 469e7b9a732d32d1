/* One bug a case, for the debug run to find; and the same things done well. */
#include <alloc.h>
#include <barrier.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <mutex.h>
#include <sem.h>
#include <stdint.h>
#include <string.h>

BARRIER_INIT(meet, NR_TASKLETS)
MUTEX_INIT(lock);
SEMAPHORE_INIT(items, 0)
__host uint32_t bug;
__host uint32_t shared, results[NR_TASKLETS];
__mram_noinit uint64_t far[512];
static volatile uint32_t counter;
static volatile uint8_t neighbours[8];
static __dma_aligned uint64_t buffer[NR_TASKLETS][32];

struct padded {
  uint8_t small;
  uint32_t large;
};

static __attribute__((noinline)) uint32_t sum_of(volatile uint32_t *values, uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += values[i]; /* reads */
  return sum;
}

static __attribute__((noinline)) uint32_t uses_the_stack(uint32_t seed) {
  volatile uint32_t values[8];
  for (uint32_t i = 0; i < 8; i++) values[i] = seed + i;
  return sum_of(values, 8);
}

static __attribute__((noinline)) uint32_t forgets_a_word(uint32_t seed) {
  volatile uint32_t values[8];
  for (uint32_t i = 0; i < 7; i++) values[i] = seed + i;
  return sum_of(values, 8);
}

static __attribute__((noinline)) uint32_t copies_padding(uint32_t seed) {
  struct padded one = {(uint8_t)seed, seed}, two;
  __asm__ volatile("" : : "r"(&one) : "memory");
  memcpy(&two, &one, sizeof two);
  __asm__ volatile("" : : "r"(&two) : "memory");
  return two.small + two.large;
}

static void with_one_bug(uint32_t id) {
  switch (bug) {
    case 1: /* the heap is not zero */
      results[id] = ((volatile uint32_t *)mem_alloc(64))[3];
      break;
    case 2:
      uses_the_stack(id);
      results[id] = forgets_a_word(id); /* what the call before left there is no value */
      break;
    case 3: /* to MRAM what was never made */
      mram_write(mem_alloc(32), &far[4 * id], 32);
      break;
    case 4:
      counter = counter + 5; /* unprotected */
      break;
    case 5:
      if (id == 0) shared = 7;           /* writes */
      if (id == 1) results[id] = shared; /* reads */
      break;
    case 6: /* a lock that not all take */
      if (id == 0) mutex_lock(lock);
      counter = counter * 3 + id;
      if (id == 0) mutex_unlock(lock);
      break;
    case 7: /* both fill one buffer */
      mram_read(&far[0], buffer[0], 64);
      break;
    case 8:
      if (id == 0) mram_read((__mram_ptr uint8_t *)far + 4, buffer[0], 8);
      break;
    case 9:
      if (id == 0) mram_read(far, (uint8_t *)buffer[0] + 4, 8);
      break;
    case 10:
      if (id == 0) mram_read(far, buffer[0], 12 + counter);
      break;
    case 12:
      if (id == 0) mram_read((__mram_ptr void *)((uint32_t)far & 0x03ffffff), buffer[0], 8);
      break;
    case 13:                                  /* a word of MRAM holds the numbers of two tasklets */
      mram_read(&far[id / 2], buffer[id], 8); /* both */
      ((uint32_t *)buffer[id])[id % 2] = id;
      mram_write(buffer[id], &far[id / 2], 8); /* halves */
      break;
    case 14:                                     /* no barrier keeps the others from the heap until it is empty */
      if (id == 0) mem_reset();                  /* late */
      results[id] = (uint32_t)mem_alloc(8 + id); /* early */
      break;
    case 15:
      ((__mram_ptr volatile uint32_t *)far)[id] = id; /* a scalar */
      break;
    case 11: /* the neighbour's share */
      buffer[(id + 1) % NR_TASKLETS][0] = id;
      results[id] = (uint32_t)buffer[id][0];
      break;
  }
}

static void without_bugs(uint32_t id) {
  uint32_t *own = mem_alloc(64);
  memset(own, 0, 64);
  neighbours[id] = id; /* bytes of one word, one each */
  results[id] = uses_the_stack(id) + copies_padding(id) + own[3] + neighbours[id];
  mutex_lock(lock);
  counter++;
  mutex_unlock(lock);
  while (!mutex_trylock(lock));
  counter++;
  mutex_unlock(lock);
  barrier_wait(&meet);
  if (id == 0) shared = counter;
  barrier_wait(&meet);
  results[id] += shared;
  barrier_wait(&meet);
  if (id == 0) {
    shared++;
    for (uint32_t i = 1; i < NR_TASKLETS; i++) sem_give(&items);
  } else {
    sem_take(&items);
    results[id] += shared;
  }
  barrier_wait(&meet);
  if (id > 0) handshake_wait_for(id - 1);
  shared += id; /* in turn */
  if (id + 1 < NR_TASKLETS) handshake_notify();
  mram_read(&far[32 * id], buffer[id], 256);
  buffer[id][0]++;
  mram_write(buffer[id], &far[32 * id], 256);
}

int main(void) {
  uint32_t id = me();
  if (id == 0) mem_reset();
  barrier_wait(&meet);
  if (bug)
    with_one_bug(id);
  else
    without_bugs(id);
  return 0;
}
