/* Sequences executed as one op; part of the loop of interpreter.h. Each states the instructions it stands for. The
 * instructions inside keep their own ops, so a jump into the middle of a sequence needs no care. */

/* [mv a0, s1] [mv a1, s2] auipc ra; jalr ra: a1 is dead after a call, so only the result is written. */
#define CALL_WITH(name, result, cost, stall) \
  OP(name) {                                 \
    uint32_t a = RS1, b = RS2;               \
    uint32_t stalls = (stall);               \
    count += (cost) + stalls;                \
    t->stalls += stalls;                     \
    x[A0] = (result);                        \
    ADVANCE(op->length);                     \
  }
#define DIVIDE_WITH(name, result, cost)                                      \
  OP(name) {                                                                 \
    uint32_t a = RS1, b = RS2;                                               \
    if (__builtin_expect(b == 0, 0)) FAULT_AT(FAULT_DIVISION_BY_ZERO, 0, 0); \
    count += (cost);                                                         \
    x[A0] = (result);                                                        \
    ADVANCE(op->length);                                                     \
  }

/* clang-format off */
CALL_WITH(CALL_MUL, a * b, cost_mul32(a, b), 0)
DIVIDE_WITH(CALL_DIV, divide32(a, b), cost_div32(a, b))
DIVIDE_WITH(CALL_UDIV, a / b, cost_udiv32(a, b))
DIVIDE_WITH(CALL_UMOD, a % b, cost_udiv32(a, b) + COST_REMAINDER)
CALL_WITH(CALL_ADDF, f32_bits(as_f32(a) + as_f32(b)), cost_add_f32(a, b), stalls_add_f32(a, b))
CALL_WITH(CALL_SUBF, f32_bits(as_f32(a) - as_f32(b)), cost_sub_f32(a, b), stalls_add_f32(a, b ^ 0x80000000u))
CALL_WITH(CALL_MULF, f32_bits(as_f32(a) * as_f32(b)), cost_mul_f32(a, b), stalls_mul_f32(a, b))
CALL_WITH(CALL_LESSF, compare(as_f32(a), as_f32(b), 1), cost_compare_f32(a, b), 0)
CALL_WITH(CALL_GREATERF, compare(as_f32(a), as_f32(b), -1), cost_compare_f32(a, b), 0)
/* clang-format on */

#undef CALL_WITH
#undef DIVIDE_WITH

/* A branch over one `addi`: branchless, because which way a select goes is what the host cannot foresee. */
#define SELECT(name, condition)                       \
  OP(name) {                                          \
    bool skip = (condition);                          \
    uint32_t chosen = x[op->rs3] + (uint32_t)op->imm; \
    uint32_t kept = RD;                               \
    RD = skip ? kept : chosen;                        \
    count += skip ? op->jump_cost : 0;                \
    ADVANCE(2);                                       \
  }

/* clang-format off */
SELECT(SELECT_EQ, RS1 == RS2)
SELECT(SELECT_NE, RS1 != RS2)
SELECT(SELECT_LT, (int32_t)RS1 < (int32_t)RS2)
SELECT(SELECT_GE, (int32_t)RS1 >= (int32_t)RS2)
SELECT(SELECT_LTU, RS1 < RS2)
SELECT(SELECT_GEU, RS1 >= RS2)
/* clang-format on */

#undef SELECT
