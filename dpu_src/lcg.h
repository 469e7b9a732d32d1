/* Random numbers without a library: a DPU has no rand().
 *
 * A linear congruential generator modulo 2^32 (multiplier and increment from Numerical Recipes; the paper's authors
 * use the same): one multiply and one add a draw, full period 2^32. Its low bits are poor: bit k repeats after
 * 2^(k+1) draws, so `x % 500` would walk through the residues modulo 4 in a fixed cycle. Folding the upper half onto
 * the lower cures that and loses nothing, since x -> x ^ (x >> 16) is one to one.
 *
 * lcg_below(n) is uniform to within n / 2^32: at worst 0.2 % for a chunk that fills the MRAM. */
#ifndef SWIFTRL_LCG_H
#define SWIFTRL_LCG_H

#include <stdint.h>

#include "inline.h"
#include "tuning.h"

/* One generator's word; the CPU engine makes it a vector, a generator in each lane, and a truth a mask. */
#ifndef LCG_WORD
#define LCG_WORD uint32_t
#define LCG_TRUTH int
#endif

/* x * 1664525 modulo 2^32, which is 25 * 139 * 479: seven shift-and-adds, instructions of a DPU, where its routine takes
 * 33 instructions. The empty assembly keeps the compiler from seeing through it. */
#if FACTORED_LCG
INLINE uint32_t lcg_multiplied(uint32_t x) {
  x += x << 2;
  x += x << 2; /* times 25 */
  __asm__("" : "+r"(x));
  uint32_t y = x + (x << 2);
  y = (y << 3) - y;
  x = (y << 2) - x; /* times 5 * 7 * 4 - 1 = 139 */
  __asm__("" : "+r"(x));
  y = (x << 4) - x;
  return (y << 5) - x; /* times 15 * 32 - 1 = 479 */
}
#else
INLINE LCG_WORD lcg_multiplied(LCG_WORD x) { return x * 1664525u; }
#endif

INLINE LCG_WORD lcg_next(LCG_WORD *state) {
  *state = lcg_multiplied(*state) + 1013904223u;
  return *state;
}

/* The next number with its upper half folded onto the lower. */
INLINE LCG_WORD lcg_folded(LCG_WORD *state) {
  LCG_WORD x = lcg_next(state);
  return x ^ (x >> 16);
}

/* A draw from 0 .. n - 1, n at least 1. */
INLINE LCG_WORD lcg_below(LCG_WORD *state, uint32_t n) { return lcg_folded(state) % n; }

/* True with probability threshold / 2^31, threshold from 0 (never) to 2^31 (always). */
INLINE LCG_TRUTH lcg_chance(LCG_WORD *state, uint32_t threshold) { return (lcg_next(state) >> 1) < threshold; }

#endif
