/* What the DPU's runtime routines cost, in DPU instructions: the return jump included, the call excluded.
 *
 * Source: the vendor's routine binaries (run-time library v1A), run 160 to 1,600 times each on the vendor's
 * functional simulator with its instruction counter. Where the table below gives a range, single calls lie in it and
 * the number before it is used. Numbers marked "estimate" were not measured. `bits(x)` is the position of the highest
 * set bit plus one, bits(0) = 0.
 *
 *   32-bit a * b           6 + max(1, bits(min(a, b) as unsigned))
 *   unsigned a / b         6 if bits(a) < bits(b), else 9 + bits(a) - bits(b)
 *   signed a / b           13, else 16 + bits(|a|) - bits(|b|); +10 if a < 0, +9 if only b < 0
 *   a % b                  the division + 6
 *   64-bit a * b           123
 *   64-bit a / b, a % b    20 if bits(a) < bits(b), else 30 + 21 1/3 per bit of the quotient
 *   64-bit shifts          10 (estimate)
 *   float32 a + b          60 equal exponents, 65 up to 3 apart, 61 up to 23, 57 beyond;
 *                          a = 0: 16 (both 17); b = 0: 20; exact cancellation 38.   a - b: +6
 *   float32 a * b          166 (165 to 168); a = 0: 28; b = 0: 32
 *   float32 a / b          983; a = 0: 33
 *   float32 compare        12 (both zero 10); unordered test 7
 *   float64 a + b          99 (91 to 109), a zero 30, cancellation 57.   a - b: +8
 *   float64 a * b          620, a zero 47.   a / b: 2,043, a = 0: 66 (estimate).   compare 25
 *   int32 -> float32       0: 3; up to 24 significant bits 16; else 24.   uint32: 3, 11, 19
 *   float32 -> int32       |x| < 1: 11; x >= 1: 27; x <= -1: 34 (31 to 37).   uint32: 7 below 1, else 15
 *   int32 -> float64       0: 3; else 26, uint32 16.   float64 -> int32 18, uint32 19
 *   float32 <-> float64    widening 18, narrowing 22
 *   64-bit int <-> float   60 (estimate)
 *   memcpy, memmove        24 + 1.25 n if addresses and n are multiples of 4, else 45 + 1.25 n
 *   memset                 20 + 0.75 n, +8 if unaligned (about)
 *
 * Beside its instructions a routine takes issue slots in which it stalls, because an instruction reads two registers of
 * one bank (the odd or the even ones) that the instruction before has written to. The same simulator counts them as
 * cycles; on hardware they cost a single tasklet 11 cycles each, as an instruction does: float32 a / b takes 11,307
 * cycles with its call, which is 11 (983 + 42 + 3), float64 a / b 23,527 = 11 (2,043 + 92 + 4) (measurements published
 * with tud-ccc/cnm-cost-model, UPMEM/LUT/output). Shortcuts are taken to have none, nor 32-bit integers, comparisons
 * and conversions.
 *
 *   64-bit a * b 6;  64-bit a / b 1 per bit of the quotient;  float32 a + b 2, a * b 6, a / b 42;
 *   float64 a + b 1 (0.6 on average), a * b 27, a / b 92
 */
#ifndef DPUSIM_COSTS_H
#define DPUSIM_COSTS_H

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t bits32(uint32_t x) { return x ? 32 - (uint32_t)__builtin_clz(x) : 0; }
static inline uint32_t bits64(uint64_t x) { return x ? 64 - (uint32_t)__builtin_clzll(x) : 0; }

/* |x|, also right for the lowest number. */
static inline uint32_t magnitude32(uint32_t x) { return (int32_t)x < 0 ? 0u - x : x; }
static inline uint64_t magnitude64(uint64_t x) { return (int64_t)x < 0 ? 0ull - x : x; }

/* Shift and add over the bits of the smaller operand. A negative number is a large unsigned one. */
static inline uint32_t cost_mul32(uint32_t a, uint32_t b) { return 6 + bits32((a < b ? a : b) | 1); }

static inline uint32_t cost_udiv32(uint32_t a, uint32_t b) {
  int32_t difference = (int32_t)bits32(a) - (int32_t)bits32(b);
  return difference < 0 ? 6 : 9 + (uint32_t)difference;
}

static inline uint32_t cost_div32(uint32_t a, uint32_t b) {
  int32_t difference = (int32_t)bits32(magnitude32(a)) - (int32_t)bits32(magnitude32(b));
  uint32_t signs = (int32_t)a < 0 ? 10 : (int32_t)b < 0 ? 9 : 0;
  return (difference < 0 ? 13 : 16 + (uint32_t)difference) + signs;
}

/* A remainder comes out of the division; six more instructions select it. */
enum { COST_REMAINDER = 6, COST_MUL64 = 123, COST_SHIFT64 = 10 };

static inline uint32_t cost_udiv64(uint64_t a, uint64_t b) {
  int32_t difference = (int32_t)bits64(a) - (int32_t)bits64(b);
  return difference < 0 ? 20 : 30 + 64 * (uint32_t)(difference + 1) / 3;
}

static inline uint32_t cost_div64(uint64_t a, uint64_t b) { return cost_udiv64(magnitude64(a), magnitude64(b)); }

/* Floats come as bit patterns, so that a signalling NaN passes through unharmed. */
static inline bool is_zero32(uint32_t x) { return x << 1 == 0; }
static inline bool is_zero64(uint64_t x) { return x << 1 == 0; }

static inline uint32_t cost_add_f32(uint32_t a, uint32_t b) {
  if (is_zero32(a)) return is_zero32(b) ? 17 : 16;
  if (is_zero32(b)) return 20;
  if (a == (b ^ 0x80000000u)) return 38;
  int32_t apart = (int32_t)(a >> 23 & 255) - (int32_t)(b >> 23 & 255);
  if (apart < 0) apart = -apart;
  return apart == 0 ? 60 : apart <= 3 ? 65 : apart <= 23 ? 61 : 57;
}

static inline uint32_t cost_sub_f32(uint32_t a, uint32_t b) { return cost_add_f32(a, b ^ 0x80000000u) + 6; }

static inline uint32_t cost_mul_f32(uint32_t a, uint32_t b) { return is_zero32(a) ? 28 : is_zero32(b) ? 32 : 166; }

static inline uint32_t cost_div_f32(uint32_t a) { return is_zero32(a) ? 33 : 983; }

static inline uint32_t cost_compare_f32(uint32_t a, uint32_t b) { return is_zero32(a) && is_zero32(b) ? 10 : 12; }

static inline uint32_t cost_add_f64(uint64_t a, uint64_t b) {
  if (is_zero64(a) || is_zero64(b)) return 30;
  return a == (b ^ 1ull << 63) ? 57 : 99;
}

static inline uint32_t cost_sub_f64(uint64_t a, uint64_t b) { return cost_add_f64(a, b ^ 1ull << 63) + 8; }

static inline uint32_t cost_mul_f64(uint64_t a, uint64_t b) { return is_zero64(a) || is_zero64(b) ? 47 : 620; }

static inline uint32_t cost_div_f64(uint64_t a) { return is_zero64(a) ? 66 : 2043; }

enum { COST_UNORDERED = 7, COST_COMPARE_F64 = 25, COST_WIDEN = 18, COST_NARROW = 22, COST_CONVERT_64 = 60 };

static inline uint32_t cost_u32_to_f32(uint32_t x) { return x == 0 ? 3 : bits32(x) <= 24 ? 11 : 19; }

static inline uint32_t cost_i32_to_f32(uint32_t x) { return x == 0 ? 3 : bits32(magnitude32(x)) <= 24 ? 16 : 24; }

static inline uint32_t cost_f32_to_i32(uint32_t x) {
  if ((x << 1) < 0x7f000000u) return 11; /* |x| < 1 */
  return (int32_t)x < 0 ? 34 : 27;
}

static inline uint32_t cost_f32_to_u32(uint32_t x) { return (x << 1) < 0x7f000000u ? 7 : 15; }

static inline uint32_t cost_i32_to_f64(uint32_t x) { return x == 0 ? 3 : 26; }
static inline uint32_t cost_u32_to_f64(uint32_t x) { return x == 0 ? 3 : 16; }

enum { COST_F64_TO_I32 = 18, COST_F64_TO_U32 = 19 };

enum { STALLS_MUL64 = 6, STALLS_DIV_F32 = 42, STALLS_MUL_F64 = 27, STALLS_DIV_F64 = 92 };

static inline uint32_t stalls_udiv64(uint64_t a, uint64_t b) {
  int32_t difference = (int32_t)bits64(a) - (int32_t)bits64(b);
  return difference < 0 ? 0 : (uint32_t)(difference + 1);
}

static inline uint32_t stalls_add_f32(uint32_t a, uint32_t b) {
  return is_zero32(a) || is_zero32(b) || a == (b ^ 0x80000000u) ? 0 : 2;
}

static inline uint32_t stalls_mul_f32(uint32_t a, uint32_t b) { return is_zero32(a) || is_zero32(b) ? 0 : 6; }

static inline uint32_t stalls_add_f64(uint64_t a, uint64_t b) {
  return is_zero64(a) || is_zero64(b) || a == (b ^ 1ull << 63) ? 0 : 1;
}

static inline uint32_t cost_copy(uint32_t to, uint32_t from, uint32_t size) {
  return ((to | from | size) & 3 ? 45 : 24) + size + size / 4;
}

static inline uint32_t cost_fill(uint32_t to, uint32_t size) {
  return 20 + size / 2 + size / 4 + ((to | size) & 3 ? 8 : 0);
}

#endif
