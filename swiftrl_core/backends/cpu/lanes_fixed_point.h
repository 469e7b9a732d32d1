/* The operations of fixed_point.h on vectors, with the same results in every lane. */
#ifndef SWIFTRL_LANES_FIXED_POINT_H
#define SWIFTRL_LANES_FIXED_POINT_H

#include "lanes.h"

/* p / q as a multiplier and a shift, since vector units do not divide integers.
 *
 * With k the smallest number such that 2^k >= 2^31 * q / p, let m = p * 2^k / q, rounded up if q is even and to nearest
 * if it is odd. Then round(p * y / q) = (y * m + 2^(k-1)) >> k for every y >= 0 that fixed_point.h admits:
 * p * y + q / 2 < 2^31.
 *
 * Proof. The left side is the integer part of X = (2 * p * y + q) / 2q. With m = p * 2^k / q + e, the right side is the
 * integer part of X + y * e / 2^k.
 *   q even: X is a multiple of 1 / q and 0 <= e < 1. From y < 2^31 / p <= 2^k / q follows 0 <= y * e / 2^k < 1 / q,
 *   which does not reach the next multiple of 1 / q, so it passes no integer.
 *   q odd: X is an odd multiple of 1 / 2q, so it is at least 1 / 2q away from any integer, unless q = 1, where e = 0.
 *   Since |e| <= 1 / 2, |y * e| / 2^k < 1 / 2q.
 * Size. 2^(k-1) < 2^31 * q / p, so m < 2^32 + 1. And m is not 2^32, because p * 2^k and q * 2^32 are multiples of 2^31
 * and q < 2^31. With p <= q <= 10,000, k is from 31 to 45. */
INLINE void as_multiplier(int32_t *p, int32_t *q) {
  uint64_t numerator = (uint64_t)*p, denominator = (uint64_t)*q;
  int shift = 31;
  while (numerator && (numerator << shift) < (denominator << 31)) shift++;
  uint64_t product = numerator << shift;
  uint64_t up = denominator % 2 ? denominator / 2 : denominator - 1;
  *p = (int32_t)(uint32_t)((product + up) / denominator);
  *q = shift;
}

/* A multiplier for the even lanes and one for the odd lanes, each in 64 bits, and k - 31. */
struct fraction {
  pairs_t even, odd;
  words_t shift;
};

/* The same fraction in every lane. */
INLINE struct fraction fraction(int32_t multiplier, int32_t shift) {
  pairs_t m = (pairs_t){0} + (uint32_t)multiplier;
  return (struct fraction){m, m, (words_t){0} + (uint32_t)(shift - 31)};
}

/* A fraction for each lane. */
INLINE struct fraction fractions(mask_t multiplier, mask_t shift) {
  pairs_t m = (pairs_t)multiplier;
  return (struct fraction){m & 0xffffffff, m >> 32, (words_t)shift - 31};
}

INLINE words_t magnitude(mask_t x) {
  mask_t negative = x < 0;
  return (words_t)((x ^ negative) - negative);
}

/* size with the sign of x; 0 where x is 0. */
INLINE mask_t with_sign_of(mask_t x, words_t size) {
#if LANES == 8
  return (mask_t)_mm256_sign_epi32((__m256i)size, (__m256i)x);
#else
  mask_t negative = x < 0;
  return ((mask_t)size ^ negative) - negative;
#endif
}

/* round(p * y / q).
 *
 * A product of 64 bits takes two lanes, so even and odd lanes are multiplied separately. With 2y in place of y the
 * result lies in the upper halves, and the rest is done on all lanes at once: (2y * m + 2^k) >> (k + 1) is the same
 * number, and 2^k adds nothing to a lower half if k is 32 or more. (If k is 31, then p = q and m = 2^31: the lower half
 * is zero, and half a unit added to it would be lost in the shift.) Everything fits: 2y and m are below 2^32 and,
 * because 2^k < 2^32 * q / p, so is the sum of the upper halves for the y above. */
INLINE words_t scaled(words_t y, struct fraction of) {
  pairs_t even = ((pairs_t)(y + y) & 0xffffffff) * of.even, odd = ((pairs_t)y >> 31 & 0xffffffff) * of.odd;
  words_t upper = (words_t)(even >> 32 | (odd & ~0xffffffffull)), half = 1u << of.shift >> 1;
  return (upper + half) >> of.shift;
}

/* p * x / q to the nearest integer, ties away from zero. */
INLINE mask_t multiply_divide_by(mask_t x, struct fraction of) { return with_sign_of(x, scaled(magnitude(x), of)); }

/* The same, but at least one unit where x is not zero. (The smaller of y and 1 is one instruction, but the compiler
 * makes three of it if it knows the 1.) */
INLINE mask_t part_towards_by(mask_t x, struct fraction of) {
  words_t y = magnitude(x), part = scaled(y, of), one = unknown((words_t){0} + 1);
  words_t least = choose_words((mask_t)(y < one), y, one);
  return with_sign_of(x, choose_words((mask_t)(part > least), part, least));
}

/* The names that td_rule.h uses, for a p and a q that as_multiplier has converted. */
#ifndef FRACTION
#define FRACTION fraction
#endif
#define multiply_divide(x, p, q) multiply_divide_by(x, FRACTION(p, q))
#define part_towards(x, p, q) part_towards_by(x, FRACTION(p, q))

INLINE mask_t shift_round(mask_t x, int32_t bits) { return (x + (1 << (bits - 1))) >> bits; }

/* A sign shifted down is 0 or -1; with its lowest bit set it is 1 or -1. */
INLINE mask_t never_stall(mask_t step, mask_t difference) {
  mask_t one_towards = difference >> 31 | 1;
  return step | (one_towards & (step == 0) & (difference != 0));
}

#endif
