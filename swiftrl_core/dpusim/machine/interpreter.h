/* The interpreter's loop. machine.c includes this file three times:
 *
 *   LOOP_FAST  a tasklet runs to the next op whose place in time matters to others: a transfer, a lock, the counter. The
 *              op itself comes first in its next turn, which the replay gives it in the order of time. A tasklet alone
 *              runs on until it ends.
 *   LOOP_STEP  a tasklet runs up to the next instruction that others could notice, or that depends on them: a load, a
 *              store, a transfer, a lock, a fault. What it does before is between itself and its registers, so it may
 *              be done at once; the exact run then lets as many issue slots pass. Its `limit` is a step_reach.
 *   LOOP_ONE   a tasklet runs one charged instruction, for a run that counts where they are
 *
 * Threaded code: every op holds the address of the code that executes it. `count + op->before` is the number of DPU
 * instructions so far (see struct op), in the exact loops `count` alone. */

#if LOOP_KIND == LOOP_ONE
#define LOOP run_one
#define LABELS one_labels
/* Costs of nothing merge with the next instruction: the DPU has none there. */
#define ADVANCE(ops)                   \
  do {                                 \
    count += op->cost;                 \
    op += (ops);                       \
    if (count != begin) goto finished; \
    DISPATCH;                          \
  } while (0)
#define TAKE_JUMP()         \
  do {                      \
    count += op->jump_cost; \
    ADVANCE(op->target);    \
  } while (0)
#define JUMP_TO(index) ADVANCE((int32_t)(index) - (int32_t)(op - ops))
#define REAL_COUNT() (count)
#else
#define ADVANCE(ops) \
  do {               \
    op += (ops);     \
    DISPATCH;        \
  } while (0)
/* Every loop jumps backward, so that is where it is looked whether there have been enough. */
#define TAKE_JUMP()                                                    \
  do {                                                                 \
    count += op->jump_cost;                                            \
    int32_t ops = op->target;                                          \
    op += ops;                                                         \
    if (__builtin_expect(ops <= 0 && LONG_ENOUGH(), 0)) goto finished; \
    DISPATCH;                                                          \
  } while (0)
#define JUMP_TO(index)                                     \
  do {                                                     \
    count += op->before + op->cost - ops[index].before;    \
    op = ops + (index);                                    \
    if (__builtin_expect(LONG_ENOUGH(), 0)) goto finished; \
    DISPATCH;                                              \
  } while (0)
#define REAL_COUNT() (count + op->before)
#endif

#if LOOP_KIND == LOOP_STEP
#define LOOP run_step
#define LABELS step_labels
/* A loop that nobody notices must end, too. */
#define LONG_ENOUGH() (REAL_COUNT() - begin > STEP_LIMIT)
#define NOTICEABLE()                                                  \
  do {                                                                \
    if (REAL_COUNT() != begin || limit != TO_ANYTHING) goto finished; \
  } while (0)
#define NOTICEABLE_ACCESS()                                             \
  do {                                                                  \
    if (REAL_COUNT() != begin && limit != PAST_ACCESSES) goto finished; \
  } while (0)
/* So must straight code of routines that take long. */
#define ADVANCE_LONG(ops)                                  \
  do {                                                     \
    op += (ops);                                           \
    if (__builtin_expect(LONG_ENOUGH(), 0)) goto finished; \
    DISPATCH;                                              \
  } while (0)
#else
#define NOTICEABLE()
#define NOTICEABLE_ACCESS()
#define ADVANCE_LONG(ops) ADVANCE(ops)
#endif

#if LOOP_KIND == LOOP_FAST
#define LOOP run_until_blocked
#define LABELS fast_labels
#define LONG_ENOUGH() (count > limit)
/* An op that others notice begins a turn, else it ends one. It comes with its first instruction, as in the exact run. */
#define IN_TURN_IF(it_is)                      \
  do {                                         \
    if (run->replay && !in_turn && !(it_is)) { \
      t->due = 1 + (op->cost > 0);             \
      goto finished;                           \
    }                                          \
    in_turn = false;                           \
  } while (0)
#define IN_TURN()      \
  do {                 \
    IN_TURN_IF(false); \
    t->calm = 0;       \
  } while (0)
/* A tasklet that streams, and has met nobody for a while, makes many transfers a turn. */
#define TRANSFER_IN_TURN()                           \
  do {                                               \
    IN_TURN_IF(t->calm >= CALM && --transfers >= 0); \
    t->calm++;                                       \
  } while (0)
/* Tell the replay of an event. */
#define NOTE(event, what)                                                             \
  do {                                                                                \
    if (!run->replay) break;                                                          \
    bool noted = replay_note(run, t, REAL_COUNT() + (op->cost > 0), (event), (what)); \
    if (__builtin_expect(!noted, 0)) FAULT_AT(FAULT_OUT_OF_MEMORY, 0, 0);             \
  } while (0)
#define NOTE_TRANSFER()                            \
  do {                                             \
    NOTE(TRANSFER_WAIT, (uint32_t)t->dma_pending); \
    t->dma_pending = 0;                            \
  } while (0)
#else
#define IN_TURN()
#define TRANSFER_IN_TURN()
#define NOTE(event, what)
#define NOTE_TRANSFER()
#endif

#define DISPATCH goto * op->go
#define OP(name) do_##name:
#define NEXT ADVANCE(1)
#define RD x[op->rd]
#define RS1 x[op->rs1]
#define RS2 x[op->rs2]
#define IMM ((uint32_t)op->imm)
/* In a step, a fault waits for its own turn: others may fault first. */
#define FAULT_AT(fault_kind, data_address, data_value)                     \
  do {                                                                     \
    NOTICEABLE();                                                          \
    set_fault(machine, t, op - ops, fault_kind, data_address, data_value); \
    goto finished;                                                         \
  } while (0)

/* Outside WRAM a load or store goes the slow way: MRAM through a DMA, or a fault. */
#define COMPUTE(name, value) \
  OP(name) {                 \
    RD = (value);            \
    NEXT;                    \
  }
#define LOAD(name, type, log2)                                                           \
  OP(name) {                                                                             \
    NOTICEABLE_ACCESS();                                                                 \
    uint32_t address = RS1 + IMM;                                                        \
    type value;                                                                          \
    if (__builtin_expect(IN_WRAM(address, log2), 1)) {                                   \
      CHECK(load, address, sizeof value);                                                \
      memcpy(&value, wram + address, sizeof value);                                      \
    } else {                                                                             \
      NOTICEABLE();                                                                      \
      TRANSFER_IN_TURN();                                                                \
      if (!far_load(machine, t, op - ops, address, &value, sizeof value)) goto finished; \
      CHECK(far, address, sizeof value, false);                                          \
      NOTE_TRANSFER();                                                                   \
      count += MRAM_LOAD_EXTRA;                                                          \
    }                                                                                    \
    RD = (uint32_t)(int32_t)value;                                                       \
    NEXT;                                                                                \
  }
#define STORE(name, type, log2)                                                           \
  OP(name) {                                                                              \
    NOTICEABLE_ACCESS();                                                                  \
    uint32_t address = RS1 + IMM;                                                         \
    type value = (type)RS2;                                                               \
    if (__builtin_expect(IN_WRAM(address, log2), 1)) {                                    \
      CHECK(store, address, sizeof value);                                                \
      memcpy(wram + address, &value, sizeof value);                                       \
    } else {                                                                              \
      NOTICEABLE();                                                                       \
      TRANSFER_IN_TURN();                                                                 \
      if (!far_store(machine, t, op - ops, address, &value, sizeof value)) goto finished; \
      CHECK(far, address, sizeof value, true);                                            \
      NOTE_TRANSFER();                                                                    \
      count += MRAM_STORE_EXTRA;                                                          \
    }                                                                                     \
    NEXT;                                                                                 \
  }
#define BRANCH(suffix, condition) \
  OP(B##suffix) {                 \
    if (condition) TAKE_JUMP();   \
    NEXT;                         \
  }
#define TRANSFER(name, asked_size, read)                                                                  \
  OP(name) {                                                                                              \
    NOTICEABLE();                                                                                         \
    TRANSFER_IN_TURN();                                                                                   \
    CHECK(request, RS1, RS2, (asked_size));                                                               \
    uint32_t near = dma_wram(RS1), far = dma_mram(machine, RS2), size = dma_size((asked_size)), to_blame; \
    int32_t fault = dma(machine, t, near, far, size, (read), &to_blame);                                  \
    if (__builtin_expect(fault, 0)) FAULT_AT(fault, to_blame, size);                                      \
    CHECK(transfer, near, size, (read));                                                                  \
    CHECK(far, far, size, !(read));                                                                       \
    NOTE_TRANSFER();                                                                                      \
    NEXT;                                                                                                 \
  }

/* Executes tasklet `t` from its pc. Called with t == NULL it returns the addresses of the labels instead. */
static const void *const *LOOP(struct run *run, struct tasklet *t, int64_t limit) {
#define OP_LABEL(name) &&do_##name,
  static const void *const LABELS[] = {DPU_OPS(OP_LABEL)
#if LOOP_KIND != LOOP_ONE
                                           DPU_FUSED_OPS(OP_LABEL)
#endif
#if LOOP_KIND == LOOP_FAST
                                               DPU_COMPILED_OPS(OP_LABEL)
#endif
  };
#undef OP_LABEL
  if (!t) return LABELS;

  struct machine *machine = run->machine;
  const struct program *program = machine->program;
  uint8_t *const wram = machine->wram;
  const uint32_t wram_bytes = program->wram_bytes;
  uint32_t *const x = t->x;
#if LOOP_KIND == LOOP_ONE
  const op *const ops = program->one;
  int64_t count = t->issued;
#else
  const op *const ops = LOOP_KIND == LOOP_STEP ? program->exact : __atomic_load_n(&program->fast, __ATOMIC_ACQUIRE);
  int64_t count = t->issued - ops[t->pc].before;
#endif
#if LOOP_KIND == LOOP_FAST
  bool in_turn = t->due > 0;
  int32_t transfers = TRANSFERS_A_TURN;
  if (in_turn) count -= t->due - 1, t->due = 0;
#endif
  const int64_t begin = t->issued;
  (void)begin, (void)limit;
  const op *op = ops + t->pc;
  DISPATCH;

  DPU_COMPUTE(COMPUTE)
  DPU_LOADS(LOAD)
  DPU_STORES(STORE)
  DPU_BRANCHES(BRANCH)

  OP(NOP) { NEXT; }

  OP(JAL) {
    RD = IMM;
    TAKE_JUMP();
  }

  OP(JALR) {
    uint32_t to = RS1 + IMM;
    uint32_t index = (to - IRAM_BASE) / 4;
    if (__builtin_expect(to < IRAM_BASE || index >= program->size || to & 3, 0))
      FAULT_AT(to == 0 ? FAULT_NULL_CALL : FAULT_JUMP, to, 0);
    RD = IRAM_BASE + 4 * (uint32_t)(op - ops + op->length);
    JUMP_TO(index);
  }

  /* Reached through its entry in runtime.S, by a jump or a pointer; a plain call is fused in the fast run. */
  OP(ROUTINE) {
    if (IMM >= ROUTINE_memcpy) {
      NOTICEABLE();
      CHECK(block, IMM != ROUTINE_memset);
    }
    int64_t cost = call_routine(machine, t, IMM);
    if (cost < 0) FAULT_AT((int32_t)-cost, 0, 0);
    count += cost;
    ADVANCE_LONG(1);
  }

  OP(CALL) {
    RD = IMM;
    TAKE_JUMP();
  }

  OP(CALL_ROUTINE) {
    if (IMM >= ROUTINE_memcpy) {
      NOTICEABLE();
      CHECK(block, IMM != ROUTINE_memset);
    }
    int64_t cost = call_routine(machine, t, IMM);
    if (cost < 0) FAULT_AT((int32_t)-cost, 0, 0);
    count += cost;
    ADVANCE_LONG(op->length);
  }

  OP(MULTIPLY) {
    x[A0] *= x[A1];
    ADVANCE(op->length);
  }

  /* A DPU would write over its neighbour's stack in silence. */
  OP(PUSH) {
    uint32_t frame = x[2] + IMM;
    uint32_t lowest = program->stacks_start + (uint32_t)(t - machine->tasklets) * program->stack_bytes;
    if (__builtin_expect((int32_t)(frame - lowest) < 0, 0)) FAULT_AT(FAULT_STACK, frame, program->stack_bytes);
    CHECK(frame, frame, x[2]);
    x[2] = frame;
    NEXT;
  }

  COMPUTE(ME, (uint32_t)(t - machine->tasklets))
  OP(FAULT) { FAULT_AT((int32_t)RS1, 0, RS1); }
  OP(PERF_CONFIG) {
    NOTICEABLE();
    IN_TURN();
    RD = counter_configure(run, t, RS1, REAL_COUNT());
    NEXT;
  }
  OP(PERF_GET) {
    NOTICEABLE();
    IN_TURN();
    RD = counter_read(run, t, REAL_COUNT(), (int32_t)RS1);
    NEXT;
  }

  OP(LOG) {
    NOTICEABLE();
    IN_TURN();
    int32_t written = log_print(machine, RS1);
    if (written < 0) FAULT_AT(-written, 0, 0);
    RD = (uint32_t)written;
    NEXT;
  }

  OP(EXIT) {
    NOTICEABLE();
    t->state = DONE, count++;
    goto finished;
  }

  TRANSFER(DMA_READ, IMM, true)
  TRANSFER(DMA_WRITE, IMM, false)
  TRANSFER(DMA_READ_N, x[op->rs3], true)
  TRANSFER(DMA_WRITE_N, x[op->rs3], false)

  /* The fast run sleeps on a taken lock until the replay hands it over (and adds the failed tries), the exact one tries
   * again. */
  OP(LOCK) {
    NOTICEABLE();
    IN_TURN();
    NOTE(TAKE_LOCK, RS1 & (LOCK_BITS - 1));
    if (lock_take(machine, t, RS1)) {
      LISTEN(machine, t, CHANNEL_LOCK + (RS1 & (LOCK_BITS - 1)));
      NEXT;
    }
#if LOOP_KIND == LOOP_FAST
    t->state = WAIT_LOCK, t->waits_on = RS1 & (LOCK_BITS - 1);
    goto moved;
#else
    count += op->cost;
    run->stats->lock_tries++;
    goto finished;
#endif
  }
  OP(TRYLOCK) {
    NOTICEABLE();
    IN_TURN();
    uint32_t lock = RS1 & (LOCK_BITS - 1);
    bool taken = lock_take(machine, t, lock);
    RD = taken;
    if (taken) {
      LISTEN(machine, t, CHANNEL_LOCK + lock);
      NOTE(TAKE_LOCK, lock);
    }
    NEXT;
  }
  OP(UNLOCK) {
    NOTICEABLE();
    IN_TURN();
    TELL(machine, t, CHANNEL_LOCK + (RS1 & (LOCK_BITS - 1)));
    lock_release(run, RS1);
    NOTE(FREE_LOCK, RS1 & (LOCK_BITS - 1));
    NEXT;
  }

  OP(BARRIER) {
    NOTICEABLE();
    IN_TURN();
    uint32_t address = RS1;
    if (!IN_WRAM(address, 2) || address + 4 > wram_bytes || wram[address + BARRIER_EXPECTED] == 0)
      FAULT_AT(FAULT_BARRIER, address, 0);
    NOTE(MEET, address);
    TELL(machine, t, address);
#if LOOP_KIND == LOOP_FAST
    if (!run->replay) count += barrier_alone(run);
#endif
    t->state = WAIT_BARRIER, t->waits_on = address;
    op++;
    goto finished;
  }

  OP(SEM_TAKE) {
    NOTICEABLE();
    IN_TURN();
    if (!IN_WRAM(RS1, 2)) FAULT_AT(FAULT_ADDRESS, RS1, 0);
    int32_t *semaphore = (int32_t *)(wram + RS1);
    NOTE(TAKE_SEM, RS1);
    if (*semaphore > 0) {
      LISTEN(machine, t, RS1);
      --*semaphore;
      NEXT;
    }
    t->state = WAIT_SEM, t->waits_on = RS1;
#if LOOP_KIND == LOOP_FAST
    goto moved;
#else
    goto finished;
#endif
  }
  OP(SEM_GIVE) {
    NOTICEABLE();
    IN_TURN();
    if (!IN_WRAM(RS1, 2)) FAULT_AT(FAULT_ADDRESS, RS1, 0);
    NOTE(GIVE_SEM, RS1);
    TELL(machine, t, RS1);
    ++*(int32_t *)(wram + RS1);
    if (!run->replay) wake_one(run, WAIT_SEM, RS1);
    NEXT;
  }

  OP(NOTIFY) {
    NOTICEABLE();
    IN_TURN();
    uint32_t self = (uint32_t)(t - machine->tasklets);
    NOTE(NOTIFY_ANY, self | (op->cost - 1u) << HANDSHAKE_TAIL);
    TELL(machine, t, CHANNEL_HANDSHAKE + self);
    if (wake_one(run, WAIT_FOR, self)) {
      LISTEN(machine, t, CHANNEL_HANDSHAKE + self);
      NEXT;
    }
    t->state = WAIT_NOTIFY, t->waits_on = self;
    goto moved;
  }
  OP(WAIT_FOR) {
    NOTICEABLE();
    IN_TURN();
    uint32_t other = RS1;
    if (anyone_in(machine, WAIT_FOR, other)) {
      RD = 1;
      NEXT;
    }
    RD = 0;
    NOTE(AWAIT, (other & HANDSHAKE_TASKLET) | (op->cost - 1u) << HANDSHAKE_TAIL);
    TELL(machine, t, CHANNEL_HANDSHAKE + other);
    if (wake_one(run, WAIT_NOTIFY, other)) {
      LISTEN(machine, t, CHANNEL_HANDSHAKE + other);
      NEXT;
    }
    t->state = WAIT_FOR, t->waits_on = other;
    goto moved;
  }

  OP(ILLEGAL) { FAULT_AT(FAULT_ILLEGAL, 0, IMM); }

#if LOOP_KIND != LOOP_ONE
#include "fused.h"
#endif

#if LOOP_KIND == LOOP_FAST
  /* Compiled code goes on as far as it can. What it stops at is not for it, whoever may enter there. */
  OP(TRANSLATED) {
    int64_t counted = count;
    uint32_t next = program->translated(machine, t, (uint32_t)(op - ops), &counted, limit);
    count = counted, op = ops + (next & (LIMIT_REACHED - 1));
    if (next & LIMIT_REACHED) goto finished;
    goto * program->fused[op - ops].go;
  }
#endif

moved: /* the op is done and paid for, but the tasklet waits before the next */
#if LOOP_KIND == LOOP_ONE
  count += op->cost;
#endif
  op++;
finished:
  t->issued = REAL_COUNT();
#if LOOP_KIND == LOOP_FAST
  if (t->due) t->issued += t->due - 1;
#endif
  t->pc = (uint32_t)(op - ops);
  return NULL;
}

#undef LOOP
#undef LABELS
#undef ADVANCE
#undef NOTICEABLE
#undef NOTICEABLE_ACCESS
#undef ADVANCE_LONG
#undef TAKE_JUMP
#undef JUMP_TO
#undef LONG_ENOUGH
#undef REAL_COUNT
#undef NOTE
#undef NOTE_TRANSFER
#undef IN_TURN
#undef IN_TURN_IF
#undef TRANSFER_IN_TURN
#undef OP
#undef DISPATCH
#undef NEXT
#undef RD
#undef RS1
#undef RS2
#undef IMM
#undef FAULT_AT
#undef LOAD
#undef STORE
#undef BRANCH
#undef COMPUTE
#undef TRANSFER
