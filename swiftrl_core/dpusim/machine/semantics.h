/* What the simple instructions do, once for all that executes them: the interpreter (interpreter.h, fused.h) and
 * translated programs (translated.h).
 *
 * Each list gives a name of opcodes.h and an expression: in RS1, RS2 and IMM, 32-bit words, for instructions; in the
 * arguments `a` and `b` for calls of routines. */
#ifndef DPUSIM_SEMANTICS_H
#define DPUSIM_SEMANTICS_H

#include "routines.h"

/* clang-format off */

#define DPU_COMPUTE(DO)                              \
  DO(LUI, IMM)                                       \
  DO(ADDI, RS1 + IMM)                                \
  DO(SLTI, (int32_t)RS1 < (int32_t)IMM)              \
  DO(SLTIU, RS1 < IMM)                               \
  DO(XORI, RS1 ^ IMM)                                \
  DO(ORI, RS1 | IMM)                                 \
  DO(ANDI, RS1 & IMM)                                \
  DO(SLLI, RS1 << (IMM & 31))                        \
  DO(SRLI, RS1 >> (IMM & 31))                        \
  DO(SRAI, (uint32_t)((int32_t)RS1 >> (IMM & 31)))   \
  DO(ADD, RS1 + RS2)                                 \
  DO(SUB, RS1 - RS2)                                 \
  DO(SLL, RS1 << (RS2 & 31))                         \
  DO(SLT, (int32_t)RS1 < (int32_t)RS2)               \
  DO(SLTU, RS1 < RS2)                                \
  DO(XOR, RS1 ^ RS2)                                 \
  DO(SRL, RS1 >> (RS2 & 31))                         \
  DO(SRA, (uint32_t)((int32_t)RS1 >> (RS2 & 31)))    \
  DO(OR, RS1 | RS2)                                  \
  DO(AND, RS1 & RS2)                                 \
  DO(SH1ADD, (RS1 << 1) + RS2)                       \
  DO(SH2ADD, (RS1 << 2) + RS2)                       \
  DO(SH3ADD, (RS1 << 3) + RS2)

/* Name, type in memory, log2 of its size. */
#define DPU_LOADS(DO) DO(LB, int8_t, 0) DO(LH, int16_t, 1) DO(LW, int32_t, 2) DO(LBU, uint8_t, 0) DO(LHU, uint16_t, 1)
#define DPU_STORES(DO) DO(SB, uint8_t, 0) DO(SH, uint16_t, 1) DO(SW, uint32_t, 2)

/* The suffix of a branch B.. and of the op SELECT_.. that joins it with the move it skips; when it is taken. */
#define DPU_BRANCHES(DO)             \
  DO(EQ, RS1 == RS2)                 \
  DO(NE, RS1 != RS2)                 \
  DO(LT, (int32_t)RS1 < (int32_t)RS2) \
  DO(GE, (int32_t)RS1 >= (int32_t)RS2) \
  DO(LTU, RS1 < RS2)                 \
  DO(GEU, RS1 >= RS2)

/* Calls of routines that are one op: [mv a0, s1] [mv a1, s2] auipc ra; jalr ra. Name, result in a0, cost, stalls. The
 * second list divides by b, which must not be zero. */
#define DPU_CALLS(DO)                                                                                          \
  DO(CALL_MUL, a * b, cost_mul32(a, b), 0)                                                                     \
  DO(CALL_ADDF, f32_bits(as_f32(a) + as_f32(b)), cost_add_f32(a, b), stalls_add_f32(a, b))                     \
  DO(CALL_SUBF, f32_bits(as_f32(a) - as_f32(b)), cost_sub_f32(a, b), stalls_add_f32(a, b ^ 0x80000000u))       \
  DO(CALL_MULF, f32_bits(as_f32(a) * as_f32(b)), cost_mul_f32(a, b), stalls_mul_f32(a, b))                     \
  DO(CALL_LESSF, compare(as_f32(a), as_f32(b), 1), cost_compare_f32(a, b), 0)                                  \
  DO(CALL_GREATERF, compare(as_f32(a), as_f32(b), -1), cost_compare_f32(a, b), 0)
#define DPU_DIVISIONS(DO)                                        \
  DO(CALL_DIV, divide32(a, b), cost_div32(a, b), 0)              \
  DO(CALL_UDIV, a / b, cost_udiv32(a, b), 0)                     \
  DO(CALL_UMOD, a % b, cost_udiv32(a, b) + COST_REMAINDER, 0)

/* clang-format on */

/* An access within WRAM and aligned is one comparison: rotating the address right by log2(size) makes a misaligned
 * address huge. */
#define IN_WRAM(address, log2) (__builtin_rotateright32(address, log2) < (wram_bytes >> (log2)))

#endif
