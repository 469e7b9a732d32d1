/* The DPU's runtime routines: the result on this machine, the cost on a DPU.
 *
 * Results are those of the vendor's routines, bit for bit: integers wrap; float additions, subtractions,
 * multiplications and conversions are IEEE with round-to-nearest-even, subnormals included; a division flushes a
 * subnormal result to a signed zero (compared over thousands of operands). This file must be compiled without
 * contraction and without fast-math. Arguments and results are registers: a0 to a3 are x[10] to x[13], 64-bit values
 * in pairs. */
#ifndef DPUSIM_ROUTINES_H
#define DPUSIM_ROUTINES_H

#include <math.h>
#include <string.h>

#include "costs.h"

/* Returned instead of a cost. */
#define DIVIDED_BY_ZERO UINT32_MAX

enum { A0 = 10, A1 = 11, A2 = 12, A3 = 13 };

static inline float as_f32(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t f32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double as_f64(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t f64_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline uint64_t pair(const uint32_t *x, int low) { return x[low] | (uint64_t)x[low + 1] << 32; }

static inline uint32_t give64(uint32_t *x, uint64_t value, uint32_t cost) {
  x[A0] = (uint32_t)value, x[A1] = (uint32_t)(value >> 32);
  return cost;
}

static inline uint32_t give32(uint32_t *x, uint32_t value, uint32_t cost) {
  x[A0] = value;
  return cost;
}

/* C leaves INT_MIN / -1 undefined; two's complement wraps. */
static inline uint32_t divide32(uint32_t a, uint32_t b) {
  return b == UINT32_MAX ? 0u - a : (uint32_t)((int32_t)a / (int32_t)b);
}

static inline uint64_t divide64(uint64_t a, uint64_t b) {
  return b == UINT64_MAX ? 0ull - a : (uint64_t)((int64_t)a / (int64_t)b);
}

static inline uint32_t divide_f32(uint32_t a, uint32_t b) {
  uint32_t quotient = f32_bits(as_f32(a) / as_f32(b));
  return (quotient & 0x7f800000u) == 0 ? quotient & 0x80000000u : quotient;
}

static inline uint64_t divide_f64(uint64_t a, uint64_t b) {
  uint64_t quotient = f64_bits(as_f64(a) / as_f64(b));
  return (quotient & 0x7ff0000000000000ull) == 0 ? quotient & 1ull << 63 : quotient;
}

/* Truncation. Beyond 2^32, infinities and NaN saturate (NaN to the highest); between, the low 32 bits remain. */
static inline uint32_t f64_to_i32(double x) {
  if (x != x || x >= 4294967296.0) return INT32_MAX;
  if (x <= -4294967296.0) return (uint32_t)INT32_MIN;
  return (uint32_t)(int64_t)x;
}

static inline uint32_t f64_to_u32(double x) {
  if (x < 0) return 0;
  return x < 4294967296.0 ? (uint32_t)x : UINT32_MAX;
}

static inline uint64_t f64_to_i64(double x) {
  if (x != x || x >= 9223372036854775808.0) return INT64_MAX;
  return x < -9223372036854775808.0 ? (uint64_t)INT64_MIN : (uint64_t)(int64_t)x;
}

static inline uint64_t f64_to_u64(double x) {
  if (x < 0) return 0;
  return x < 18446744073709551616.0 ? (uint64_t)x : UINT64_MAX;
}

/* Three-way comparison as the compiler's runtime defines it: `unordered` is the answer when one is a NaN. */
static inline uint32_t compare(double a, double b, int32_t unordered) {
  return (uint32_t)(a < b ? -1 : a > b ? 1 : a == b ? 0 : unordered);
}

/* ---- one function a routine; the table at the end is indexed by the number in opcodes.h ---- */

typedef uint32_t routine_function(uint32_t *x);
#define ROUTINE_OF(name) static uint32_t routine_##name(uint32_t *x)

ROUTINE_OF(mulsi3) { return give32(x, x[A0] * x[A1], cost_mul32(x[A0], x[A1])); }

ROUTINE_OF(divsi3) {
  if (x[A1] == 0) return DIVIDED_BY_ZERO;
  return give32(x, divide32(x[A0], x[A1]), cost_div32(x[A0], x[A1]));
}

ROUTINE_OF(udivsi3) {
  if (x[A1] == 0) return DIVIDED_BY_ZERO;
  return give32(x, x[A0] / x[A1], cost_udiv32(x[A0], x[A1]));
}

ROUTINE_OF(modsi3) {
  if (x[A1] == 0) return DIVIDED_BY_ZERO;
  uint32_t cost = cost_div32(x[A0], x[A1]) + COST_REMAINDER;
  return give32(x, x[A0] - divide32(x[A0], x[A1]) * x[A1], cost);
}

ROUTINE_OF(umodsi3) {
  if (x[A1] == 0) return DIVIDED_BY_ZERO;
  return give32(x, x[A0] % x[A1], cost_udiv32(x[A0], x[A1]) + COST_REMAINDER);
}

ROUTINE_OF(muldi3) { return give64(x, pair(x, A0) * pair(x, A2), COST_MUL64); }

ROUTINE_OF(divdi3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return b == 0 ? DIVIDED_BY_ZERO : give64(x, divide64(a, b), cost_div64(a, b));
}

ROUTINE_OF(udivdi3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return b == 0 ? DIVIDED_BY_ZERO : give64(x, a / b, cost_udiv64(a, b));
}

ROUTINE_OF(moddi3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return b == 0 ? DIVIDED_BY_ZERO : give64(x, a - divide64(a, b) * b, cost_div64(a, b));
}

ROUTINE_OF(umoddi3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return b == 0 ? DIVIDED_BY_ZERO : give64(x, a % b, cost_udiv64(a, b));
}

ROUTINE_OF(ashldi3) { return give64(x, pair(x, A0) << (x[A2] & 63), COST_SHIFT64); }
ROUTINE_OF(lshrdi3) { return give64(x, pair(x, A0) >> (x[A2] & 63), COST_SHIFT64); }
ROUTINE_OF(ashrdi3) { return give64(x, (uint64_t)((int64_t)pair(x, A0) >> (x[A2] & 63)), COST_SHIFT64); }

ROUTINE_OF(addsf3) { return give32(x, f32_bits(as_f32(x[A0]) + as_f32(x[A1])), cost_add_f32(x[A0], x[A1])); }

ROUTINE_OF(subsf3) { return give32(x, f32_bits(as_f32(x[A0]) - as_f32(x[A1])), cost_sub_f32(x[A0], x[A1])); }

ROUTINE_OF(mulsf3) { return give32(x, f32_bits(as_f32(x[A0]) * as_f32(x[A1])), cost_mul_f32(x[A0], x[A1])); }

ROUTINE_OF(divsf3) { return give32(x, divide_f32(x[A0], x[A1]), cost_div_f32(x[A0])); }

ROUTINE_OF(adddf3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return give64(x, f64_bits(as_f64(a) + as_f64(b)), cost_add_f64(a, b));
}

ROUTINE_OF(subdf3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return give64(x, f64_bits(as_f64(a) - as_f64(b)), cost_sub_f64(a, b));
}

ROUTINE_OF(muldf3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return give64(x, f64_bits(as_f64(a) * as_f64(b)), cost_mul_f64(a, b));
}

ROUTINE_OF(divdf3) {
  uint64_t a = pair(x, A0), b = pair(x, A2);
  return give64(x, divide_f64(a, b), cost_div_f64(a));
}

static inline uint32_t compare_f32(uint32_t *x, int32_t unordered) {
  uint32_t cost = cost_compare_f32(x[A0], x[A1]);
  return give32(x, compare(as_f32(x[A0]), as_f32(x[A1]), unordered), cost);
}

static inline uint32_t compare_f64(uint32_t *x, int32_t unordered) {
  return give32(x, compare(as_f64(pair(x, A0)), as_f64(pair(x, A2)), unordered), COST_COMPARE_F64);
}

ROUTINE_OF(eqsf2) { return compare_f32(x, 1); }
ROUTINE_OF(nesf2) { return compare_f32(x, 1); }
ROUTINE_OF(ltsf2) { return compare_f32(x, 1); }
ROUTINE_OF(lesf2) { return compare_f32(x, 1); }
ROUTINE_OF(gtsf2) { return compare_f32(x, -1); }
ROUTINE_OF(gesf2) { return compare_f32(x, -1); }
ROUTINE_OF(unordsf2) { return give32(x, isnan(as_f32(x[A0])) || isnan(as_f32(x[A1])), COST_UNORDERED); }
ROUTINE_OF(eqdf2) { return compare_f64(x, 1); }
ROUTINE_OF(nedf2) { return compare_f64(x, 1); }
ROUTINE_OF(ltdf2) { return compare_f64(x, 1); }
ROUTINE_OF(ledf2) { return compare_f64(x, 1); }
ROUTINE_OF(gtdf2) { return compare_f64(x, -1); }
ROUTINE_OF(gedf2) { return compare_f64(x, -1); }
ROUTINE_OF(unorddf2) { return give32(x, isnan(as_f64(pair(x, A0))) || isnan(as_f64(pair(x, A2))), COST_UNORDERED); }

ROUTINE_OF(floatsisf) { return give32(x, f32_bits((float)(int32_t)x[A0]), cost_i32_to_f32(x[A0])); }
ROUTINE_OF(floatunsisf) { return give32(x, f32_bits((float)x[A0]), cost_u32_to_f32(x[A0])); }
ROUTINE_OF(floatdisf) { return give32(x, f32_bits((float)(int64_t)pair(x, A0)), COST_CONVERT_64); }
ROUTINE_OF(floatundisf) { return give32(x, f32_bits((float)pair(x, A0)), COST_CONVERT_64); }
ROUTINE_OF(floatsidf) { return give64(x, f64_bits((int32_t)x[A0]), cost_i32_to_f64(x[A0])); }
ROUTINE_OF(floatunsidf) { return give64(x, f64_bits(x[A0]), cost_u32_to_f64(x[A0])); }
ROUTINE_OF(floatdidf) { return give64(x, f64_bits((double)(int64_t)pair(x, A0)), COST_CONVERT_64); }
ROUTINE_OF(floatundidf) { return give64(x, f64_bits((double)pair(x, A0)), COST_CONVERT_64); }
ROUTINE_OF(fixsfsi) { return give32(x, f64_to_i32(as_f32(x[A0])), cost_f32_to_i32(x[A0])); }
ROUTINE_OF(fixunssfsi) { return give32(x, f64_to_u32(as_f32(x[A0])), cost_f32_to_u32(x[A0])); }
ROUTINE_OF(fixsfdi) { return give64(x, f64_to_i64(as_f32(x[A0])), COST_CONVERT_64); }
ROUTINE_OF(fixunssfdi) { return give64(x, f64_to_u64(as_f32(x[A0])), COST_CONVERT_64); }
ROUTINE_OF(fixdfsi) { return give32(x, f64_to_i32(as_f64(pair(x, A0))), COST_F64_TO_I32); }
ROUTINE_OF(fixunsdfsi) { return give32(x, f64_to_u32(as_f64(pair(x, A0))), COST_F64_TO_U32); }
ROUTINE_OF(fixdfdi) { return give64(x, f64_to_i64(as_f64(pair(x, A0))), COST_CONVERT_64); }
ROUTINE_OF(fixunsdfdi) { return give64(x, f64_to_u64(as_f64(pair(x, A0))), COST_CONVERT_64); }
ROUTINE_OF(extendsfdf2) { return give64(x, f64_bits(as_f32(x[A0])), COST_WIDEN); }
ROUTINE_OF(truncdfsf2) { return give32(x, f32_bits((float)as_f64(pair(x, A0))), COST_NARROW); }

#endif
