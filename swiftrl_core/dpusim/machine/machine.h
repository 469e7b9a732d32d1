/* One simulated DPU: its memories, its tasklets, and what a run leaves. */
#ifndef DPUSIM_MACHINE_H
#define DPUSIM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  WRAM_BASE = 0,
  MRAM_BASE = 0x08000000,
  PAGE_BYTES = 32 << 10, /* MRAM comes into being page by page, where it is touched */
  MAX_TASKLETS = 24,
  LOCK_BITS = 64,
  ISSUE_INTERVAL = 11, /* cycles between two instructions of one tasklet */
  FRESH = 0xA5,        /* what memory holds before anybody writes to it */
};
#define IRAM_BASE 0x80000000u

/* A fault ends the run. The first eight are the DPU runtime's own numbers; machine.py has the sentences. */
enum fault_code {
  FAULT_NONE = 0,
  FAULT_HEAP_FULL = 1,
  FAULT_DIVISION_BY_ZERO = 2,
  FAULT_ASSERT = 3,
  FAULT_HALT = 4,
  FAULT_LOG_FULL = 5,
  FAULT_OUT_OF_MEMORY = 16, /* of this machine */
  FAULT_ADDRESS = 17,
  FAULT_ALIGNMENT = 18,
  FAULT_DMA_WRAM = 21,
  FAULT_DMA_MRAM = 22,
  FAULT_ILLEGAL = 23,
  FAULT_JUMP = 24,
  FAULT_NULL_CALL = 25,
  FAULT_BUDGET = 26,
  FAULT_DEADLOCK = 27,
  FAULT_BARRIER = 28,
  FAULT_STACK = 29,
};

struct fault {
  int32_t code;
  int32_t tasklet;
  uint32_t pc;      /* IRAM address of the instruction */
  uint32_t address; /* of the data, where there is one */
  uint32_t value;   /* size of a DMA, bits of an illegal instruction, code of a halt */
};

/* One instruction, decoded and priced by Python (lower.py builds this array field by field). `before` is the sum of
 * the static costs of all instructions that stand before this one in IRAM: straight-line code needs no counting at
 * all, only a jump adds the difference. */
typedef struct op {
  union {
    const void *go; /* where the interpreter executes it */
    uint64_t code;  /* as it comes from Python: its number */
  };
  int32_t imm;
  uint8_t rd, rs1, rs2, rs3;
  int32_t target;    /* of a jump: how many ops forward; of a fused op: its second immediate */
  int32_t jump_cost; /* of a jump: what taking it adds to the count, beyond `cost` in an exact run */
  int32_t before;
  uint16_t cost;
  uint16_t length; /* instructions this op stands for */
} op;

/* Latency of a transfer in cycles: fixed, and for each byte. */
struct dma_timing {
  double read_fixed, write_fixed, cycles_per_byte;
};

struct machine;
struct tasklet;

/* A translated program (translated.h): runs a tasklet from op `at` on, adding to `count`, up to an op that the
 * interpreter has to execute, or until `count` has passed `limit` at a jump. Returns the next op, in the latter case
 * with a mark. */
enum { LIMIT_REACHED = 1 << 30 };
typedef uint32_t translated_code(struct machine *machine, struct tasklet *t, uint32_t at, int64_t *count,
                                 int64_t limit);

/* Runs a routine on the registers of a tasklet. Returns the issue slots it takes, or minus a fault code. */
typedef int64_t routine_call(struct machine *machine, struct tasklet *t, uint32_t number);

struct program {
  uint32_t size; /* instructions */
  uint32_t entry, stacks_start, stack_bytes, nr_tasklets, wram_bytes, mram_bytes, print_bytes;
  op *fast;  /* with fused sequences, for the run tasklet by tasklet */
  op *exact; /* the same, for the run cycle by cycle */
  op *one;   /* one op an instruction, for the run that counts where they are */
  op *fused; /* `fast` as long as nothing is translated; then that has entries of `translated` in it */
  translated_code *translated;
  routine_call *routine; /* for translated code */
  /* For the sanitizer: address of the heap's pointer, number of its lock, and the ops of mem_reset. */
  uint32_t heap_pointer, heap_lock, reset_begin, reset_end;
};

enum tasklet_state {
  READY,
  WOKEN,        /* runs again in its next turn */
  WAIT_LOCK,    /* of a mutex: tries again when woken; in a fast run, gets it */
  WAIT_SEM,     /* of a semaphore: likewise */
  WAIT_NOTIFY,  /* has notified, no tasklet has waited for it yet */
  WAIT_FOR,     /* waits for another tasklet's notification */
  WAIT_BARRIER, /* arrived, others have not */
  DONE,
};

struct tasklet {
  uint32_t x[33]; /* registers; writes to x0 go to the 33rd */
  uint32_t pc;    /* index of the next op */
  uint32_t waits_on;
  int32_t state;
  int32_t calm;   /* transfers since it last met others */
  int32_t due;    /* of a fast run: 0, or one more than the instructions of its next op that `issued` has already */
  int64_t issued; /* issue slots used since boot: DPU instructions and stalls */
  int64_t stalls; /* of these, slots in which it waited for a bank of registers */
  int64_t dma_cycles, dma_bytes_read, dma_bytes_written, dma_transfers;
  int64_t dma_pending; /* cycles of the transfers that this op or step started */
};

/* The performance counter: what it counts, what it shows while it counts nothing, and the cycle and the instruction at
 * which it started. */
struct perf {
  int32_t mode;
  uint32_t frozen;
  int64_t cycles, instructions;
};

struct machine {
  const struct program *program;
  struct dma_timing dma;
  uint8_t *wram; /* not the machine's own */
  uint8_t **pages;
  uint32_t page_count;
  struct fault fault;
  struct perf perf;
  int64_t clock_instructions, clock_cycles; /* of all runs before this one */
  int8_t lock_owner[LOCK_BITS];             /* tasklet, or -1 */
  struct sanitizer *sanitizer;              /* of the debug run */
  char *log;
  size_t log_size, log_room;
  bool log_lost; /* older text has given way */
  struct tasklet tasklets[MAX_TASKLETS];
};

/* What a run reports; read by interface.py through a NumPy record of the same layout. */
struct run_stats {
  int64_t cycles;
  int64_t phases;
  int64_t lock_tries, barrier_instructions;
  int64_t instructions[MAX_TASKLETS];
  int64_t stalls[MAX_TASKLETS];
  int64_t dma_cycles[MAX_TASKLETS];
  int64_t dma_bytes_read[MAX_TASKLETS];
  int64_t dma_bytes_written[MAX_TASKLETS];
  int64_t dma_transfers[MAX_TASKLETS];
};

/* ---- memory ---- */

const uint8_t *mram_page(const struct machine *machine, uint32_t offset);
uint8_t *mram_page_for_writing(struct machine *machine, uint32_t offset);
bool mram_copy_out(const struct machine *machine, uint32_t offset, void *to, size_t size);
bool mram_copy_in(struct machine *machine, uint32_t offset, const void *from, size_t size);

/* ---- log ---- */

/* Format a printf request of a kernel into the machine's log. Returns the characters, or minus a fault code. */
int32_t log_print(struct machine *machine, uint32_t request);

#endif
