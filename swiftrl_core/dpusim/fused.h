/* Sequences executed as one op; part of the loop of interpreter.h. Each states the instructions it stands for. The
 * instructions inside keep their own ops, so a jump into the middle of a sequence needs no care. */

/* [mv a0, s1] [mv a1, s2] auipc ra; jalr ra: a1 is dead after a call, so only the result is written. */
#define CALL_WITH(fault_when, result, cost_of)                     \
  do {                                                             \
    uint32_t a = RS1, b = RS2;                                     \
    if (__builtin_expect(fault_when, 0)) FAULT_AT(FAULT_DIVISION_BY_ZERO, 0, 0); \
    count += (cost_of);                                            \
    x[A0] = (result);                                              \
    ADVANCE(op->length);                                           \
  } while (0)

  OP(CALL_MUL) CALL_WITH(false, a * b, cost_mul32(a, b));
  OP(CALL_DIV) CALL_WITH(b == 0, divide32(a, b), cost_div32(a, b));
  OP(CALL_UDIV) CALL_WITH(b == 0, a / b, cost_udiv32(a, b));
  OP(CALL_UMOD) CALL_WITH(b == 0, a % b, cost_udiv32(a, b) + COST_REMAINDER);

#undef CALL_WITH
