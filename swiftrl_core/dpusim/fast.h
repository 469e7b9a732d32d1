/* The fast run: rounds in which every runnable tasklet goes as far as it can, and the time of each such phase from a
 * closed form. Part of machine.c. */
#ifndef DPUSIM_FAST_H
#define DPUSIM_FAST_H

static void phase_begin(struct run *run) {
  struct phase *phase = run->phase;
  for (uint32_t i = 0; i < run->machine->program->nr_tasklets; i++) {
    phase->start[i] = run->machine->tasklets[i].instructions;
    phase->dma_start[i] = run->machine->tasklets[i].dma_cycles;
  }
  if (phase->locked) memset(phase->locks, 0, sizeof phase->locks);
  phase->locked = false;
}

/* Failed tries at contended locks. Each time a tasklet comes to a lock, every other that uses it may be served first;
 * what that takes beyond the tasklet's own work in between it spends trying, an instruction a slot. The lock passes
 * on within a slot, but for once in a round. So n tasklets that do little else than update under one lock issue n
 * times the instructions of the locked section. Within 2 % of the exact run on such a kernel. */
static void add_lock_tries(struct run *run) {
  struct machine *machine = run->machine;
  struct phase *phase = run->phase;
  uint32_t n = machine->program->nr_tasklets;
  int64_t work[MAX_TASKLETS];
  for (uint32_t i = 0; i < n; i++) work[i] = machine->tasklets[i].instructions - phase->start[i];
  for (uint32_t bit = 0; bit < LOCK_BITS; bit++) {
    for (uint32_t i = 0; i < n; i++) {
      int32_t times = phase->locks[bit][i].times;
      double ahead = 0;
      if (!times) continue;
      for (uint32_t j = 0; j < n; j++) {
        int32_t other = phase->locks[bit][j].times;
        if (j != i && other) ahead += (double)phase->locks[bit][j].held * (other < times ? other : times) / other;
      }
      int64_t tries = (int64_t)ahead + times - (work[i] - phase->locks[bit][i].held);
      if (ahead > 0 && tries > 0) machine->tasklets[i].instructions += tries, run->stats->lock_tries += tries;
    }
  }
}

/* Advance the tasklets' clocks by the phase's work; `interval` cycles are one issue slot. */
static void advance_clocks(struct run *run, double interval) {
  struct phase *phase = run->phase;
  for (uint32_t i = 0; i < run->machine->program->nr_tasklets; i++) {
    const struct tasklet *t = &run->machine->tasklets[i];
    phase->clock[i] += (double)(t->instructions - phase->start[i]);
    phase->clock[i] += (double)((t->dma_cycles - phase->dma_start[i]) / (int64_t)interval);
  }
}

/* Charge every barrier that completed in the phase. */
static void add_barriers(struct run *run) {
  struct machine *machine = run->machine;
  uint32_t n = machine->program->nr_tasklets;
  for (uint32_t first = 0; first < n; first++) {
    if (machine->tasklets[first].state != PASSED) continue;
    uint32_t address = machine->tasklets[first].waits_on;
    struct barrier_queue queue = run->phase->barrier;
    if (address != run->phase->barrier_address) queue.owner = -1, queue.freed = -1;
    queue.tasklets = 0;
    for (uint32_t i = first; i < n; i++) {
      if (machine->tasklets[i].state != PASSED || machine->tasklets[i].waits_on != address) continue;
      queue.arrival[queue.tasklets] = run->phase->clock[i];
      queue.id[queue.tasklets++] = (int32_t)i;
      machine->tasklets[i].state = WOKEN;
    }
    barrier_solve(&queue);
    run->phase->barrier = queue, run->phase->barrier_address = address;
    for (int32_t i = 0; i < queue.tasklets; i++) {
      machine->tasklets[queue.id[i]].instructions += queue.instructions[i];
      run->stats->barrier_instructions += queue.instructions[i];
      run->phase->clock[queue.id[i]] = queue.release[i];
    }
  }
}

/* Cycles of a phase of T active tasklets with I_t instructions and D_t DMA cycles. With J = sorted(I_t + D_t /
 * max(11, T)) the pipeline takes sum_i (J_i - J_(i-1)) max(11, T - i + 1): while k tasklets are left, a slot lasts
 * max(11, k) cycles. The DMA engine and the issue port bound it from below. Within 1.2 % of the exact run on learning
 * kernels; up to 15 % too short where tasklets are unequal and wait for DMA much of their time. */
static int64_t closed_form(const int64_t *instructions, const int64_t *dma_cycles, int32_t n) {
  double jobs[MAX_TASKLETS], pipeline = 0, previous = 0;
  int64_t issue = 0, engine = 0;
  int32_t active = 0;
  for (int32_t i = 0; i < n; i++) active += instructions[i] > 0;
  double interval = active > ISSUE_INTERVAL ? active : ISSUE_INTERVAL;
  for (int32_t i = 0, sorted = 0; i < n; i++) {
    if (instructions[i] <= 0) continue;
    issue += instructions[i], engine += dma_cycles[i];
    double job = (double)instructions[i] + (double)dma_cycles[i] / interval;
    int32_t at = sorted++;
    for (; at > 0 && jobs[at - 1] > job; at--) jobs[at] = jobs[at - 1];
    jobs[at] = job;
  }
  for (int32_t i = 0; i < active; i++) {
    int32_t left = active - i;
    pipeline += (jobs[i] - previous) * (left > ISSUE_INTERVAL ? left : ISSUE_INTERVAL);
    previous = jobs[i];
  }
  int64_t cycles = (int64_t)(pipeline + 0.5);
  if (cycles < engine) cycles = engine;
  return cycles < issue ? issue : cycles;
}

/* For tests: the closed form of a phase. */
EXPORT int64_t dpu_closed_form(const int64_t *instructions, const int64_t *dma_cycles, int32_t tasklets) {
  return closed_form(instructions, dma_cycles, tasklets);
}

static void phase_end(struct run *run) {
  struct machine *machine = run->machine;
  struct phase *phase = run->phase;
  uint32_t n = machine->program->nr_tasklets;
  int64_t instructions[MAX_TASKLETS], dma_cycles[MAX_TASKLETS];
  if (phase->locked) add_lock_tries(run);
  advance_clocks(run, n > ISSUE_INTERVAL ? n : ISSUE_INTERVAL);
  add_barriers(run);
  for (uint32_t i = 0; i < n; i++) {
    instructions[i] = machine->tasklets[i].instructions - phase->start[i];
    dma_cycles[i] = machine->tasklets[i].dma_cycles - phase->dma_start[i];
    phase->base_instructions += instructions[i];
  }
  counter_close_phase(run);
  phase->base_cycles += closed_form(instructions, dma_cycles, (int32_t)n);
  run->stats->phases++;
}

/* A tasklet has come to its barrier: is it the last? */
static void barrier_arrive(struct run *run, uint32_t address) {
  struct machine *machine = run->machine;
  int32_t waiting = 0;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++)
    waiting += machine->tasklets[i].state == WAIT_BARRIER && machine->tasklets[i].waits_on == address;
  if (waiting < machine->wram[address + 4]) return;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) {
    struct tasklet *t = &machine->tasklets[i];
    if (t->state == WAIT_BARRIER && t->waits_on == address) t->state = PASSED;
  }
}

/* Let every runnable tasklet run. Returns how many did; sets `preempted` when one stopped without having to. */
static int32_t run_round(struct run *run, int64_t budget, bool *preempted) {
  struct machine *machine = run->machine;
  uint32_t n = machine->program->nr_tasklets;
  int32_t ran = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct tasklet *t = &machine->tasklets[i];
    if (t->state != READY) continue;
    int64_t slice = n > 1 && SLICE < budget ? SLICE : budget;
    run_until_blocked(run, t, t->instructions - machine->program->fast[t->pc].before + slice);
    ran++;
    if (machine->fault.code) return ran;
    if (t->state == READY) *preempted = true;
    if (t->state == WAIT_BARRIER) barrier_arrive(run, t->waits_on);
  }
  return ran;
}

static void run_fast(struct run *run, int64_t budget) {
  struct machine *machine = run->machine;
  struct phase phase = {.counter_owner = -1};
  run->phase = &phase;
  bool preempted = false;
  while (!machine->fault.code && !all_done(machine)) {
    if (!preempted) phase_begin(run);
    preempted = false;
    int64_t left = budget - instructions_so_far(machine);
    int32_t ran = left > 0 ? run_round(run, left, &preempted) : 0;
    if (machine->fault.code) break;
    if (left <= 0)
      fault_of_waiting(machine, FAULT_BUDGET);
    else if (!ran)
      fault_of_waiting(machine, FAULT_DEADLOCK);
    if (!preempted) phase_end(run);
    for (uint32_t i = 0; i < machine->program->nr_tasklets; i++)
      if (machine->tasklets[i].state == WOKEN) machine->tasklets[i].state = READY;
  }
  run->stats->cycles = phase.base_cycles;
}

#endif
