/* The time of a fast run. Part of machine.c.
 *
 * The fast run keeps of each tasklet only what matters to the others: its DMA transfers, its locks, barriers, semaphores
 * and handshakes, each with the number of instructions before it. Here these events are played against each other, and
 * the tasklet whose next event comes first has the next turn; so locks, MRAM and what follows from them come out in the
 * order of time. Between two events the pipeline needs no simulation, for it has a closed form:
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

#define NEVER INT64_MAX

enum { TRACE_EVENTS = 128 }; /* room at first */

enum event_kind { TRANSFER_WAIT, TAKE_LOCK, FREE_LOCK, MEET, TAKE_SEM, GIVE_SEM, NOTIFY_ANY, AWAIT };

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
  STARVED,     /* its trace is at its end: its turn */
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

struct replay {
  struct run *run;
  int32_t count;
  double now, slots;
  double engine_free;
  int32_t lock_owner[LOCK_BITS];
  int32_t active;               /* how many use the pipeline */
  int64_t issues[MAX_TASKLETS]; /* key of `due` of each player that is issuing, else NEVER */
  int64_t wakes[MAX_TASKLETS];  /* key of `wakes` of each that is in a transfer, else NEVER */
  struct player players[MAX_TASKLETS];
};

/* ---- traces ---- */

/* Add an event. Returns whether there was memory for it. */
static bool trace_add(struct trace *trace, int64_t at, int32_t kind, uint32_t what) {
  if (trace->end == trace->room) {
    int32_t kept = trace->end - trace->first;
    if (trace->first > 0) memmove(trace->events, trace->events + trace->first, (size_t)kept * sizeof *trace->events);
    trace->first = 0, trace->end = kept;
    if (kept >= trace->room - trace->room / 4) {
      int32_t room = trace->room ? 2 * trace->room : TRACE_EVENTS;
      struct event *larger = realloc(trace->events, (size_t)room * sizeof *larger);
      if (!larger) return false;
      trace->events = larger, trace->room = room;
    }
  }
  trace->events[trace->end++] = (struct event){at, kind, what};
  return true;
}

/* Note what a tasklet does after `at` instructions. Returns whether there was memory for it. */
static bool replay_note(struct run *run, const struct tasklet *t, int64_t at, int32_t kind, uint32_t what) {
  return trace_add(&run->replay->players[t - run->machine->tasklets].trace, at, kind, what);
}

/* Instructions of a barrier that one tasklet has for itself. */
static int32_t barrier_alone(struct run *run) {
  int32_t issued = BARRIER_ENTER + 1 + barrier_hold(0, 1) + BARRIER_LEAVE;
  run->stats->barrier_instructions += issued;
  return issued;
}

/* ---- the clock ---- */

/* Times are not negative, so their bits as integers compare as they do; and integers the compiler compares in vectors. */
static int64_t time_key(double time) {
  int64_t key;
  memcpy(&key, &time, sizeof key);
  return key;
}

static void set_playing(struct replay *r, struct player *p, int32_t playing) {
  int32_t i = (int32_t)(p - r->players);
  r->active += (playing <= SPINNING) - (p->playing <= SPINNING);
  r->issues[i] = playing == ISSUING ? time_key(p->due) : NEVER;
  r->wakes[i] = playing == IN_TRANSFER ? time_key(p->wakes) : NEVER;
  p->playing = playing;
}

static struct player *earliest(struct replay *r, const int64_t *keys, int64_t *key) {
  int64_t least = NEVER;
  for (int32_t block = 0; block < r->count; block += 8)
    for (int32_t i = block; i < block + 8; i++) least = keys[i] < least ? keys[i] : least;
  int32_t first = 0;
  while (keys[first] != least) first++;
  *key = least;
  return &r->players[first];
}

/* Go on with the next event of the trace, counted from `from` slots. */
static void play_on(struct replay *r, struct player *p, double from) {
  const struct trace *trace = &p->trace;
  const struct tasklet *t = &r->run->machine->tasklets[p - r->players];
  int64_t next = trace->first < trace->end ? trace->events[trace->first].at : t->issued;
  p->due = from + (double)(next - p->at);
  p->at = next;
  p->step = STEP_EVENT, set_playing(r, p, ISSUING);
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
  p->step = step, set_playing(r, p, ISSUING);
  r->run->stats->barrier_instructions += instructions;
}

static void sleep_in(struct replay *r, struct player *p, int32_t step, uint32_t waits_on) {
  p->step = step, p->waits_on = waits_on, set_playing(r, p, SLEEPING);
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
  int32_t expected = r->run->machine->wram[p->waits_on + BARRIER_EXPECTED], hold = barrier_hold(p->place, expected);
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
    struct tasklet *t = &r->run->machine->tasklets[p - r->players];
    r->lock_owner[lock] = (int32_t)(p - r->players);
    if (t->state == WAIT_LOCK) t->state = READY, lock_take(r->run->machine, t, lock);
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
  p->waits_on = lock, set_playing(r, p, SPINNING);
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
  bool last = p->place == r->run->machine->wram[address + BARRIER_EXPECTED] - 1;
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
    r->run->machine->tasklets[i].state = READY;
    play_on(r, p, from);
    return true;
  }
  return false;
}

static void take_semaphore(struct replay *r, struct player *p, uint32_t address) {
  if (r->run->machine->tasklets[p - r->players].state != WAIT_SEM) {
    play_on(r, p, p->due);
    return;
  }
  p->extra++; /* it has looked, and will look again */
  sleep_in(r, p, STEP_SEM, address);
}

/* A sleeper takes what was given. */
static void give_semaphore(struct replay *r, struct player *p, uint32_t address) {
  if (wake_player(r, STEP_SEM, address)) --*(int32_t *)(r->run->machine->wram + address);
  play_on(r, p, p->due);
}

/* One side of a handshake: go on if the other has come, else sleep, once the call's other instructions are issued. */
static void shake(struct replay *r, struct player *p, int32_t own_step, int32_t other_step, uint32_t what) {
  uint32_t notifier = what & HANDSHAKE_TASKLET;
  if (wake_player(r, other_step, notifier)) {
    play_on(r, p, p->due);
    return;
  }
  sleep_in(r, p, own_step, notifier);
  p->tail = (int32_t)(what >> HANDSHAKE_TAIL);
}

/* ---- events ---- */

static void start_transfer(struct replay *r, struct player *p, uint32_t cycles) {
  if (r->engine_free < r->now) r->engine_free = r->now;
  r->engine_free += cycles;
  p->wakes = r->engine_free;
  set_playing(r, p, IN_TRANSFER);
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
    default: /* AWAIT */
      shake(r, p, STEP_AWAIT, STEP_NOTIFY, event.what);
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
    set_playing(r, p, t->state == DONE ? OVER : STARVED);
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
      sleep_in(r, p, STEP_ASLEEP, p->waits_on);
      break;
    default: /* STEP_LEFT */
      play_on(r, p, p->due);
  }
}

/* Play until a tasklet has its turn, and return it; NULL when all have ended, or wait for each other. */
static struct player *replay_advance(struct replay *r) {
  for (;;) {
    int64_t issues, wakes;
    struct player *issuing = earliest(r, r->issues, &issues), *moving = earliest(r, r->wakes, &wakes);
    double slot = r->active > ISSUE_INTERVAL ? r->active : ISSUE_INTERVAL;
    double due = issues < NEVER ? r->now + (issuing->due - r->slots) * slot : INFINITY;
    if (wakes < NEVER && moving->wakes <= due) {
      r->slots += (moving->wakes - r->now) / slot, r->now = moving->wakes;
      play_on(r, moving, place_in_slot(r, moving));
    } else if (issues < NEVER) {
      r->slots = issuing->due, r->now = due;
      play_step(r, issuing);
      if (issuing->playing == STARVED) return issuing;
    } else {
      return NULL;
    }
  }
}

/* A tasklet has had its turn. If it began with an event, that is due now; what follows has its place in time. */
static void replay_resume(struct replay *r, struct player *p) {
  play_on(r, p, r->slots);
  if (p->trace.first < p->trace.end && p->due <= r->slots) play_step(r, p);
}

/* `r` is zero but for the traces. */
static void replay_begin(struct replay *r, struct run *run) {
  r->run = run, r->count = (int32_t)run->machine->program->nr_tasklets;
  memset(r->lock_owner, -1, sizeof r->lock_owner);
  for (int32_t i = 0; i < MAX_TASKLETS; i++) r->issues[i] = r->wakes[i] = NEVER, r->players[i].playing = OVER;
  double slot = r->count > ISSUE_INTERVAL ? r->count : ISSUE_INTERVAL;
  for (int32_t i = 0; i < r->count; i++) play_on(r, &r->players[i], i / slot);
}

static int64_t replay_cycles(const struct replay *r) {
  return (int64_t)((r->now > r->engine_free ? r->now : r->engine_free) + 0.5);
}

static void replay_end(struct replay *r) {
  for (int32_t i = 0; i < r->count; i++) free(r->players[i].trace.events);
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
