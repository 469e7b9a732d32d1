/* The exact run: one instruction a cycle, taken from the tasklets in turn, each at most every 11 cycles.
 * Part of machine.c. */
#ifndef DPUSIM_EXACT_H
#define DPUSIM_EXACT_H

/* Where a tasklet stands: in its own code, or in one of the steps of barrier.h. */
enum lane_step { IN_CODE, ENTERING, TRYING, HOLDING, FALLING_ASLEEP, ASLEEP, LEAVING };

struct lane {
  struct tasklet *t;
  int32_t pending; /* instructions still to issue before the next step */
  int32_t step;
  int32_t place;  /* at the barrier: arrived as number .. */
  int32_t issued; /* instructions issued with the barrier's lock */
  uint32_t at;    /* op at which the last step began; what is issued counts for it */
};

#define NEVER INT64_MAX

struct pipeline {
  struct run *run;
  struct lane lanes[MAX_TASKLETS];
  int64_t ready[MAX_TASKLETS]; /* cycle from which each may issue again, or NEVER: not before another wakes it */
  int32_t count;
  int64_t engine_free; /* cycle from which the DMA engine is free */
};

static bool lane_can_issue(const struct lane *lane) {
  if (lane->step == ASLEEP) return false;
  return lane->step != IN_CODE || lane->pending || lane->t->state == READY;
}

static bool barrier_lock_taken(const struct pipeline *p, uint32_t address) {
  for (int32_t i = 0; i < p->count; i++)
    if (p->lanes[i].step == HOLDING && p->lanes[i].t->waits_on == address) return true;
  return false;
}

static int32_t barrier_sleepers(const struct pipeline *p, uint32_t address) {
  int32_t count = 0;
  for (int32_t i = 0; i < p->count; i++) {
    const struct lane *lane = &p->lanes[i];
    count += (lane->step == FALLING_ASLEEP || lane->step == ASLEEP) && lane->t->waits_on == address;
  }
  return count;
}

/* The last to arrive wakes the sleepers in the order of their arrival. */
static void barrier_wake(struct pipeline *p, uint32_t address, int32_t place, int64_t ready) {
  for (int32_t i = 0; i < p->count; i++) {
    struct lane *lane = &p->lanes[i];
    bool sleeps = lane->step == ASLEEP || lane->step == FALLING_ASLEEP;
    if (!sleeps || lane->t->waits_on != address || lane->place != place) continue;
    lane->pending = lane->step == FALLING_ASLEEP ? 1 : 0; /* has yet to issue its stop */
    lane->step = LEAVING, p->ready[i] = ready;
  }
}

/* One instruction of a tasklet that holds the barrier's lock. */
static void barrier_hold_step(struct pipeline *p, struct lane *lane, int32_t expected) {
  uint32_t address = lane->t->waits_on;
  int32_t since = ++lane->issued - BARRIER_WAKE_FIRST;
  bool last = lane->place == expected - 1;
  if (last && since >= 0 && since % BARRIER_WAKE_STEP == 0 && since / BARRIER_WAKE_STEP < expected - 1)
    barrier_wake(p, address, since / BARRIER_WAKE_STEP, p->run->now + ISSUE_INTERVAL);
  if (lane->issued < barrier_hold(lane->place, expected)) return;
  lane->step = last ? LEAVING : FALLING_ASLEEP;
  lane->pending = last ? 1 : 0;
}

/* One instruction of a tasklet inside a barrier. */
static void barrier_step(struct pipeline *p, struct lane *lane) {
  uint32_t address = lane->t->waits_on;
  int32_t expected = p->run->machine->wram[address + 4];
  p->run->stats->barrier_instructions++;
  if (lane->pending > 0) {
    lane->pending--;
    return;
  }
  switch (lane->step) {
    case ENTERING:
      lane->step = TRYING;
      break;
    case TRYING:
      if (barrier_lock_taken(p, address)) break;
      lane->place = barrier_sleepers(p, address), lane->issued = 0, lane->step = HOLDING;
      break;
    case HOLDING:
      barrier_hold_step(p, lane, expected);
      break;
    case FALLING_ASLEEP:
      lane->step = ASLEEP;
      break;
    default: /* LEAVING */
      lane->step = IN_CODE, lane->t->state = READY;
      LISTEN(p->run->machine, lane->t, address);
  }
}

/* Start the DMA transfers of the last step: first come, first served, the tasklet waits. */
static void start_transfers(struct pipeline *p, struct lane *lane) {
  int64_t start = p->engine_free > p->run->now ? p->engine_free : p->run->now;
  p->engine_free = start + lane->t->dma_pending;
  p->ready[lane - p->lanes] = p->engine_free + ISSUE_INTERVAL;
  lane->t->dma_pending = 0;
}

/* One instruction of a tasklet in its own code. */
static inline __attribute__((always_inline)) void code_step(struct pipeline *p, struct lane *lane, bool one) {
  struct tasklet *t = lane->t;
  if (lane->pending > 0) {
    lane->pending--;
    return;
  }
  int64_t before = t->issued;
  lane->at = t->pc;
  if (one)
    run_one(p->run, t, 0);
  else
    run_step(p->run, t, 0);
  if (t->state == WAIT_BARRIER) {
    lane->at = t->pc - 1;
    lane->step = ENTERING, lane->pending = BARRIER_ENTER - 2;
    p->run->stats->barrier_instructions++;
  } else if (t->issued > before) {
    lane->pending = (int32_t)(t->issued - before - 1);
  }
  t->issued = before; /* counted as they issue */
  if (t->dma_pending) start_transfers(p, lane);
}

/* The next tasklet in turn that may issue now, else the one that may soonest, at which time goes on; -1 for none. */
static int32_t next_lane(struct pipeline *p, int32_t turn) {
  int64_t now = p->run->now, earliest = NEVER;
  int32_t soonest = -1;
  for (int32_t i = turn; i < p->count; i++) {
    if (p->ready[i] <= now) return i;
    if (p->ready[i] < earliest) earliest = p->ready[i], soonest = i;
  }
  for (int32_t i = 0; i < turn; i++) {
    if (p->ready[i] <= now) return i;
    if (p->ready[i] < earliest) earliest = p->ready[i], soonest = i;
  }
  if (soonest >= 0) p->run->now = earliest;
  return soonest;
}

/* Tasklets that another one's step has woken may issue from the next interval on. */
static void wake_lanes(struct pipeline *p) {
  p->run->woken = false;
  for (int32_t i = 0; i < p->count; i++) {
    struct lane *lane = &p->lanes[i];
    if (lane->t->state != WOKEN) continue;
    lane->t->state = READY;
    p->ready[i] = p->run->now + ISSUE_INTERVAL;
  }
}

/* A tasklet that is alone issues what others could not notice in one go. */
static void skip_pending(struct pipeline *p) {
  struct lane *lane = p->lanes;
  if (p->count > 1 || lane->step != IN_CODE) return;
  p->ready[0] += (int64_t)ISSUE_INTERVAL * lane->pending;
  lane->t->issued += lane->pending, p->run->issued += lane->pending;
  lane->pending = 0;
}

/* Inlined twice, so that the run which counts nothing does not ask. */
static inline __attribute__((always_inline)) void exact_loop(struct run *run, int64_t budget, int64_t *counts) {
  struct machine *machine = run->machine;
  int64_t end = 0;
  struct pipeline p = {.run = run, .count = (int32_t)machine->program->nr_tasklets};
  for (int32_t i = 0; i < p.count; i++) p.lanes[i].t = &machine->tasklets[i];
  for (int32_t turn = 0; !machine->fault.code;) {
    int32_t i = next_lane(&p, turn);
    if (i < 0) {
      if (!all_done(machine)) fault_of_waiting(machine, FAULT_DEADLOCK);
      break;
    }
    struct lane *lane = &p.lanes[i];
    int64_t stalls = lane->t->stalls;
    turn = i + 1 < p.count ? i + 1 : 0;
    p.ready[i] = end = run->now + ISSUE_INTERVAL;
    if (lane->step == IN_CODE)
      code_step(&p, lane, counts != NULL);
    else
      barrier_step(&p, lane);
    lane->t->issued++, run->issued++, run->now++;
    if (counts)
      counts[lane->at] += 1 - (lane->t->stalls - stalls); /* instructions only */
    else
      skip_pending(&p);
    if (!lane_can_issue(lane)) p.ready[i] = NEVER;
    if (run->woken) wake_lanes(&p);
    if (run->issued > budget) fault_of_waiting(machine, FAULT_BUDGET);
  }
  run->stats->cycles = end > p.engine_free ? end : p.engine_free;
}

static void run_exact(struct run *run, int64_t budget) { exact_loop(run, budget, NULL); }

/* Also adds up what each op of the program issued. */
static void run_counted(struct run *run, int64_t budget, int64_t *counts) { exact_loop(run, budget, counts); }

#endif
