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

INLINE uint32_t lcg_next(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state;
}

/* A draw from 0 .. n - 1, n at least 1. */
INLINE uint32_t lcg_below(uint32_t *state, uint32_t n) {
  uint32_t x = lcg_next(state);
  return (x ^ (x >> 16)) % n;
}

/* True with probability threshold / 2^31, threshold from 0 (never) to 2^31 (always). */
INLINE int lcg_chance(uint32_t *state, uint32_t threshold) { return (lcg_next(state) >> 1) < threshold; }

#endif
