/* Not adopted, kept to be measured (swiftrl_core/kernel_study.py): draws from 0 .. n - 1 by a product in place of a
 * remainder, floor(x * n / 2^32) (Lemire, arXiv 1805.10941). It is as uniform as lcg_below, to within n / 2^32, and takes
 * the generator's good upper bits. For n below 2^16 two products of 16 by 16 bits make it. It draws other transitions than
 * lcg_below does, so every backend would have to change with it. */
#include <stdint.h>

#include "lcg.h"

/* The lower 16 bits of x, by shifts that show the compiler, and the simulator, how wide they are where they are used. */
INLINE uint32_t lower_half(uint32_t x) {
  x <<= 16;
  __asm__ volatile("" : "+r"(x));
  return x >> 16;
}

INLINE uint32_t scaled_below(uint32_t *state, uint32_t n) {
  uint32_t x = lcg_next(state);
  uint32_t low = lower_half(x) * lower_half(n), high = (x >> 16) * lower_half(n);
  return (high + (low >> 16)) >> 16;
}
#define lcg_below scaled_below

#include "../learner.c"
