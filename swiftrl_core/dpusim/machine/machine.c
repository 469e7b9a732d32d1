/* A DPU simulator: memories, synchronisation, and two ways to run the tasklets.
 *
 * The fast run lets tasklets take turns, from one thing that others notice to the next, and gets order and time from a
 * replay of these things (replay.h). The exact run interleaves them instruction by instruction: one issue a cycle, at
 * most one in 11 cycles for a tasklet, DMA transfers one after the other. A program whose result does not depend on the
 * order of its tasklets between two such things leaves the same memory in both. */
#include "machine.h"

#include <stdlib.h>

#include "opcodes.h"
#include "run.h"
#include "semantics.h"

#define EXPORT __attribute__((visibility("default")))

#include "sanitize.h"

enum routine_number {
#define ROUTINE_NUMBER(name) ROUTINE_##name,
  DPU_ROUTINES(ROUTINE_NUMBER) ROUTINE_COUNT
};

enum {
  MRAM_LOAD_EXTRA = 3,   /* a scalar read from MRAM: address, DMA, mask, load instead of a load */
  MRAM_STORE_EXTRA = 4,  /* read, change, write back */
  STEP_LIMIT = 1000,     /* instructions after which a step ends that nobody notices */
  CALM = 16,             /* transfers in a row without meeting others, from which on a tasklet streams */
  TRANSFERS_A_TURN = 64, /* of a tasklet that streams */
  SLICE = 1 << 14,       /* instructions of a turn in which nobody is met */
  CALM_SLICE = 1 << 18,  /* the same for a tasklet that streams */
};

/* ---- memory ---- */

static const uint8_t fresh_page[PAGE_BYTES] = {[0 ... PAGE_BYTES - 1] = FRESH};

const uint8_t *mram_page(const struct machine *machine, uint32_t offset) {
  const uint8_t *page = machine->pages[offset / PAGE_BYTES];
  return page ? page : fresh_page;
}

uint8_t *mram_page_for_writing(struct machine *machine, uint32_t offset) {
  uint8_t **page = &machine->pages[offset / PAGE_BYTES];
  if (!*page) {
    *page = malloc(PAGE_BYTES);
    if (*page) memcpy(*page, fresh_page, PAGE_BYTES);
  }
  return *page;
}

static bool mram_holds(const struct machine *machine, uint32_t offset, size_t size) {
  return offset <= machine->program->mram_bytes && size <= machine->program->mram_bytes - offset;
}

/* Both copy page by page and tell whether the range lies in MRAM (and, writing, whether memory sufficed). */
EXPORT bool mram_copy_out(const struct machine *machine, uint32_t offset, void *to, size_t size) {
  if (!mram_holds(machine, offset, size)) return false;
  for (uint8_t *out = to; size;) {
    size_t within = offset % PAGE_BYTES, piece = PAGE_BYTES - within < size ? PAGE_BYTES - within : size;
    memcpy(out, mram_page(machine, offset) + within, piece);
    out += piece, offset += (uint32_t)piece, size -= piece;
  }
  return true;
}

EXPORT bool mram_copy_in(struct machine *machine, uint32_t offset, const void *from, size_t size) {
  if (!mram_holds(machine, offset, size)) return false;
  for (const uint8_t *in = from; size;) {
    size_t within = offset % PAGE_BYTES, piece = PAGE_BYTES - within < size ? PAGE_BYTES - within : size;
    uint8_t *page = mram_page_for_writing(machine, offset);
    if (!page) return false;
    memcpy(page + within, in, piece);
    in += piece, offset += (uint32_t)piece, size -= piece;
  }
  return true;
}

static void count_transfer(const struct machine *machine, struct tasklet *t, uint32_t size, bool read) {
  const struct dma_timing *dma = &machine->dma;
  double latency = (read ? dma->read_fixed : dma->write_fixed) + dma->cycles_per_byte * size;
  int64_t cycles = (int64_t)(latency + 0.5);
  t->dma_cycles += cycles, t->dma_pending += cycles, t->dma_transfers++;
  if (read)
    t->dma_bytes_read += size;
  else
    t->dma_bytes_written += size;
}

/* What a DPU makes of the operands of a transfer: addresses lose their low bits, the size is eight times one more than a
 * number of eight bits, and an MRAM address may come without its base. */
static uint32_t dma_wram(uint32_t address) { return address & ~7u; }
static uint32_t dma_mram(const struct machine *machine, uint32_t address) {
  return (address & ~7u) + (address < machine->program->mram_bytes ? MRAM_BASE : 0);
}
static uint32_t dma_size(uint32_t size) { return ((size / 8 - 1) & 255) * 8 + 8; }

/* One DMA transfer. Returns a fault code, 0 when all is well, and the address to blame. */
static int32_t dma(struct machine *machine, struct tasklet *t, uint32_t wram, uint32_t mram, uint32_t size, bool read,
                   uint32_t *to_blame) {
  *to_blame = wram;
  if (wram > machine->program->wram_bytes - size) return FAULT_DMA_WRAM;
  *to_blame = mram;
  if (mram < MRAM_BASE || !mram_holds(machine, mram - MRAM_BASE, size)) return FAULT_DMA_MRAM;
  bool copied = read ? mram_copy_out(machine, mram - MRAM_BASE, machine->wram + wram, size)
                     : mram_copy_in(machine, mram - MRAM_BASE, machine->wram + wram, size);
  if (!copied) return FAULT_OUT_OF_MEMORY;
  count_transfer(machine, t, size, read);
  return FAULT_NONE;
}

static void set_fault(struct machine *machine, const struct tasklet *t, ptrdiff_t index, int32_t code, uint32_t address,
                      uint32_t value) {
  int32_t tasklet = (int32_t)(t - machine->tasklets);
  machine->fault = (struct fault){code, tasklet, IRAM_BASE + 4 * (uint32_t)index, address, value};
}

/* A scalar outside WRAM: in MRAM the DPU moves its eight bytes by DMA. Sets the fault and returns false elsewhere. */
static bool far_check(struct machine *machine, struct tasklet *t, ptrdiff_t index, uint32_t address, uint32_t size) {
  int32_t fault = FAULT_NONE;
  if (address & (size - 1))
    fault = FAULT_ALIGNMENT;
  else if (address < MRAM_BASE || !mram_holds(machine, address - MRAM_BASE, size))
    fault = FAULT_ADDRESS;
  if (fault) set_fault(machine, t, index, fault, address, size);
  return !fault;
}

static bool far_load(struct machine *machine, struct tasklet *t, ptrdiff_t index, uint32_t address, void *value,
                     uint32_t size) {
  if (!far_check(machine, t, index, address, size)) return false;
  mram_copy_out(machine, address - MRAM_BASE, value, size);
  count_transfer(machine, t, 8, true);
  return true;
}

static bool far_store(struct machine *machine, struct tasklet *t, ptrdiff_t index, uint32_t address, const void *value,
                      uint32_t size) {
  if (!far_check(machine, t, index, address, size)) return false;
  if (!mram_copy_in(machine, address - MRAM_BASE, value, size)) {
    set_fault(machine, t, index, FAULT_OUT_OF_MEMORY, address, size);
    return false;
  }
  count_transfer(machine, t, 8, true);
  count_transfer(machine, t, 8, false);
  return true;
}

/* ---- routines ---- */

static routine_function *const arithmetic[] = {
#define ARITHMETIC(name) routine_##name,
    DPU_ARITHMETIC(ARITHMETIC)};

/* The range of a block routine, in whichever memory; NULL when it does not lie in one. MRAM goes byte by byte. */
static bool block_byte(struct machine *machine, uint32_t address, uint8_t *value, bool store) {
  if (address < machine->program->wram_bytes) {
    if (store)
      machine->wram[address] = *value;
    else
      *value = machine->wram[address];
    return true;
  }
  if (address < MRAM_BASE) return false;
  return store ? mram_copy_in(machine, address - MRAM_BASE, value, 1)
               : mram_copy_out(machine, address - MRAM_BASE, value, 1);
}

static bool in_wram(const struct machine *machine, uint32_t address, uint32_t size) {
  return size <= machine->program->wram_bytes && address <= machine->program->wram_bytes - size;
}

/* memcpy and memmove. Returns the cost, or minus a fault code. */
static int64_t block_copy(struct machine *machine, const uint32_t *x) {
  uint32_t to = x[A0], from = x[A1], size = x[A2];
  if (in_wram(machine, to, size) && in_wram(machine, from, size)) {
    memmove(machine->wram + to, machine->wram + from, size);
    return cost_copy(to, from, size);
  }
  for (uint32_t i = 0; i < size; i++) {
    uint32_t at = to > from ? size - 1 - i : i; /* in the order that overlapping ranges need */
    uint8_t byte;
    if (!block_byte(machine, from + at, &byte, false) || !block_byte(machine, to + at, &byte, true))
      return -FAULT_ADDRESS;
  }
  return cost_copy(to, from, size);
}

static int64_t block_fill(struct machine *machine, const uint32_t *x) {
  uint32_t to = x[A0], size = x[A2];
  if (!in_wram(machine, to, size)) return -FAULT_ADDRESS;
  memset(machine->wram + to, (int)x[A1], size);
  return cost_fill(to, size);
}

/* Slots in which a routine stalls on these arguments (costs.h). */
static uint32_t routine_stalls(uint32_t number, const uint32_t *x) {
  switch (number) {
    case ROUTINE_muldi3:
      return STALLS_MUL64;
    case ROUTINE_divdi3:
    case ROUTINE_moddi3:
      return stalls_udiv64(magnitude64(pair(x, A0)), magnitude64(pair(x, A2)));
    case ROUTINE_udivdi3:
    case ROUTINE_umoddi3:
      return stalls_udiv64(pair(x, A0), pair(x, A2));
    case ROUTINE_addsf3:
      return stalls_add_f32(x[A0], x[A1]);
    case ROUTINE_subsf3:
      return stalls_add_f32(x[A0], x[A1] ^ 0x80000000u);
    case ROUTINE_mulsf3:
      return stalls_mul_f32(x[A0], x[A1]);
    case ROUTINE_divsf3:
      return is_zero32(x[A0]) ? 0 : STALLS_DIV_F32;
    case ROUTINE_adddf3:
      return stalls_add_f64(pair(x, A0), pair(x, A2));
    case ROUTINE_subdf3:
      return stalls_add_f64(pair(x, A0), pair(x, A2) ^ 1ull << 63);
    case ROUTINE_muldf3:
      return is_zero64(pair(x, A0)) || is_zero64(pair(x, A2)) ? 0 : STALLS_MUL_F64;
    case ROUTINE_divdf3:
      return is_zero64(pair(x, A0)) ? 0 : STALLS_DIV_F64;
    default:
      return 0;
  }
}

static int64_t call_routine(struct machine *machine, struct tasklet *t, uint32_t number) {
  if (number == ROUTINE_memset) return block_fill(machine, t->x);
  if (number >= ROUTINE_memcpy) return block_copy(machine, t->x);
  uint32_t stalls = routine_stalls(number, t->x), cost = arithmetic[number](t->x);
  if (cost == DIVIDED_BY_ZERO) return -FAULT_DIVISION_BY_ZERO;
  t->stalls += stalls;
  return (int64_t)cost + stalls;
}

/* For tests: apply routine `number` to four argument registers in place. Returns its cost, UINT32_MAX for x / 0, and
 * how often it stalls. */
EXPORT uint32_t dpu_routine(uint32_t number, uint32_t arguments[4], uint32_t *stalls) {
  uint32_t x[33] = {0};
  memcpy(x + A0, arguments, 16);
  *stalls = routine_stalls(number, x);
  uint32_t cost = arithmetic[number](x);
  memcpy(arguments, x + A0, 16);
  return cost;
}

/* ---- synchronisation ---- */

static bool anyone_in(const struct machine *machine, int32_t state, uint32_t waits_on) {
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) {
    const struct tasklet *t = &machine->tasklets[i];
    if (t->state == state && t->waits_on == waits_on) return true;
  }
  return false;
}

/* Wake the first tasklet that waits so. A sleeper on a lock or a semaphore tries again; the others have finished. */
static bool wake_one(struct run *run, int32_t state, uint32_t waits_on) {
  for (uint32_t i = 0; i < run->machine->program->nr_tasklets; i++) {
    struct tasklet *t = &run->machine->tasklets[i];
    if (t->state == state && t->waits_on == waits_on) {
      t->state = WOKEN, run->woken = true;
      if (state == WAIT_NOTIFY || state == WAIT_FOR) LISTEN(run->machine, t, CHANNEL_HANDSHAKE + waits_on);
      return true;
    }
  }
  return false;
}

static bool lock_take(struct machine *machine, const struct tasklet *t, uint32_t address) {
  int8_t *owner = &machine->lock_owner[address & (LOCK_BITS - 1)];
  if (*owner >= 0) return false;
  *owner = (int8_t)(t - machine->tasklets);
  return true;
}

static void lock_release(struct run *run, uint32_t address) {
  uint32_t bit = address & (LOCK_BITS - 1);
  run->machine->lock_owner[bit] = -1;
  if (!run->replay) wake_one(run, WAIT_LOCK, bit);
}

#include "replay.h"

/* ---- performance counter ---- */

static int64_t stalls_so_far(const struct machine *machine) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) sum += machine->tasklets[i].stalls;
  return sum;
}

enum {
  COUNT_SAME = 0,
  COUNT_CYCLES = 1,
  COUNT_INSTRUCTIONS = 2,
  COUNT_NOTHING = 3,
  COUNT_BOTH = 7,
  COUNT_RESET = 8,
  COUNTER_UNIT = 16
};

/* What the counter counts, since the first launch, when tasklet `t` has used `count` issue slots. */
static int64_t counter_now(const struct run *run, const struct tasklet *t, int64_t count, int32_t mode) {
  const struct machine *machine = run->machine;
  int64_t instructions = run->issued - stalls_so_far(machine), now = run->now;
  if (run->replay)
    instructions = replay_instructions(run->replay), now = (int64_t)run->replay->now;
  else if (machine->program->nr_tasklets == 1)
    instructions = count - t->stalls, now = ISSUE_INTERVAL * count + t->dma_cycles;
  return mode == COUNT_CYCLES ? machine->clock_cycles + now : machine->clock_instructions + instructions;
}

/* Read what is counted; of both, `which`, or cycles if that is 0. */
static uint32_t counter_read(const struct run *run, const struct tasklet *t, int64_t count, int32_t which) {
  const struct perf *perf = &run->machine->perf;
  int32_t mode = perf->mode != COUNT_BOTH ? perf->mode : which ? which : COUNT_CYCLES;
  if (mode == COUNT_NOTHING) return perf->frozen;
  if (mode != COUNT_CYCLES && mode != COUNT_INSTRUCTIONS) return 0;
  int64_t start = mode == COUNT_CYCLES ? perf->cycles : perf->instructions;
  return (uint32_t)((counter_now(run, t, count, mode) - start) / COUNTER_UNIT);
}

static uint32_t counter_configure(struct run *run, const struct tasklet *t, uint32_t config, int64_t count) {
  struct perf *perf = &run->machine->perf;
  uint32_t before = counter_read(run, t, count, 0);
  int32_t mode = config & 7;
  bool changed = mode != COUNT_SAME && mode != perf->mode;
  if (mode != COUNT_SAME) perf->mode = mode;
  perf->frozen = config & COUNT_RESET ? 0 : before;
  if (config & COUNT_RESET || changed) {
    perf->cycles = counter_now(run, t, count, COUNT_CYCLES);
    perf->instructions = counter_now(run, t, count, COUNT_INSTRUCTIONS);
  }
  return before;
}

/* ---- the loops ---- */

/* What a step does when it comes to what others could notice: begin with it, whatever it is; begin with an access to
 * WRAM, but stop before anything else, however near; go on through accesses, for there are no others. */
enum step_reach { TO_ANYTHING, TO_ACCESS, PAST_ACCESSES };

#define LOOP_FAST 0
#define LOOP_STEP 1
#define LOOP_ONE 2

#define LOOP_KIND LOOP_FAST
#include "interpreter.h"
#undef LOOP_KIND
#define LOOP_KIND LOOP_STEP
#include "interpreter.h"
#undef LOOP_KIND
#define LOOP_KIND LOOP_ONE
#include "interpreter.h"
#undef LOOP_KIND

/* ---- what both runs ask ---- */

static int64_t issued_so_far(const struct machine *machine) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) sum += machine->tasklets[i].issued;
  return sum;
}

static bool all_done(const struct machine *machine) {
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++)
    if (machine->tasklets[i].state != DONE) return false;
  return true;
}

/* The tasklet to blame when nothing moves: the first that has not ended. */
static void fault_of_waiting(struct machine *machine, int32_t code) {
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) {
    const struct tasklet *t = &machine->tasklets[i];
    if (t->state == DONE) continue;
    set_fault(machine, t, t->pc, code, t->waits_on, (uint32_t)t->state);
    return;
  }
}

#include "exact.h"
#include "fast.h"

/* ---- programs and machines, for Python ---- */

/* Replace the numbers of ops by the addresses that execute them. The arrays stay Python's. */
EXPORT void dpu_program_prepare(struct program *program) {
  const void *const *fast = run_until_blocked(NULL, NULL, 0);
  const void *const *exact = run_step(NULL, NULL, 0);
  const void *const *one = run_one(NULL, NULL, 0);
  for (uint32_t i = 0; i < program->size; i++) {
    program->fast[i].go = fast[program->fast[i].code];
    program->one[i].go = one[program->one[i].code];
    program->exact[i].go = exact[program->exact[i].code];
  }
  program->fused = program->fast;
}

/* From the next run on, the fast run enters translated code where `fast`, which Python keeps, says so. */
EXPORT void dpu_program_translate(struct program *program, op *fast, translated_code *translated) {
  const void *const *labels = run_until_blocked(NULL, NULL, 0);
  for (uint32_t i = 0; i < program->size; i++) fast[i].go = labels[fast[i].code];
  program->translated = translated;
  program->routine = call_routine;
  __atomic_store_n(&program->fast, fast, __ATOMIC_RELEASE); /* runs may be under way */
}

EXPORT void dpu_free(struct machine *machine) {
  if (!machine) return;
  for (uint32_t i = 0; machine->pages && i < machine->page_count; i++) free(machine->pages[i]);
  free(machine->pages);
  free(machine->log);
  SANITIZER_FREE(machine);
  free(machine);
}

/* WRAM is Python's, so that views of it may outlive the machine. */
EXPORT struct machine *dpu_new(const struct program *program, uint8_t *wram, struct dma_timing dma) {
  struct machine *machine = calloc(1, sizeof *machine);
  if (!machine) return NULL;
  machine->program = program, machine->dma = dma;
  machine->page_count = program->mram_bytes / PAGE_BYTES;
  machine->pages = calloc(machine->page_count, sizeof *machine->pages);
  if (!machine->pages || !SANITIZER_NEW(machine)) return dpu_free(machine), NULL;
  machine->wram = wram;
  memset(machine->wram, FRESH, program->wram_bytes);
  return machine;
}

EXPORT void dpu_set_program(struct machine *machine, const struct program *program) { machine->program = program; }

EXPORT const struct fault *dpu_fault(const struct machine *machine) { return &machine->fault; }
EXPORT const char *dpu_log(const struct machine *machine, size_t *size) {
  return *size = machine->log_size, machine->log;
}

EXPORT bool dpu_log_lost(const struct machine *machine) { return machine->log_lost; }

/* Bytes of host memory that the machine occupies. */
EXPORT size_t dpu_host_bytes(const struct machine *machine) {
  size_t pages = 0;
  for (uint32_t i = 0; i < machine->page_count; i++) pages += machine->pages[i] != NULL;
  return sizeof *machine + machine->program->wram_bytes + machine->page_count * sizeof *machine->pages +
         pages * PAGE_BYTES + machine->log_room;
}

/* Put every tasklet at the start and clear locks and log; memories keep their content. */
EXPORT void dpu_boot(struct machine *machine) {
  const struct program *program = machine->program;
  memset(machine->tasklets, 0, sizeof machine->tasklets);
  memset(machine->lock_owner, -1, sizeof machine->lock_owner);
  machine->log_size = 0, machine->log_lost = false;
  SANITIZER_BOOT(machine);
  for (uint32_t i = 0; i < program->nr_tasklets; i++) {
    machine->tasklets[i].pc = (program->entry - IRAM_BASE) / 4;
    machine->tasklets[i].x[2] = program->stacks_start + (i + 1) * program->stack_bytes;
  }
}

static void collect(const struct machine *machine, struct run_stats *stats) {
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) {
    const struct tasklet *t = &machine->tasklets[i];
    stats->instructions[i] = t->issued - t->stalls;
    stats->stalls[i] = t->stalls;
    stats->dma_cycles[i] = t->dma_cycles;
    stats->dma_bytes_read[i] = t->dma_bytes_read;
    stats->dma_bytes_written[i] = t->dma_bytes_written;
    stats->dma_transfers[i] = t->dma_transfers;
  }
}

static void run_machine(struct machine *machine, bool exact, int64_t budget, struct run_stats *stats, int64_t *counts) {
  struct run run = {.machine = machine, .stats = stats};
  memset(stats, 0, sizeof *stats);
  if (machine->fault.code) return; /* a DPU in fault stays so */
  if (counts)
    run_counted(&run, budget, counts);
  else if (exact)
    run_exact(&run, budget);
  else
    run_fast(&run, budget);
  collect(machine, stats);
  for (uint32_t i = 0; i < machine->program->nr_tasklets; i++) machine->clock_instructions += stats->instructions[i];
  machine->clock_cycles += stats->cycles;
}

/* For tests: the cycles of tasklets whose traces are given. Tasklet i issues instructions[i] in all; its events, in
 * order, are the next lengths[i] of `events`. */
EXPORT int64_t dpu_replay(int32_t tasklets, const int64_t *instructions, const int32_t *lengths,
                          const struct event *events) {
  struct program program = {.nr_tasklets = (uint32_t)tasklets};
  struct machine machine = {.program = &program};
  struct run_stats stats = {0};
  struct run run = {.machine = &machine, .stats = &stats};
  struct replay replay = {.run = &run};
  for (int32_t i = 0; i < tasklets; i++) {
    machine.tasklets[i].issued = instructions[i], machine.tasklets[i].state = DONE;
    for (int32_t k = 0; k < lengths[i]; k++, events++)
      if (!trace_add(&replay.players[i].trace, events->at, events->kind, events->what)) return -1;
  }
  replay_begin(&replay, &run);
  replay_advance(&replay);
  replay_end(&replay);
  return replay_cycles(&replay);
}

/* Run machines one after the other, each until all its tasklets have ended or one has faulted. */
EXPORT void dpu_run(struct machine *const *machines, int64_t count, bool exact, int64_t budget,
                    struct run_stats *stats) {
  for (int64_t i = 0; i < count; i++) run_machine(machines[i], exact, budget, &stats[i], NULL);
}

/* Run one machine exactly and count for each op of the program what was issued in steps that began there. A step is one
 * op and those before it that cost nothing; waiting counts for the op that waits, a routine for its call. All counts
 * together are the instructions of the run. */
EXPORT void dpu_run_counted(struct machine *machine, int64_t budget, struct run_stats *stats, int64_t *counts) {
  run_machine(machine, true, budget, stats, counts);
}
