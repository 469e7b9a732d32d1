/* The lines of arithmetic in td_update.h, apart from where their operands stand.
 *
 * A kernel applies them to one NUMBER at a time. The CPU engine makes NUMBER a vector, one lane a core, brings the
 * operations of fixed_point.h for it, and includes this very text. */
#ifndef SWIFTRL_TD_RULE_H
#define SWIFTRL_TD_RULE_H

#include "inline.h"
#include "layout.h"

#ifndef NUMBER
#include "fixed_point.h"
#include "soft_float.h"
#define NUMBER value_t
#endif
#ifndef PRODUCT
#define PRODUCT(constant, x) ((constant) * (x))
#endif

/* The arguments of a launch, with the coefficients that the build knows (tuning.h) in the place of those it was given. */
INLINE struct learner_args with_known(struct learner_args args) {
#ifdef KNOWN_ALPHA
  args.alpha = KNOWN_ALPHA, args.alpha_scale = KNOWN_ALPHA_SCALE;
  args.gamma = KNOWN_GAMMA, args.gamma_scale = KNOWN_GAMMA_SCALE;
#endif
  return args;
}

/* gamma * B. */
INLINE NUMBER discounted(NUMBER value, const struct learner_args *args) {
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
  return PRODUCT(args->gamma, value);
#elif NUMBER_FORMAT == NUMBER_FORMAT_INT32
  return multiply_divide(value, args->gamma, args->gamma_scale);
#else
  return value - shift_round(args->gamma * value, args->gamma_scale); /* gamma holds C */
#endif
}

/* r + gamma * B. */
INLINE NUMBER bootstrapped_target(NUMBER reward, NUMBER next_value, const struct learner_args *args) {
#if NUMBER_FORMAT == NUMBER_FORMAT_INT32_POW2
  return reward + next_value - shift_round(args->gamma * next_value, args->gamma_scale); /* spares a DPU a move */
#else
  return reward + discounted(next_value, args);
#endif
}

/* alpha * (target - Q). */
INLINE NUMBER step_towards(NUMBER target, NUMBER q, const struct learner_args *args) {
  NUMBER difference = target - q;
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
  return PRODUCT(args->alpha, difference);
#elif NUMBER_FORMAT == NUMBER_FORMAT_INT32
  return part_towards(difference, args->alpha, args->alpha_scale);
#else
  return never_stall(shift_round(args->alpha * difference, args->alpha_scale), difference);
#endif
}

#endif
