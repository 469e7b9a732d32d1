/* Not adopted, kept to be measured (swiftrl_core/kernel_study.py): the whole update in one shift, in units of 2^-13.
 *
 *     Q += (A * (R - Q) + B * max Q(s', .) + 2^12) >> 13,    A = 20 n, B = 19 n: B / A is gamma = 0.95, exactly
 *
 * n = 41 makes alpha 820 / 8192, 0.1001. Each update rounds once, and what is less than half a unit is lost: a target less
 * than 5 units away moves nothing, where INT32_POW2 (fixed_point.h) always takes a step. Products are taken modulo 2^32,
 * their sum is small. */
#include <stdint.h>

#include "layout.h"
#include "learn.h"

#if NUMBER_FORMAT != NUMBER_FORMAT_INT32_POW2 || !KEPT_MAXIMA
#error "fused_update.c is for a chunk in units of 2^-13, NUMBER_FORMAT_INT32_POW2, and for KEPT_MAXIMA"
#endif

#define N 41
#define LEARNED(t, old, best, args) fused(t, old, best)

INLINE value_t fused(struct transition t, value_t old, value_t best) {
  uint32_t sum = 20 * N * (uint32_t)(t.reward - old);
  if (!(t.step >> 31)) sum += 19 * N * (uint32_t)best;
  return old + ((int32_t)(sum + (1 << 12)) >> 13);
}

#include "../learner.c"
