/* State of one run of one machine: of the phase under way, and of its locks. Part of machine.c. */
#ifndef DPUSIM_RUN_H
#define DPUSIM_RUN_H

#include "barrier.h"
#include "machine.h"

/* What the fast run keeps of the phase under way; on the runner's stack. */
struct phase {
  int64_t start[MAX_TASKLETS];     /* instructions of each tasklet when the phase began */
  int64_t dma_start[MAX_TASKLETS]; /* and DMA cycles */
  int64_t base_instructions;       /* of all tasklets, at the start of the phase */
  int64_t base_cycles;
  double clock[MAX_TASKLETS];   /* when each tasklet began the phase, in issue slots */
  struct barrier_queue barrier; /* the last barrier that completed: its lock may still be taken */
  uint32_t barrier_address;
  int64_t holding_since[LOCK_BITS];
  struct {
    int32_t times;
    int32_t held; /* instructions between lock and unlock */
  } locks[LOCK_BITS][MAX_TASKLETS];
  bool locked;           /* whether any lock was taken in this phase */
  int32_t counter_owner; /* tasklet that reset the counter in this phase, or -1 */
  int64_t counter_at;    /* and after how many of its instructions */
  int64_t counted[MAX_TASKLETS];
};

struct run {
  struct machine *machine;
  struct phase *phase; /* of the run tasklet by tasklet; NULL in an exact run */
  int64_t issued, now; /* of an exact run: instructions and cycles so far */
  bool woken;          /* whether a step has woken somebody */
  struct run_stats *stats;
};

#endif
