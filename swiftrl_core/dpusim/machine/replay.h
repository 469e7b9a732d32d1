/* The time of a fast run. Part of machine.c.
 *
 * The fast run takes tasklet after tasklet and keeps of each only what matters to the others: its DMA transfers, its
 * locks, barriers, semaphores and handshakes, each with the number of instructions before it. Here these traces are
 * played against each other. Between two of these events the pipeline needs no simulation, for it has a closed form:
 * while k tasklets have something to issue, an issue slot lasts max(11, k) cycles, and in a slot each of them issues
 * one instruction. So `slots` is a clock on which every tasklet's next event has a fixed place, and `now` is
 * the same clock in cycles.
 *
 *   transfer     the engine serves one after the other, first come first served; who waits issues nothing
 *   taken lock   a try a slot until it is free; of several the first whose slot comes gets it
 *   barrier      the steps of barrier.h
 *
 * Fractions of a slot keep the tasklets apart as the pipeline does, which decides who gets a lock. */
#ifndef DPUSIM_REPLAY_H
#define DPUSIM_REPLAY_H

#include <math.h>

#include "barrier.h"
#include "machine.h"

enum { TRACE_EVENTS = 1024 }; /* a tasklet that is so far ahead lets the others catch up */

enum event_kind { TRANSFER_WAIT, TAKE_LOCK, FREE_LOCK, MEET, TAKE_SEM, GIVE_SEM, NOTIFY_ANY, AWAIT, READ_COUNTER };

/* Something that a tasklet did after so many instructions of its own. */
struct event {
  int64_t at;
  int32_t kind;
  uint32_t what; /* cycles, lock, address of the barrier or semaphore, tasklet */
};

struct trace {
  struct event *events;
  int32_t first, end, room;
};

enum playing {
  ISSUING,     /* `due` is when its next event comes */
  SPINNING,    /* tries to get the lock `waits_on`, first at `due`; like the former it uses the pipeline */
  IN_TRANSFER, /* `wakes` is when the transfer ends */
  SLEEPING,    /* in `step`, for `waits_on` */
  STARVED,     /* its trace is at its end: what it does next is not known */
  OVER,
};

/* Inside a barrier or a wait: what comes at `due`. STEP_EVENT is the next event of the trace. */
enum replay_step {
  STEP_EVENT,
  STEP_TRY,
  STEP_WAKE,
  STEP_HELD,
  STEP_ASLEEP,
  STEP_LEFT,
  STEP_SEM,
  STEP_NOTIFY,
  STEP_AWAIT
};

/* What a handshake's event says: the tasklet that notifies, and the instructions behind the first. */
enum { HANDSHAKE_TASKLET = 255, HANDSHAKE_TAIL = 8 };

enum { BARRIER_LOCK = LOCK_BITS }; /* the lock of the barrier at address a has number BARRIER_LOCK + a */

struct player {
  struct trace trace;
  int64_t at;    /* instructions of its own at `due` */
  int64_t extra; /* what it issued beside them: tries, barriers */
  double due;    /* in slots */
  double wakes;  /* in cycles */
  uint32_t waits_on;
  int32_t playing, step;
  int32_t tail;  /* of a handshake: instructions that it still issues while it waits */
  int32_t place; /* at the barrier: arrived as number .. */
  int32_t woken; /* and has woken so many */
};

/* Of the semaphore in one word of WRAM; `known` from its first use on. */
struct semaphore_count {
  int32_t count;
  bool known;
};

struct replay {
  struct run *run;
  int32_t count;
  double now, slots;
  double engine_free;
  int32_t lock_owner[LOCK_BITS];
  struct semaphore_count *semaphores; /* one a word of WRAM, or NULL as long as there is none */
  int32_t at_counter;                 /* tasklet whose read of the counter is reached, or -1 */
  struct player players[MAX_TASKLETS];
};

/* ---- traces ---- */

/* Note an event. Returns whether the tasklet should let the others catch up, -1 without memory. */
static int32_t trace_add(struct trace *trace, int64_t at, int32_t kind, uint32_t what) {
  if (trace->end == trace->room) {
    int32_t kept = trace->end - trace->first;
    if (trace->first > 0) memmove(trace->events, trace->events + trace->first, (size_t)kept * sizeof *trace->events);
    trace->first = 0, trace->end = kept;
    if (kept >= trace->room - trace->room / 4) {
      int32_t room = trace->room ? 2 * trace->room : TRACE_EVENTS + TRACE_EVENTS / 2;
      struct event *larger = realloc(trace->events, (size_t)room * sizeof *larger);
      if (!larger) return -1;
      trace->events = larger, trace->room = room;
    }
  }
  trace->events[trace->end++] = (struct event){at, kind, what};
  return trace->end - trace->first >= TRACE_EVENTS;
}

/* Note what a tasklet does after `at` instructions; returns as trace_add. Before the first use of a semaphore its count
 * is that in memory. */
static int32_t replay_note(struct run *run, const struct tasklet *t, int64_t at, int32_t kind, uint32_t what) {
  struct replay *r = run->replay;
  if (kind == TAKE_SEM || kind == GIVE_SEM) {
    if (!r->semaphores) r->semaphores = calloc(run->machine->program->wram_bytes / 4, sizeof *r->semaphores);
    if (!r->semaphores) return -1;
    struct semaphore_count *semaphore = &r->semaphores[what / 4];
    if (!semaphore->known) memcpy(&semaphore->count, run->machine->wram + what, sizeof semaphore->count);
    semaphore->known = true;
  }
  return trace_add(&r->players[t - run->machine->tasklets].trace, at, kind, what);
}

/* Instructions of a barrier that one tasklet has for itself. */
static int32_t barrier_alone(struct run *run) {
  int32_t issued = BARRIER_ENTER + 1 + barrier_hold(0, 1) + BARRIER_LEAVE;
  run->stats->barrier_instructions += issued;
  return issued;
}

/* ---- the clock ---- */

/* Go on with the next event of the trace, counted from `from` slots. */
static void play_on(struct replay *r, struct player *p, double from) {
  const struct trace *trace = &p->trace;
  const struct tasklet *t = &r->run->machine->tasklets[p - r->players];
  int64_t next = trace->first < trace->end ? trace->events[trace->first].at : t->issued;
  p->due = from + (double)(next - p->at);
  p->at = next;
  p->playing = ISSUING, p->step = STEP_EVENT;
}

/* The slot in which a tasklet that has waited until `slots` begins again. The pipeline has 11 places in a slot; the
 * tasklet takes the next that is free. When more than 11 use the pipeline, its place is behind the one before it. */
static double place_in_slot(const struct replay *r, const struct player *player) {
  uint32_t taken = 0;
  int32_t active = 0, earliest = (int32_t)ceil((r->slots - floor(r->slots)) * ISSUE_INTERVAL - 0.01);
  const struct player *previous = NULL;
  for (int32_t i = 1; i < r->count; i++) {
    const struct player *p = r->players + (player - r->players + i) % r->count;
    if (p->playing > SPINNING) continue;
    active++, previous = p;
    taken |= 1u << (int32_t)((p->due - floor(p->due)) * ISSUE_INTERVAL + 0.5) % ISSUE_INTERVAL;
  }
  if (active >= ISSUE_INTERVAL) {
    double behind = previous->due + 0.5 / active;
    return behind + ceil(r->slots - behind);
  }
  while (taken >> earliest % ISSUE_INTERVAL & 1) earliest++;
  return floor(r->slots) + (double)earliest / ISSUE_INTERVAL;
}

/* Issue `instructions` that are not in the trace, then do `step`. */
static void play_extra(struct replay *r, struct player *p, double from, int32_t instructions, int32_t step) {
  p->due = from + instructions;
  p->extra += instructions;
  p->playing = ISSUING, p->step = step;
  r->run->stats->barrier_instructions += instructions;
}

static void sleep_in(struct player *p, int32_t step, uint32_t waits_on) {
  p->playing = SLEEPING, p->step = step, p->waits_on = waits_on;
}

/* ---- locks ---- */

static bool lock_is_taken(const struct replay *r, uint32_t lock) {
  if (lock < BARRIER_LOCK) return r->lock_owner[lock] >= 0;
  for (int32_t i = 0; i < r->count; i++) {
    const struct player *p = &r->players[i];
    bool holds = p->playing == ISSUING && (p->step == STEP_WAKE || p->step == STEP_HELD);
    if (holds && p->waits_on + BARRIER_LOCK == lock) return true;
  }
  return false;
}

static int32_t barrier_sleeping(const struct replay *r, uint32_t address) {
  int32_t sleeping = 0;
  for (int32_t i = 0; i < r->count; i++)
    sleeping += r->players[i].step == STEP_ASLEEP && r->players[i].waits_on == address;
  return sleeping;
}

/* Issue the instructions up to the next thing that the holder of a barrier's lock does. */
static void barrier_hold_on(struct replay *r, struct player *p, double from) {
  int32_t expected = r->run->machine->wram[p->waits_on + 4], hold = barrier_hold(p->place, expected);
  bool last = p->place == expected - 1;
  int32_t done = p->woken == 0 ? 0 : BARRIER_WAKE_FIRST + BARRIER_WAKE_STEP * (p->woken - 1);
  if (last && p->woken < expected - 1)
    play_extra(r, p, from, BARRIER_WAKE_FIRST + BARRIER_WAKE_STEP * p->woken - done, STEP_WAKE);
  else
    play_extra(r, p, from, hold - done, STEP_HELD);
}

/* Tasklet `p` has got `lock` in the slot `from`. */
static void got_lock(struct replay *r, struct player *p, uint32_t lock, double from) {
  if (lock < BARRIER_LOCK) {
    r->lock_owner[lock] = (int32_t)(p - r->players);
    play_on(r, p, from);
    return;
  }
  p->waits_on = lock - BARRIER_LOCK;
  p->place = barrier_sleeping(r, p->waits_on), p->woken = 0;
  barrier_hold_on(r, p, from);
}

static void try_lock(struct replay *r, struct player *p, uint32_t lock) {
  if (!lock_is_taken(r, lock)) {
    got_lock(r, p, lock, p->due);
    return;
  }
  p->playing = SPINNING, p->waits_on = lock;
}

/* A lock has become free: of those that try, the first whose slot comes gets it. */
static void pass_lock(struct replay *r, uint32_t lock) {
  struct player *next = NULL;
  double soonest = 0;
  for (int32_t i = 0; i < r->count; i++) {
    struct player *p = &r->players[i];
    if (p->playing != SPINNING || p->waits_on != lock) continue;
    double slot = p->due + floor(r->slots - p->due) + 1;
    if (!next || slot < soonest) next = p, soonest = slot;
  }
  if (!next) return;
  int64_t tries = (int64_t)(soonest - next->due + 0.5);
  next->extra += tries;
  if (lock < BARRIER_LOCK)
    r->run->stats->lock_tries += tries;
  else
    r->run->stats->barrier_instructions += tries;
  got_lock(r, next, lock, soonest);
}

/* ---- barriers ---- */

/* The last to arrive wakes the next sleeper, in the order of their arrival. */
static void barrier_wake_next(struct replay *r, struct player *last) {
  for (int32_t i = 0; i < r->count; i++) {
    struct player *p = &r->players[i];
    if (p->step != STEP_ASLEEP || p->waits_on != last->waits_on || p->place != last->woken) continue;
    bool asleep = p->playing == SLEEPING; /* else it has yet to issue its stop */
    play_extra(r, p, asleep ? place_in_slot(r, p) : p->due, 1, STEP_LEFT);
    break;
  }
  last->woken++;
  barrier_hold_on(r, last, last->due);
}

static void barrier_held(struct replay *r, struct player *p) {
  uint32_t address = p->waits_on;
  bool last = p->place == r->run->machine->wram[address + 4] - 1;
  play_extra(r, p, p->due, last ? BARRIER_LEAVE : 1, last ? STEP_LEFT : STEP_ASLEEP);
  pass_lock(r, BARRIER_LOCK + address);
}

/* ---- semaphores and handshakes ---- */

/* Wake the first tasklet that sleeps so; it goes on in the next slot. */
static bool wake_player(struct replay *r, int32_t step, uint32_t waits_on) {
  for (int32_t i = 0; i < r->count; i++) {
    struct player *p = &r->players[i];
    if (p->playing != SLEEPING || p->step != step || p->waits_on != waits_on) continue;
    double from = place_in_slot(r, p) + 1;
    p->at += p->tail < from - p->due ? p->tail : (int64_t)(from - p->due);
    p->tail = 0;
    play_on(r, p, from);
    return true;
  }
  return false;
}

static void take_semaphore(struct replay *r, struct player *p, uint32_t address) {
  if (r->semaphores[address / 4].count > 0) {
    r->semaphores[address / 4].count--;
    play_on(r, p, p->due);
    return;
  }
  p->extra++; /* it has looked, and will look again */
  sleep_in(p, STEP_SEM, address);
}

static void give_semaphore(struct replay *r, struct player *p, uint32_t address) {
  if (!wake_player(r, STEP_SEM, address)) r->semaphores[address / 4].count++;
  play_on(r, p, p->due);
}

/* One side of a handshake: go on if the other has come, else sleep, once the call's other instructions are issued. */
static void shake(struct replay *r, struct player *p, int32_t own_step, int32_t other_step, uint32_t what) {
  uint32_t notifier = what & HANDSHAKE_TASKLET;
  if (wake_player(r, other_step, notifier)) {
    play_on(r, p, p->due);
    return;
  }
  sleep_in(p, own_step, notifier);
  p->tail = (int32_t)(what >> HANDSHAKE_TAIL);
}

/* ---- events ---- */

static void start_transfer(struct replay *r, struct player *p, uint32_t cycles) {
  if (r->engine_free < r->now) r->engine_free = r->now;
  r->engine_free += cycles;
  p->wakes = r->engine_free;
  p->playing = IN_TRANSFER;
}

static void play_event(struct replay *r, struct player *p, struct event event) {
  switch (event.kind) {
    case TRANSFER_WAIT:
      start_transfer(r, p, event.what);
      break;
    case TAKE_LOCK:
      try_lock(r, p, event.what);
      break;
    case FREE_LOCK:
      r->lock_owner[event.what] = -1;
      pass_lock(r, event.what);
      play_on(r, p, p->due);
      break;
    case MEET:
      p->waits_on = event.what;
      play_extra(r, p, p->due, BARRIER_ENTER + 1, STEP_TRY);
      break;
    case TAKE_SEM:
      take_semaphore(r, p, event.what);
      break;
    case GIVE_SEM:
      give_semaphore(r, p, event.what);
      break;
    case NOTIFY_ANY:
      shake(r, p, STEP_NOTIFY, STEP_AWAIT, event.what);
      break;
    case AWAIT:
      shake(r, p, STEP_AWAIT, STEP_NOTIFY, event.what);
      break;
    default: /* READ_COUNTER */
      r->at_counter = (int32_t)(p - r->players);
      p->playing = STARVED;
  }
}

/* The next event of the trace is due, or the trace is at its end. */
static void play_trace(struct replay *r, struct player *p) {
  struct trace *trace = &p->trace;
  const struct tasklet *t = &r->run->machine->tasklets[p - r->players];
  if (trace->first < trace->end && trace->events[trace->first].at == p->at)
    play_event(r, p, trace->events[trace->first++]);
  else if (trace->first < trace->end || p->at < t->issued)
    play_on(r, p, p->due);
  else
    p->playing = t->state == DONE ? OVER : STARVED;
}

static void play_step(struct replay *r, struct player *p) {
  switch (p->step) {
    case STEP_EVENT:
      play_trace(r, p);
      break;
    case STEP_TRY:
      try_lock(r, p, BARRIER_LOCK + p->waits_on);
      break;
    case STEP_WAKE:
      barrier_wake_next(r, p);
      break;
    case STEP_HELD:
      barrier_held(r, p);
      break;
    case STEP_ASLEEP:
      sleep_in(p, STEP_ASLEEP, p->waits_on);
      break;
    default: /* STEP_LEFT */
      play_on(r, p, p->due);
  }
}

/* Nothing is due, yet tasklets wait: the traces were made in another order, in which they did not. */
static bool release_one(struct replay *r) {
  for (int32_t i = 0; i < r->count; i++) {
    struct player *p = &r->players[i];
    if (p->playing != SPINNING && p->playing != SLEEPING) continue;
    play_on(r, p, r->slots);
    return true;
  }
  return false;
}

/* Play until a tasklet has to run on before it is known what comes next, or all have ended. */
static void replay_advance(struct replay *r) {
  for (;;) {
    struct player *issuing = NULL, *moving = NULL;
    bool starved = false;
    int32_t active = 0;
    for (struct player *p = r->players; p < r->players + r->count; p++) {
      active += p->playing <= SPINNING;
      if (p->playing == ISSUING && (!issuing || p->due < issuing->due)) issuing = p;
      if (p->playing == IN_TRANSFER && (!moving || p->wakes < moving->wakes)) moving = p;
      starved |= p->playing == STARVED;
    }
    if (starved) return;
    double slot = active > ISSUE_INTERVAL ? active : ISSUE_INTERVAL;
    double due = issuing ? r->now + (issuing->due - r->slots) * slot : INFINITY;
    if (moving && moving->wakes <= due) {
      r->slots += (moving->wakes - r->now) / slot, r->now = moving->wakes;
      play_on(r, moving, place_in_slot(r, moving));
    } else if (issuing) {
      r->slots = issuing->due, r->now = due;
      play_step(r, issuing);
    } else if (!release_one(r)) {
      return;
    }
  }
}

/* Tasklets have run on: those whose traces were at their end go on. */
static void replay_resume(struct replay *r) {
  r->at_counter = -1;
  for (int32_t i = 0; i < r->count; i++) {
    struct player *p = &r->players[i];
    const struct tasklet *t = &r->run->machine->tasklets[i];
    if (p->playing != STARVED) continue;
    if (p->trace.first < p->trace.end || t->issued > p->at || t->state == DONE) play_on(r, p, r->slots);
  }
}

/* `r` is zero but for the traces. */
static void replay_begin(struct replay *r, struct run *run) {
  r->run = run, r->count = (int32_t)run->machine->program->nr_tasklets, r->at_counter = -1;
  memset(r->lock_owner, -1, sizeof r->lock_owner);
  double slot = r->count > ISSUE_INTERVAL ? r->count : ISSUE_INTERVAL;
  for (int32_t i = 0; i < r->count; i++) play_on(r, &r->players[i], i / slot);
}

static bool replay_is_over(const struct replay *r) {
  for (int32_t i = 0; i < r->count; i++)
    if (r->players[i].playing != OVER) return false;
  return true;
}

static int64_t replay_cycles(const struct replay *r) {
  return (int64_t)((r->now > r->engine_free ? r->now : r->engine_free) + 0.5);
}

static void replay_end(struct replay *r) {
  for (int32_t i = 0; i < r->count; i++) free(r->players[i].trace.events);
  free(r->semaphores);
}

/* Instructions that all tasklets have issued up to now, as the performance counter has them. A tasklet that is ahead
 * has its stalls spread evenly. */
static int64_t replay_instructions(const struct replay *r) {
  double sum = 0;
  for (int32_t i = 0; i < r->count; i++) {
    const struct player *p = &r->players[i];
    const struct tasklet *t = &r->run->machine->tasklets[i];
    sum += (double)(p->at + p->extra);
    if (t->stalls) sum -= (double)t->stalls * (double)p->at / (double)t->issued;
    if (p->playing == ISSUING || p->playing == SPINNING) sum += r->slots - p->due;
  }
  return (int64_t)sum;
}

#endif
