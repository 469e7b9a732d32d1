/* Kernels of several tasklets on which the simulator's two runs are compared. The host chooses one by number, so that a
 * number of tasklets costs one compilation. None has a race: memory afterwards does not depend on who came first. */
#include <alloc.h>
#include <attributes.h>
#include <barrier.h>
#include <defs.h>
#include <handshake.h>
#include <mram.h>
#include <mutex.h>
#include <mutex_pool.h>
#include <sem.h>
#include <stdint.h>

#define WORDS 16384 /* in MRAM, written by the host */
#define BLOCK 64    /* words a transfer, where nothing else is said */
#define BINS 64
#define DATA ((__mram_ptr uint32_t *)DPU_MRAM_HEAP_POINTER)
#define RESULT (DATA + WORDS)

BARRIER_INIT(in_step, NR_TASKLETS)
MUTEX_INIT(lock);
MUTEX_POOL_INIT(locks, 8);
SEMAPHORE_INIT(full, 0)
SEMAPHORE_INIT(empty, 3)

__host uint32_t kernel;
__host uint32_t sums[NR_TASKLETS], bins[BINS];

static __dma_aligned uint32_t blocks[NR_TASKLETS][256];
static int32_t tables[NR_TASKLETS][64];

static uint32_t draw(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Each tasklet learns in a table of its own, with products and quotients whose cost depends on the values. */
static void updates(uint32_t id) {
  uint32_t state = id + 1;
  for (uint32_t i = 0; i < 64; i++) tables[id][i] = 0;
  for (uint32_t i = 0; i < 400; i++) {
    uint32_t at = draw(&state) >> 26;
    int32_t target = (int32_t)(draw(&state) >> 18) + tables[id][(at + 7) & 63] * 95 / 100;
    tables[id][at] += (target - tables[id][at]) * (int32_t)(at + 3) / 1000;
  }
}

/* Stream blocks and add them up; then halve the number of partial sums, a barrier a step. */
static void reduction(uint32_t id) {
  uint32_t sum = 0;
  for (uint32_t i = id * BLOCK; i < WORDS; i += NR_TASKLETS * BLOCK) {
    mram_read(DATA + i, blocks[id], BLOCK * 4);
    for (uint32_t j = 0; j < BLOCK; j++) sum += blocks[id][j];
  }
  sums[id] = sum;
  for (uint32_t step = 1; step < NR_TASKLETS; step *= 2) {
    barrier_wait(&in_step);
    if (id % (2 * step) == 0 && id + step < NR_TASKLETS) sums[id] += sums[id + step];
  }
}

/* Count values into shared bins, under a lock of the bin (of eight), or under one lock for all. */
static void histogram(uint32_t id, int pool) {
  for (uint32_t i = id * BLOCK; i < WORDS / 4; i += NR_TASKLETS * BLOCK) {
    mram_read(DATA + i, blocks[id], BLOCK * 4);
    for (uint32_t j = 0; j < BLOCK; j++) {
      uint32_t bin = blocks[id][j] >> 16 & (BINS - 1);
      if (pool)
        mutex_pool_lock(&locks, bin);
      else
        mutex_lock(lock);
      bins[bin]++;
      if (pool)
        mutex_pool_unlock(&locks, bin);
      else
        mutex_unlock(lock);
    }
  }
}

/* The same without transfers: little beside the lock, or three times as much work as under it. */
static void contend(uint32_t id, uint32_t work) {
  uint32_t sum = id;
  for (uint32_t i = id; i < 1024; i += NR_TASKLETS) {
    for (uint32_t j = 0; j < work; j++) sum = sum * 31 + j;
    mutex_lock(lock);
    bins[i * 37 % BINS] += 1;
    mutex_unlock(lock);
  }
  sums[id] = sum;
}

/* Half of the work is another's: a merge under a lock after a local count. */
static void local_histogram(uint32_t id) {
  int32_t *own = tables[id];
  for (uint32_t i = 0; i < BINS; i++) own[i] = 0;
  for (uint32_t i = id * BLOCK; i < WORDS; i += NR_TASKLETS * BLOCK) {
    mram_read(DATA + i, blocks[id], BLOCK * 4);
    for (uint32_t j = 0; j < BLOCK; j++) own[blocks[id][j] >> 16 & (BINS - 1)]++;
  }
  mutex_lock(lock);
  for (uint32_t i = 0; i < BINS; i++) bins[i] += (uint32_t)own[i];
  mutex_unlock(lock);
}

/* The later a tasklet's number, the more blocks it reads and the longer it works on each. */
static void unbalanced(uint32_t id) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 4 * (id + 1); i++) {
    mram_read(DATA + (i * 8 + id * 2) % (WORDS - 256), blocks[id], 64 << (id % 4));
    for (uint32_t j = 0; j < 16 * (id % 5) + 4; j++) sum = sum * 31 + blocks[id][j % 16];
  }
  sums[id] = sum;
}

/* Mostly transfers: read `bytes`, touch few words, write back where `write` says so. */
static void stream(uint32_t id, uint32_t words, uint32_t stride, int write) {
  uint32_t sum = 0;
  for (uint32_t i = id * words; i < WORDS / 2; i += NR_TASKLETS * words) {
    mram_read(DATA + i, blocks[id], words * 4);
    for (uint32_t j = 0; j < words; j += stride) sum += blocks[id][j]++;
    if (write) mram_write(blocks[id], RESULT + i, words * 4);
  }
  sums[id] = sum;
}

/* Eight bytes at a time from anywhere, as a learner that samples at random. */
static void random_reads(uint32_t id) {
  uint32_t state = id * 77 + 1, sum = 0;
  for (uint32_t i = 0; i < 300; i++) {
    mram_read(DATA + (draw(&state) >> 19) * 2, blocks[id], 8);
    for (uint32_t j = 0; j < (blocks[id][0] >> 20) % 8; j++) sum = (sum << 1) + blocks[id][1];
  }
  sums[id] = sum;
}

/* First all transfers, then all work, then transfers again: no tasklet's mix is the same throughout. */
static void in_turns(uint32_t id) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 12; i++) {
    mram_read(DATA + 256 * ((id + i) % 32), blocks[id], 1024);
    sum += blocks[id][i];
  }
  for (uint32_t i = 0; i < 600 + 40 * id; i++) sum = sum * 31 + blocks[id][i % 256];
  for (uint32_t i = 0; i < 6; i++) mram_write(blocks[id], RESULT + 256 * (6 * id + i), 1024);
  sums[id] = sum;
}

/* One tasklet in three waits for transfers, the others compute. */
static void two_kinds(uint32_t id) {
  if (id % 3 == 0)
    stream(id, 128, 32, 1);
  else
    updates(id);
}

/* The even numbers make what the odd ones use, three items ahead at most. */
static void produce_and_consume(uint32_t id) {
  uint32_t items = id % 2 || id + 1 < NR_TASKLETS ? 40 : 0, sum = 0; /* nobody uses what the last even number makes */
  for (uint32_t i = 0; i < items; i++) {
    if (id % 2)
      sem_take(&full);
    else
      sem_take(&empty);
    for (uint32_t j = 0; j < 20 + 30 * (id % 2) + i % 7; j++) sum = sum * 31 + j;
    if (id % 2)
      sem_give(&empty);
    else
      sem_give(&full);
  }
  sums[id] = sum;
}

/* Each tasklet waits for the one before it, works, and lets the one behind it go on; many times over. */
static void chain(uint32_t id) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 20; i++) {
    if (id > 0) handshake_wait_for(id - 1);
    for (uint32_t j = 0; j < 50 + id; j++) sum = sum * 31 + j;
    if (id + 1 < NR_TASKLETS) handshake_notify();
  }
  sums[id] = sum;
}

int main(void) {
  uint32_t id = me();
  for (uint32_t i = id; i < BINS; i += NR_TASKLETS) bins[i] = 0;
  barrier_wait(&in_step);
  switch (kernel) {
    case 0:
      updates(id);
      break;
    case 1:
      reduction(id);
      break;
    case 2:
      histogram(id, 1);
      break;
    case 3:
      histogram(id, 0);
      break;
    case 4:
      local_histogram(id);
      break;
    case 5:
      unbalanced(id);
      break;
    case 6:
      stream(id, 256, 16, 0);
      break;
    case 7:
      stream(id, 256, 16, 1);
      break;
    case 8:
      stream(id, 128, 1, 1);
      break;
    case 9:
      stream(id, 32, 8, 1);
      break;
    case 10:
      random_reads(id);
      break;
    case 11:
      in_turns(id);
      break;
    case 12:
      two_kinds(id);
      break;
    case 13:
      produce_and_consume(id);
      break;
    case 14:
      chain(id);
      break;
    case 15:
      contend(id, 0);
      break;
    case 16:
      contend(id, 8);
      break;
    case 17:
      contend(id, 30);
      break;
  }
  return 0;
}
