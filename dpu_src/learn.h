/* What a core does with a transition: the paper's update with a constant alpha, or a choice that needs fewer of them.
 *
 * UPDATE_TD, the paper's, is td_update.h.
 *
 * UPDATE_VR is variance-reduced Q-learning. A round begins with the same table Qbar on all cores, and with it comes
 *     Tbar(s, a) = mean of r + gamma * max Qbar(s', .) over *all* transitions of (s, a), r alone where one terminated,
 * which the host knows, since it counted the transitions when it cut them into chunks. A core then learns by
 *     Q(s, a) += alpha * (Tbar(s, a) + gamma * (max Q(s', .) - max Qbar(s', .)) - Q(s, a)).
 * td_update takes one transition's word for what Q(s, a) should be, and a short chunk, replayed, believes its few
 * transitions too much. Here the whole data say what Q(s, a) should be at Qbar, and a transition only by how much its
 * next state has gained since. A table that equals its own Tbar stays as it is, on every core and in the mean: the fixed
 * point is that of the data's own MDP, however the data are cut. The idea is that of SVRG (Johnson and Zhang, NeurIPS
 * 2013); for Q-learning it is Wainwright's (arXiv 1906.04697), for many learners Fed-DVR-Q (arXiv 2408.16981), whose
 * Tbar comes from fresh samples. Logged data can be counted instead, so it costs a second table down, and none up.
 *
 * ALPHA_SCHEDULE_RESCALED_LINEAR makes alpha 1 / (1 + (1 - gamma) * n), the rescaled linear step size of arXiv 1905.06265
 * and 1906.04697. There every step updates all pairs and n counts the steps of an epoch. Here a step updates one pair
 * and an epoch is a round: n counts the updates of this pair, on this core, in this round, this one included. It stops
 * at 65,535 (VISITS_LIMIT). Both updates take either schedule.
 *
 * BOOTSTRAP_FROZEN takes max Q(s', .) from the table as it was when the pass over the chunk began, where the paper's
 * BOOTSTRAP_CURRENT takes it from the table as it is: periodic Q-learning, a target table renewed once a pass (Lee and
 * He, L4DC 2020, arXiv 2002.09795), for either update. Then an update reads, of all that its pass writes, only the entry
 * that it writes itself: pairs learn side by side (tasklet_learner.c), and gamma * max Q(s', .) is computed once a state
 * and pass. In UPDATE_VR a table that equals its own Tbar stays as it is, as before. The ranges and products of
 * fixed_point.h hold, too: frozen values are those of a table of the same run, in UPDATE_VR of the same round. */
#ifndef SWIFTRL_LEARN_H
#define SWIFTRL_LEARN_H

#include "inline.h"
#include "layout.h"
#include "td_update.h"

/* What stands beside the table in a round; the paper's own choices use none of it. Pairs and states in their order. */
struct beside {
  const value_t *targets; /* UPDATE_VR: Tbar, one a pair */
  const value_t *values;  /* UPDATE_VR: max Qbar(s, .), one a state */
  uint16_t *visits;       /* ALPHA_SCHEDULE_RESCALED_LINEAR: n, one a pair, TABLE_STRIDE apart; 0 when a round begins */
  value_t *ahead;         /* BOOTSTRAP_FROZEN: gamma * max Q(s, .), in UPDATE_VR gamma times its gain, when the pass
                             began; one a state, TABLE_STRIDE apart */
};

/* max Q(s, .) of every state. */
INLINE void keep_values(value_t *values, const value_t *q) {
  for (uint32_t s = 0; s < N_STATES; s++) values[s] = largest(&q[s * N_ACTIONS * TABLE_STRIDE]);
}

/* Freeze what a state adds to the target of a transition that leads to it. */
INLINE void look_ahead(uint32_t state, const value_t *q, const struct learner_args *args, const struct beside *beside) {
  value_t value = largest(&q[state * N_ACTIONS * TABLE_STRIDE]);
  if (UPDATE == UPDATE_VR) value -= beside->values[state];
  beside->ahead[state * TABLE_STRIDE] = discounted(value, args);
}

/* The target of UPDATE_VR, BOOTSTRAP_FROZEN or both: td_update's arithmetic with Tbar for the reward and a gain for the
 * next value, or with a next value that has been discounted already. */
INLINE value_t target_beside(struct transition t, const value_t *q, const struct learner_args *args,
                             const struct beside *beside) {
  value_t target = UPDATE == UPDATE_VR ? beside->targets[t.step & 0xffff] : t.reward;
  if (t.step >> 31) return target;
  uint32_t next = (t.step >> 16) & 0x7fff;
#if BOOTSTRAP == BOOTSTRAP_FROZEN
  (void)q, (void)args;
  return target + beside->ahead[next * TABLE_STRIDE];
#else
  value_t gain = largest(&q[next * N_ACTIONS * TABLE_STRIDE]) - beside->values[next];
  return bootstrapped_target(target, gain, args);
#endif
}

/* The arguments of a pair's n-th update: alpha = 1 / (1 + (1 - gamma) * n), in the number format's own coefficients.
 * INT32: gamma is g / h, so alpha is h / (h + (h - g) n), exactly. INT32_POW2: 1 - gamma is C / 2^k, so alpha is
 * 2^k / (2^k + C n), to the nearest multiple of 2^-m. */
INLINE struct learner_args slowed(const struct learner_args *args, uint32_t n) {
  struct learner_args slow = *args;
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
  float lag = (1.0f - args->gamma) * (float)n;
  slow.alpha = 1.0f / (1.0f + lag);
#elif NUMBER_FORMAT == NUMBER_FORMAT_INT32
  slow.alpha = args->gamma_scale;
  slow.alpha_scale = args->gamma_scale + (args->gamma_scale - args->gamma) * (int32_t)n;
#else
  int32_t one = 1 << args->gamma_scale;
  slow.alpha = divide_round(one << args->alpha_scale, one + args->gamma * (int32_t)n);
#endif
  return slow;
}

/* Count an update of the transition's pair; return how many there were, this one included. */
INLINE uint32_t count_visit(uint16_t *visits, struct transition t) {
  uint16_t *n = &visits[(t.step & 0xffff) * TABLE_STRIDE];
  if (*n < VISITS_LIMIT) ++*n;
  return *n;
}

/* Learn from one transition, as the build chooses. */
INLINE void learn(value_t *q, struct transition t, const struct learner_args *args, uint32_t *random_state,
                  const struct beside *beside) {
#if ALPHA_SCHEDULE == ALPHA_SCHEDULE_RESCALED_LINEAR
  struct learner_args slow = slowed(args, count_visit(beside->visits, t));
  args = &slow;
#endif
#if UPDATE == UPDATE_VR || BOOTSTRAP == BOOTSTRAP_FROZEN
  (void)random_state;
  value_t *entry = entry_of(t, q);
  *entry += step_towards(target_beside(t, q, args, beside), *entry, args);
#else
  (void)beside;
  td_update(q, t, args, random_state);
#endif
}

#endif
