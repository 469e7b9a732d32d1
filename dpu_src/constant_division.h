/* Division by a number that the compiler knows, without a division: shifts and additions.
 *
 * A DPU divides in software, in 26 to 36 instructions for numbers as they stand in a Q-table, and ten more where one is
 * negative. The usual way round, to multiply by the reciprocal and keep the upper half of the product (Granlund and
 * Montgomery, PLDI 1994), needs the wide multiplication that a DPU lacks as well. But decimal fractions have divisors
 * 2^a * 5^b (0.1 = 1/10, 0.95 = 19/20). The twos are a shift, and the reciprocal of five has a pattern,
 *     1/5 = 0.0011 0011 0011 ... = 3/16 * (1 + 2^-4) * (1 + 2^-8) * (1 + 2^-16) * (1 + 2^-32) * ...,
 * each factor of which is one shift-and-add, a single instruction of a DPU (Warren, Hacker's Delight, chapter 10). */
#ifndef SWIFTRL_CONSTANT_DIVISION_H
#define SWIFTRL_CONSTANT_DIVISION_H

#include <stdint.h>

#include "inline.h"

/* n / 5, rounded down, for n up to 2^30.
 *
 * t begins as 3n and should end as 16n / 5. The three factors are short of it by less than 2^-32 * 16n / 5 < 1, and each
 * shift cuts off less than 1: t is at most 3.8 too little. Adding 3 must not lift it past the next quotient, and does
 * not: where it counts most, at n = 5q + 4, there is room for 16 / 5. And it must lift it up to its own: at n = 5q, where
 * there is no room at all, t may miss 16q by 3, no more. That it never misses it by all of 3.8 is not to be seen from
 * these bounds; it has been tried for every n (tests/test_constant_division.py). */
INLINE uint32_t fifth(uint32_t n) {
  uint32_t t = n + (n << 1);
  t += t >> 4;
  t += t >> 8;
  t += t >> 16;
  return (t + 3) >> 4;
}

/* Whether a divisor is made of twos and at most four fives, as those of fixed_point.h up to 10,000 mostly are. */
INLINE int is_decimal(int32_t divisor) { return 625 % (divisor >> __builtin_ctz(divisor)) == 0; }

/* x / divisor to the nearest integer, ties away from zero, for a divisor that is_decimal, with `a` twos; |x| + divisor / 2
 * is at most 2^29 for a = 0, 2^30 for a = 1, and less than 2^31 for a from 2.
 *
 * Division of n rounds down and wants n >= 0: a multiple of the divisor lifts x there, and its quotient comes off again.
 * Half the divisor more makes it round to nearest, ties up; ties of a negative x go down, as it is one less. */
INLINE int32_t divide_round_by_constant(int32_t x, int32_t divisor) {
  const int32_t twos = __builtin_ctz(divisor);
  const uint32_t lift = (1u << (twos < 2 ? 29 + twos : 31)) / (uint32_t)divisor;
  uint32_t n = (uint32_t)x + lift * (uint32_t)divisor + (uint32_t)(divisor >> 1);
  if (twos) n += (uint32_t)(x >> 31);
  n >>= twos;
  for (int32_t fives = divisor >> twos; fives > 1; fives /= 5) n = fifth(n);
  return (int32_t)(n - lift);
}

#endif
