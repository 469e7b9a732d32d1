/* The temporal-difference update, once for every machine that runs it.
 *
 *     Q(s, a) += alpha * (r + gamma * B - Q(s, a))
 *
 * B is what the next state promises: its largest Q for Q-learning, the Q of the action that will be taken for SARSA,
 * and nothing when the episode terminated. A truncated episode only stopped being watched, so it does bootstrap.
 *
 * The DPU kernels, the CPU engine and the CUDA kernel include this file and must agree in every bit. In FP32 that takes
 * IEEE single precision, one rounding an operation, in the order written: no fused multiply-add, no contraction
 * (-ffp-contract=off, --fmad=false). In INT32 it takes the rules of fixed_point.h. */
#ifndef SWIFTRL_TD_UPDATE_H
#define SWIFTRL_TD_UPDATE_H

#include "inline.h"
#include "layout.h"
#include "lcg.h"
#include "soft_float.h"
#include "td_rule.h"

/* Entries of a table stand next to each other, except on a GPU that interleaves the tables of its lanes. */
#ifndef TABLE_STRIDE
#define TABLE_STRIDE 1
#endif

/* The largest entry of a row of N_ACTIONS: the true maximum, also where all are negative. */
INLINE value_t largest(const value_t *row) {
  value_t best = row[0];
  for (uint32_t a = 1; a < N_ACTIONS; a++)
    if (EXCEEDS(row[a * TABLE_STRIDE], best)) best = row[a * TABLE_STRIDE];
  return best;
}

/* B for a next state that is not terminal. SARSA draws its next action epsilon-greedily from the current table: one draw
 * to decide, a second one only when exploring. Whichever greedy action a tie would pick, its Q is the largest. */
INLINE value_t value_of_next(const value_t *row, const struct learner_args *args, uint32_t *random_state) {
#if ALGORITHM == ALGORITHM_Q_LEARNING
  (void)args, (void)random_state;
  return largest(row);
#else
  if (lcg_chance(random_state, args->explore_below)) return row[lcg_below(random_state, N_ACTIONS) * TABLE_STRIDE];
  return largest(row);
#endif
}

/* What Q(s, a) should be after this transition. `q` is the whole table, a row of N_ACTIONS for each state. */
INLINE value_t target_of(struct transition t, const value_t *q, const struct learner_args *args,
                         uint32_t *random_state) {
  if (t.step >> 31) return t.reward;
  const value_t *row = &q[((t.step >> 16) & 0x7fff) * N_ACTIONS * TABLE_STRIDE];
  return bootstrapped_target(t.reward, value_of_next(row, args, random_state), args);
}

/* The entry that this transition teaches. */
INLINE value_t *entry_of(struct transition t, value_t *q) { return &q[(t.step & 0xffff) * TABLE_STRIDE]; }

/* Learn from one transition. */
INLINE void td_update(value_t *q, struct transition t, const struct learner_args *args, uint32_t *random_state) {
  value_t *entry = entry_of(t, q);
  *entry += step_towards(target_of(t, q, args, random_state), *entry, args);
}

#endif
