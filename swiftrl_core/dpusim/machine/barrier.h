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
 * Both runs step through these numbers. */
#ifndef DPUSIM_BARRIER_COST_H
#define DPUSIM_BARRIER_COST_H

enum { BARRIER_EXPECTED = 2 }; /* where in a barrier_t the number of tasklets is */

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

#endif
