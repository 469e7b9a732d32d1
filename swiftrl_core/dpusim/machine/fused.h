/* Sequences executed as one op; part of the loop of interpreter.h. The instructions inside keep their own ops, so a
 * jump into the middle of a sequence needs no care. */

/* a1 is dead after a call, so only the result is written. */
#define CALL_WITH(name, result, cost, stall) \
  OP(name) {                                 \
    uint32_t a = RS1, b = RS2;               \
    uint32_t stalls = (stall);               \
    count += (cost) + stalls;                \
    t->stalls += stalls;                     \
    x[A0] = (result);                        \
    ADVANCE(op->length);                     \
  }
/* By zero, the moves are made, and the call of the routine itself faults. */
#define DIVIDE_WITH(name, result, cost, stall)                \
  OP(name) {                                                  \
    uint32_t a = RS1, b = RS2;                                \
    if (__builtin_expect(b == 0, 0)) {                        \
      int32_t moves = op->length - 2;                         \
      if (moves == 0) FAULT_AT(FAULT_DIVISION_BY_ZERO, 0, 0); \
      x[A0] = a, x[A1] = b;                                   \
      ADVANCE(moves);                                         \
    }                                                         \
    count += (cost) + (stall);                                \
    x[A0] = (result);                                         \
    ADVANCE(op->length);                                      \
  }
/* A branch over one `addi`: branchless, because which way a select goes is what the host cannot foresee. */
#define SELECT(suffix, condition)                     \
  OP(SELECT_##suffix) {                               \
    bool skip = (condition);                          \
    uint32_t chosen = x[op->rs3] + (uint32_t)op->imm; \
    uint32_t kept = RD;                               \
    RD = skip ? kept : chosen;                        \
    count += skip ? op->jump_cost : 0;                \
    ADVANCE(2);                                       \
  }

DPU_CALLS(CALL_WITH)
DPU_DIVISIONS(DIVIDE_WITH)
DPU_BRANCHES(SELECT)

#undef CALL_WITH
#undef DIVIDE_WITH
#undef SELECT
