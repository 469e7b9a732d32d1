/* Fixed point: a value v is kept as the integer nearest to v * S, and the update stays in 32-bit integers.
 *
 * A DPU has no floating point unit (a software multiply takes 166 instructions) and no wide multiply (64 bits take
 * 123), so products must fit 32 bits. Two rules do that; both round to nearest.
 *
 * INT32, S = 10,000, the paper's scale. alpha = p / q and gamma = g / h as fractions in lowest terms with
 * denominators up to S (0.1 = 1/10, 0.95 = 19/20), which keeps products small:
 *     target = R + round(g * B / h)          step = round(p * (target - Q) / q)
 * Ties go away from zero. Multiplying by alpha * S = 1000 and dividing by S gives the same number, but overflows once
 * |target - Q| passes 214, and gamma * S = 9500 once |B| passes 22.6: on Taxi both happen.
 *
 * INT32_POW2, S = 2^13: division becomes a shift. gamma enters by its complement, whose product is 20 times smaller:
 *     target = R + B - round(C * B / 2^k),  C = round((1 - gamma) * 2^k)      step = round(A * (target - Q) / 2^m)
 * with the largest k, m up to 13 whose products fit. Ties go up. The price: alpha and gamma are themselves rounded.
 *
 * No dead zone. Rounding to nearest would turn every |target - Q| below q / 2p units into a step of nothing: at
 * alpha = 0.01, 50 units, and values that grow from zero would stop short of each target on their way, by an error
 * that adds up from state to state. So a step that rounds to nothing becomes one unit towards the target: a value
 * rests only on its target, as in exact arithmetic. A step never passes its target, since alpha is at most 1.
 *
 * Range (proved when a learner is made: swiftrl_core/fixed_point.py). With rewards R in [R0, R1], R0 <= 0 <= R1, and a
 * table that starts at zero, every entry stays in [(R0 - 1/2) / (1 - gamma), (R1 + 1/2) / (1 - gamma)], because a target
 * does and a step moves Q towards a target without passing it. That bounds both products.
 *
 * Error. Let E be the largest |INT32 - exact| over the table, in units of 1/S, for Q-learning on the same transitions
 * in the same order. A reward is off by at most 1/2, rounding gamma * B by 1/2, a step by less than 1; if alpha and
 * gamma were rounded by da and dg, add dg * V to the target and da * W to the step, V and W being the largest entry
 * and the width of the range above. The maximum is no farther off than the table, so an update gives
 *     e <= (1 - alpha) E + alpha (gamma E + 1 + dg V) + (1 + da W),
 * which never grows beyond E = (1 + dg V + (1 + da W) / alpha) / (1 - gamma): 220 units or 0.022 at alpha 0.1 and gamma
 * 0.95. Each averaging adds at most 1/2 unit more. This is the worst case; the error seen is a hundredth of it.
 *
 * Beyond the paper (learn.h). A decaying alpha in INT32 is h / (h + (h - g) n), whose p is h and whose largest q is that
 * of n = 65,535. The variance-reduced update multiplies differences to the round's table Qbar: with D = max |Tbar - Qbar|,
 * which the host knows before the round, no entry gets farther from Qbar than E = (D + 1/2) / (1 - gamma), because
 * |target - Qbar| <= D + gamma E + 1/2 = E and a step does not pass its target. So the products are bounded by g E and
 * 2 p E (INT32_POW2: C E, 2 A E), and the host starts no round whose D lets one pass 32 bits. It rests only where every
 * entry equals its Tbar, rounded once: at most (1/2 + 1/2) / (1 - gamma) = 20 units, 0.002, from the exact fixed point,
 * whatever alpha is, and whatever gamma was rounded to. */
#ifndef SWIFTRL_FIXED_POINT_H
#define SWIFTRL_FIXED_POINT_H

#include <stdint.h>

#include "inline.h"
#include "tuning.h"

#if CONSTANT_DIVISION
#include "constant_division.h"
#endif

/* x / divisor to the nearest integer, ties away from zero; |x| + divisor / 2 fits 32 bits. */
INLINE int32_t divide_round(int32_t x, int32_t divisor) {
#if CONSTANT_DIVISION
  if (__builtin_constant_p(divisor) && is_decimal(divisor)) return divide_round_by_constant(x, divisor);
#endif
  int32_t half = divisor >> 1;
  return (x < 0 ? x - half : x + half) / divisor;
}

/* p * x / q, rounded alike; the product fits as well. */
INLINE int32_t multiply_divide(int32_t x, int32_t p, int32_t q) { return divide_round(p * x, q); }

/* x / 2^bits to the nearest integer, ties up; bits at least 1. */
INLINE int32_t shift_round(int32_t x, int32_t bits) { return (x + (1 << (bits - 1))) >> bits; }

/* The step itself, or one unit towards the target where rounding left none. */
INLINE int32_t never_stall(int32_t step, int32_t difference) {
  if (step == 0) return (difference > 0) - (difference < 0);
  return step;
}

/* INT32's step: p / q of the difference to a target. */
INLINE int32_t part_towards(int32_t difference, int32_t p, int32_t q) {
  return never_stall(multiply_divide(difference, p, q), difference);
}

#endif
