/* The exact run: one instruction a cycle, taken from the tasklets in turn, each at most every 11 cycles.
 *
 * Most of what a tasklet issues no other notices: registers change, nothing else. While no tasklet comes or goes, the
 * cycle of each such instruction follows from the one before it, so a stretch of them needs no walk through the cycles:
 * it goes from one access to shared memory to the next, in the order of their cycles. Part of machine.c. */
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

struct pipeline {
  struct run *run;
  struct lane lanes[MAX_TASKLETS];
  int64_t ready[MAX_TASKLETS]; /* cycle from which each may issue again, or NEVER: not before another wakes it */
  int32_t pause, paused;       /* rounds to let pass before another stretch is tried, and how many have */
  int32_t count, turn;         /* tasklets, and whose turn it is */
  int64_t engine_free;         /* cycle from which the DMA engine is free */
  int64_t end;                 /* cycle at which the last instruction so far has left the pipeline */
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
  int32_t expected = p->run->machine->wram[address + BARRIER_EXPECTED];
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
    run_step(p->run, t, TO_ANYTHING);
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
static int32_t next_lane(struct pipeline *p) {
  int64_t now = p->run->now, earliest = NEVER;
  int32_t soonest = -1, turn = p->turn;
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

/* ---- a stretch ---- */

enum {
  NUMBER_BITS = 5,                                  /* of a tasklet's number beside a cycle */
  SILENT = INT32_MAX >> NUMBER_BITS << NUMBER_BITS, /* the place of nobody */
  LONGEST_STRETCH = 1 << 25,                        /* cycles; a step of each tasklet more still fits beside a number */
  LONGEST_STEP = 1 << 19,                           /* slots, far more than one takes: STEP_LIMIT, then straight code */
  SHORT_STRETCH = 16,                               /* instructions of each tasklet */
  LONGEST_PAUSE = 60,
};

/* Tasklets that issue in a fixed rhythm: each once in `period` cycles. Tasklet number i next accesses memory in the
 * cycle next[i] >> NUMBER_BITS, counted from `begin`; the low bits are i. From `horizon` on another one is back from a
 * transfer, or the budget ends. */
struct stretch {
  int32_t count, period;
  int64_t begin, horizon;
  int32_t next[MAX_TASKLETS];
  int32_t lane[MAX_TASKLETS];
  int64_t issued[MAX_TASKLETS]; /* by the tasklet before the stretch */
};

/* Up to 11 tasklets issue every 11 cycles, if no two are ready for the same one. Sets where each issues first. */
static bool rhythm_of_few(const struct pipeline *p, struct stretch *s) {
  uint32_t taken = 0;
  s->period = ISSUE_INTERVAL;
  for (int32_t i = 0; i < s->count; i++) {
    int64_t wait = p->ready[s->lane[i]] - s->begin;
    s->next[i] = wait > 0 ? (int32_t)wait : 0;
    if (taken >> s->next[i] & 1) return false;
    taken |= 1u << s->next[i];
  }
  return true;
}

/* More take turns without a pause, if each is ready when its turn comes. */
static bool rhythm_of_many(const struct pipeline *p, struct stretch *s) {
  int32_t first = 0;
  s->period = s->count;
  while (first < s->count && s->lane[first] < p->turn) first++;
  for (int32_t k = 0; k < s->count; k++) {
    int32_t i = (first + k) % s->count;
    s->next[i] = k;
    if (p->ready[s->lane[i]] > s->begin + k) return false;
  }
  return true;
}

/* Begin a stretch, if all that may issue are in their own code and in a rhythm. */
static bool stretch_begin(struct pipeline *p, struct stretch *s, int64_t budget) {
  int64_t left = budget - p->run->issued;
  s->count = 0, s->begin = p->run->now, s->horizon = s->begin + (left < LONGEST_STRETCH ? left : LONGEST_STRETCH);
  for (int32_t i = 0; i < p->count; i++) {
    const struct lane *lane = &p->lanes[i];
    if (p->ready[i] == NEVER) continue;
    if (lane->step != IN_CODE || lane->t->state != READY) return false;
    if (p->ready[i] < s->begin + ISSUE_INTERVAL)
      s->lane[s->count++] = i;
    else if (p->ready[i] < s->horizon)
      s->horizon = p->ready[i];
  }
  if (s->count == 0 || !(s->count <= ISSUE_INTERVAL ? rhythm_of_few(p, s) : rhythm_of_many(p, s))) return false;
  for (int32_t i = 0; i < s->count; i++)
    if ((int64_t)p->lanes[s->lane[i]].pending * s->period > LONGEST_STRETCH) return false;
  for (int32_t i = 0; i < s->count; i++) {
    struct lane *lane = &p->lanes[s->lane[i]];
    s->issued[i] = lane->t->issued;
    lane->t->issued += lane->pending;
    s->next[i] = (s->next[i] + s->period * lane->pending) << NUMBER_BITS | i;
  }
  for (int32_t i = s->count; i < MAX_TASKLETS; i++) s->next[i] = SILENT;
  return true;
}

/* Number `moved` accesses memory again after `cycles`. Returns the earliest of `next`. Looks at all places there are,
 * which makes it a few vector operations. */
static inline int32_t stretch_advance(struct stretch *s, int32_t moved, int32_t cycles) {
  int32_t earliest = SILENT;
  for (int32_t i = 0; i < MAX_TASKLETS; i++) {
    s->next[i] += i == moved ? cycles << NUMBER_BITS : 0;
    earliest = s->next[i] < earliest ? s->next[i] : earliest;
  }
  return earliest;
}

/* Put the tasklets where they are in cycle `now`: behind what they issued before it. */
static void stretch_end(struct pipeline *p, const struct stretch *s, int64_t now) {
  int64_t latest = -1;
  for (int32_t i = 0; i < s->count; i++) {
    struct lane *lane = &p->lanes[s->lane[i]];
    int64_t access = s->begin + (s->next[i] >> NUMBER_BITS);
    lane->pending = (int32_t)((access - now) / s->period);
    lane->t->issued -= lane->pending;
    if (lane->t->issued == s->issued[i]) continue;
    p->run->issued += lane->t->issued - s->issued[i];
    int64_t last = access - (int64_t)(lane->pending + 1) * s->period;
    p->ready[s->lane[i]] = last + ISSUE_INTERVAL;
    if (last > latest) latest = last, p->turn = s->lane[i] + 1 < p->count ? s->lane[i] + 1 : 0;
  }
  if (latest >= 0) p->end = latest + ISSUE_INTERVAL;
  p->run->now = now;
}

/* Whether it is time for a stretch. After a short one, as where tasklets try for a lock, ever more rounds go by:
 * finding the rhythm takes longer than a few instructions do. */
static bool stretch_is_due(struct pipeline *p) {
  if (p->turn != 0 || p->paused++ < p->pause) return false;
  p->paused = 0;
  return true;
}

/* Run on to the next thing that is neither a register's nor an access to WRAM. A tasklet that is alone goes past
 * accesses, too, as long as the budget cannot end before it stops. */
static void run_stretch(struct pipeline *p, int64_t budget) {
  struct stretch s;
  int64_t issued = p->run->issued, alone_until = p->run->now + ISSUE_INTERVAL * (budget - issued - LONGEST_STEP);
  if (!stretch_begin(p, &s, budget)) return;
  for (int32_t next = stretch_advance(&s, 0, 0);;) {
    int32_t i = next & ((1 << NUMBER_BITS) - 1);
    int64_t now = s.begin + (next >> NUMBER_BITS);
    struct tasklet *t = p->lanes[s.lane[i]].t;
    int64_t before = t->issued;
    enum step_reach reach = p->count == 1 && now < alone_until ? PAST_ACCESSES : TO_ACCESS;
    if (now < s.horizon) run_step(p->run, t, reach);
    if (t->issued == before) {
      stretch_end(p, &s, now < s.horizon ? now : s.horizon);
      break;
    }
    next = stretch_advance(&s, i, s.period * (int32_t)(t->issued - before));
  }
  bool was_short = p->run->issued - issued <= SHORT_STRETCH * s.count;
  p->pause = !was_short ? 0 : p->pause < LONGEST_PAUSE ? 2 * p->pause + 1 : p->pause;
}

/* Inlined twice, so that the run which counts nothing does not ask. */
static inline __attribute__((always_inline)) void exact_loop(struct run *run, int64_t budget, int64_t *counts) {
  struct machine *machine = run->machine;
  struct pipeline p = {.run = run, .count = (int32_t)machine->program->nr_tasklets};
  for (int32_t i = 0; i < p.count; i++) p.lanes[i].t = &machine->tasklets[i];
  while (!machine->fault.code) {
    if (!counts && stretch_is_due(&p)) run_stretch(&p, budget);
    int32_t i = next_lane(&p);
    if (i < 0) {
      if (!all_done(machine)) fault_of_waiting(machine, FAULT_DEADLOCK);
      break;
    }
    struct lane *lane = &p.lanes[i];
    int64_t stalls = lane->t->stalls;
    p.turn = i + 1 < p.count ? i + 1 : 0;
    p.ready[i] = p.end = run->now + ISSUE_INTERVAL;
    if (lane->step == IN_CODE)
      code_step(&p, lane, counts != NULL);
    else
      barrier_step(&p, lane);
    lane->t->issued++, run->issued++, run->now++;
    if (counts) counts[lane->at] += 1 - (lane->t->stalls - stalls); /* instructions only */
    if (!lane_can_issue(lane)) p.ready[i] = NEVER;
    if (run->woken) wake_lanes(&p);
    if (run->issued > budget) fault_of_waiting(machine, FAULT_BUDGET);
  }
  run->stats->cycles = p.end > p.engine_free ? p.end : p.engine_free;
}

static void run_exact(struct run *run, int64_t budget) { exact_loop(run, budget, NULL); }

/* Also adds up what each op of the program issued. */
static void run_counted(struct run *run, int64_t budget, int64_t *counts) { exact_loop(run, budget, counts); }

#endif
