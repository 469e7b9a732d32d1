/* The operations of fixed_point.h on vectors; the same numbers in every lane. */
#ifndef SWIFTRL_LANES_FIXED_POINT_H
#define SWIFTRL_LANES_FIXED_POINT_H

#include "lanes.h"

/* p / q as a multiplier and a shift, since no vector unit divides integers.
 *
 * With k the least number that has 2^k >= 2^31 * q / p, let m = p * 2^k / q, rounded up if q is even and to the nearest
 * if it is odd. Then round(p * y / q) = (y * m + 2^(k-1)) >> k for every y >= 0 that fixed_point.h admits: p * y < 2^31.
 *
 * Proof. Exactly, round(p * y / q) is the integer part of X = (2 * p * y + q) / 2q. With m = p * 2^k / q + e the formula
 * is the integer part of X + y * e / 2^k.
 *   q even: X is a multiple of 1 / q and 0 <= e < 1. From y < 2^31 / p <= 2^k / q follows 0 <= y * e / 2^k < 1 / q,
 *   too little to reach the next multiple of 1 / q, so no integer is passed.
 *   q odd: X is an odd multiple of 1 / 2q, thus at least 1 / 2q away from any integer, unless q = 1, where e = 0. Now
 *   |e| <= 1 / 2, so |y * e| / 2^k < 1 / 2q.
 * Size: 2^(k-1) < 2^31 * q / p, so m < 2^32 + 1; m is not 2^32, because p * 2^k and q * 2^32 are multiples of 2^31 and
 * q < 2^31. With p <= q <= 10,000, k is from 31 to 45 and y * m + 2^(k-1) fits 64 bits. */
INLINE void as_multiplier(int32_t *p, int32_t *q) {
  uint64_t numerator = (uint64_t)*p, denominator = (uint64_t)*q;
  int shift = 31;
  while (numerator && (numerator << shift) < (denominator << 31)) shift++;
  uint64_t product = numerator << shift;
  uint64_t up = denominator % 2 ? denominator / 2 : denominator - 1;
  *p = (int32_t)(uint32_t)((product + up) / denominator);
  *q = shift;
}

/* p * x / q to the nearest integer, ties away from zero, of a p and a q that as_multiplier has been at. Products of 64
 * bits take two lanes: those of the even lanes are made and shifted first, then those of the odd ones. */
INLINE mask_t multiply_divide(mask_t x, int32_t multiplier, int32_t shift) {
  typedef uint64_t pairs_t __attribute__((vector_size(4 * LANES)));
  uint64_t m = (uint32_t)multiplier, half = 1ull << (shift - 1);
  mask_t negative = x < 0;
  pairs_t magnitude = (pairs_t)((x ^ negative) - negative);
  pairs_t even = ((magnitude & 0xffffffff) * m + half) >> shift;
  pairs_t odd = ((magnitude >> 32) * m + half) >> shift;
  return ((mask_t)(even | odd << 32) ^ negative) - negative;
}

INLINE mask_t shift_round(mask_t x, int32_t bits) { return (x + (1 << (bits - 1))) >> bits; }

/* A sign, shifted down, is 0 or -1; its lowest bit set, 1 or -1. */
INLINE mask_t never_stall(mask_t step, mask_t difference) {
  mask_t one_towards = difference >> 31 | 1;
  return step | (one_towards & (step == 0) & (difference != 0));
}

#endif
