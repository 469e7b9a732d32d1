/* Not adopted, kept to be measured (swiftrl_core/kernel_study.py): the whole update in one shift, in units of 2^-13.
 *
 *     Q += (A * (R - Q) + B * max Q(s', .) + 2^12) >> 13,    A = 20 n, B = 19 n: B / A is gamma = 0.95, exactly
 *
 * n = 41 makes alpha 820 / 8192, 0.1001. Each update rounds once, and a sum below half a unit is lost: |target - Q| under
 * 5 units moves nothing, where INT32_POW2 (fixed_point.h) always takes a step. Products are taken modulo 2^32, their sum
 * is small. */
#include <stdint.h>

#include "layout.h"
#include "td_update.h"

#if NUMBER_FORMAT != NUMBER_FORMAT_INT32_POW2 || ALGORITHM != ALGORITHM_Q_LEARNING
#error "fused_update.c is for Q-learning with a chunk in units of 2^-13: NUMBER_FORMAT_INT32_POW2"
#endif

#define N 41
#define LEARN(t) fused_update(q, t)

INLINE void fused_update(value_t *q, struct transition t) {
  value_t *entry = entry_of(t, q);
  uint32_t sum = 20 * N * (uint32_t)(t.reward - *entry);
  if (!(t.step >> 31)) sum += 19 * N * (uint32_t)largest(&q[((t.step >> 16) & 0x7fff) * N_ACTIONS]);
  *entry += (int32_t)(sum + (1 << 12)) >> 13;
}

#include "../learner.c"
