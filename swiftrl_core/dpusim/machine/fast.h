/* The fast run: turn by turn, in the order that the replay finds. Part of machine.c. */
#ifndef DPUSIM_FAST_H
#define DPUSIM_FAST_H

/* A tasklet has come to its barrier: is it the last? */
static void barrier_arrive(struct run *run, uint32_t address) {
  struct machine *machine = run->machine;
  int32_t waiting = 0;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++)
    waiting += machine->tasklets[i].state == WAIT_BARRIER && machine->tasklets[i].waits_on == address;
  if (waiting < machine->wram[address + BARRIER_EXPECTED]) return;
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

/* Tasklets run in turns, each from one thing that others notice to the next. */
static void run_together(struct run *run, int64_t budget) {
  struct machine *machine = run->machine;
  struct replay replay = {0};
  replay_begin(&replay, run);
  run->replay = &replay;
  while (!machine->fault.code) {
    struct player *player = replay_advance(&replay);
    if (!player) {
      if (!all_done(machine)) fault_of_waiting(machine, FAULT_DEADLOCK);
      break;
    }
    struct tasklet *t = &machine->tasklets[player - replay.players];
    int64_t before = t->issued, slice = t->calm < CALM ? SLICE : CALM_SLICE;
    run_tasklet(run, t, slice < budget ? slice : budget);
    budget -= t->issued - before;
    if (machine->fault.code) break;
    replay_resume(&replay, player);
    if (budget <= 0 && !all_done(machine)) fault_of_waiting(machine, FAULT_BUDGET);
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
