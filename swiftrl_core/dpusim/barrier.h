/* What a barrier costs. On a DPU it is a counter behind a lock, with a queue of sleepers, and the lock spins, so
 * tasklets that arrive together pay for each other: about 50, 572 and 2,180 instructions in all for 2, 8 and 16
 * tasklets (measured on the vendor's toolchain; this model is within 2.5 % of it).
 *
 *   enter            3 instructions (move, call, load of the lock's number)
 *   lock             one try per issue slot
 *   with the lock    11 for the first to arrive, 12 for the following, 11 + 4 (n - 2) for the last, unlock included;
 *                    the last wakes one sleeper every 4 instructions while it still holds the lock
 *   leave            2 (for all but the last with a sleep between them)
 *
 * Both runs use these numbers: the exact one steps through them, the fast one computes the queue below. */
#ifndef DPUSIM_BARRIER_COST_H
#define DPUSIM_BARRIER_COST_H

enum {
  BARRIER_ENTER = 3,
  BARRIER_HOLD_FIRST = 11,
  BARRIER_HOLD_NEXT = 12,
  BARRIER_WAKE_FIRST = 9, /* instruction of the last holder that wakes the first sleeper */
  BARRIER_WAKE_STEP = 4,
  BARRIER_LEAVE = 2,
};

/* Instructions with the lock of the tasklet that arrives as number `place` (from 0) of `expected`. */
static int32_t barrier_hold(int32_t place, int32_t expected) {
  if (place == expected - 1) return BARRIER_HOLD_FIRST + (expected > 2 ? BARRIER_WAKE_STEP * (expected - 2) : 0);
  return place == 0 ? BARRIER_HOLD_FIRST : BARRIER_HOLD_NEXT;
}

/* The queue at the lock of one barrier, in issue slots: each slot is one instruction of every tasklet that is awake,
 * and within a slot they take turns by number. */
struct barrier_queue {
  int32_t tasklets;
  int32_t owner; /* in: who held the lock last and freed it in which slot; out: the same afterwards */
  double freed;
  int32_t id[MAX_TASKLETS];
  double arrival[MAX_TASKLETS];       /* slot in which the tasklet reaches the barrier */
  double release[MAX_TASKLETS];       /* out: slot in which it goes on */
  int64_t instructions[MAX_TASKLETS]; /* out: what it issued in the barrier */
};

/* First slot from `ready` on in which tasklet `id` finds the lock free, that `owner` frees in slot `freed`. */
static double next_try(double ready, int32_t id, double freed, int32_t owner) {
  double first = id > owner ? freed : freed + 1;
  return ready >= first ? ready : first;
}

static void barrier_solve(struct barrier_queue *queue) {
  int32_t n = queue->tasklets, order[MAX_TASKLETS];
  bool served[MAX_TASKLETS] = {false};
  for (int32_t place = 0; place < n; place++) {
    int32_t best = -1;
    double best_slot = 0;
    for (int32_t i = 0; i < n; i++) {
      double slot = next_try(queue->arrival[i] + BARRIER_ENTER, queue->id[i], queue->freed, queue->owner);
      if (!served[i] && (best < 0 || slot < best_slot)) best = i, best_slot = slot;
    }
    int32_t hold = barrier_hold(place, n);
    double tries = best_slot - (queue->arrival[best] + BARRIER_ENTER) + 1;
    queue->instructions[best] = BARRIER_ENTER + (int64_t)tries + hold + BARRIER_LEAVE;
    served[best] = true, order[place] = best;
    queue->freed = best_slot + hold, queue->owner = queue->id[best];
    if (place < n - 1) continue;
    queue->release[best] = queue->freed + BARRIER_LEAVE;
    for (int32_t k = 0; k < place; k++)
      queue->release[order[k]] = best_slot + BARRIER_WAKE_FIRST + BARRIER_WAKE_STEP * k + 1;
  }
}

#endif
