/* The fast run: rounds in which every runnable tasklet goes as far as it can, then the replay of what they did as far
 * as it is known. Part of machine.c. */
#ifndef DPUSIM_FAST_H
#define DPUSIM_FAST_H

/* A tasklet has come to its barrier: is it the last? */
static void barrier_arrive(struct run *run, uint32_t address) {
  struct machine *machine = run->machine;
  int32_t waiting = 0;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++)
    waiting += machine->tasklets[i].state == WAIT_BARRIER && machine->tasklets[i].waits_on == address;
  if (waiting < machine->wram[address + 4]) return;
  run->stats->phases++;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) {
    struct tasklet *t = &machine->tasklets[i];
    if (t->state == WAIT_BARRIER && t->waits_on == address) t->state = READY;
  }
}

static void run_tasklet(struct run *run, struct tasklet *t, int64_t budget) {
  run_until_blocked(run, t, t->issued - run->machine->program->fused[t->pc].before + budget);
  if (t->state == WAIT_BARRIER) barrier_arrive(run, t->waits_on);
}

/* Let the runnable tasklets run, those that are far ahead only when nobody else can. Returns how many did. */
static int32_t run_round(struct run *run, int64_t budget, bool all) {
  struct machine *machine = run->machine;
  int32_t ran = 0;
  for (uint32_t i = 0; i < machine->program->nr_tasklets && !machine->fault.code; i++) {
    struct tasklet *t = &machine->tasklets[i];
    const struct trace *trace = &run->replay->players[i].trace;
    if (t->state == WOKEN) t->state = READY;
    if (t->state != READY || (!all && trace->end - trace->first >= TRACE_EVENTS)) continue;
    run_tasklet(run, t, SLICE < budget ? SLICE : budget);
    ran++;
  }
  return ran;
}

/* Tasklets at the performance counter may read it: one whose turn it is in the replay, or all when nobody else can go
 * on. Returns whether there are any. */
static bool release_counters(struct run *run, bool all) {
  struct machine *machine = run->machine;
  bool any = false;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) {
    struct tasklet *t = &machine->tasklets[i];
    if (t->state != WAIT_COUNTER || (!all && (int32_t)i != run->replay->at_counter)) continue;
    t->state = READY, t->may_count = true;
    any = true;
  }
  return any;
}

static void run_together(struct run *run, int64_t budget) {
  struct machine *machine = run->machine;
  struct replay replay = {0};
  replay_begin(&replay, run);
  run->replay = &replay;
  int32_t idle = 0; /* rounds in which no tasklet ran */
  while (!machine->fault.code) {
    int64_t left = budget - issued_so_far(machine);
    int32_t ran = left > 0 ? run_round(run, left, false) : 0;
    if (machine->fault.code) break;
    replay_resume(&replay);
    replay_advance(&replay);
    if (release_counters(run, false)) continue;
    if (all_done(machine) && replay_is_over(&replay)) break;
    idle = ran ? 0 : idle + 1;
    if (left <= 0)
      fault_of_waiting(machine, FAULT_BUDGET);
    else if (idle > 1 && !run_round(run, left, true) && !release_counters(run, true))
      fault_of_waiting(machine, FAULT_DEADLOCK);
  }
  run->stats->cycles = replay_cycles(&replay);
  for (int32_t i = 0; i < replay.count; i++) machine->tasklets[i].issued += replay.players[i].extra;
  replay_end(&replay);
  run->replay = NULL;
}

/* One tasklet waits for nobody but the DMA engine, so its time is 11 I + D. */
static void run_alone(struct run *run, int64_t budget) {
  struct machine *machine = run->machine;
  struct tasklet *t = machine->tasklets;
  while (t->state == READY && !machine->fault.code) {
    int64_t left = budget - t->issued;
    if (left > 0)
      run_tasklet(run, t, left);
    else
      fault_of_waiting(machine, FAULT_BUDGET);
  }
  if (!machine->fault.code && t->state != DONE) fault_of_waiting(machine, FAULT_DEADLOCK);
  run->stats->cycles = ISSUE_INTERVAL * t->issued + t->dma_cycles;
}

static void run_fast(struct run *run, int64_t budget) {
  run->stats->phases = 1;
  if (run->machine->program->nr_tasklets == 1)
    run_alone(run, budget);
  else
    run_together(run, budget);
}

#endif
