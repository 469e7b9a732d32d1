/* What the host and a DPU agree on: records, arguments, the numbers that name a choice.
 *
 * This is the one place where a size is written. C includes the file; Python reads it as text
 * (swiftrl_core/layout.py), so keep to its grammar: constants are plain numbers, a struct has one member a line,
 * and every member is 4 bytes wide: uint32_t, int32_t or value_t. */
#ifndef SWIFTRL_LAYOUT_H
#define SWIFTRL_LAYOUT_H

#include <stdint.h>

/* The learner's choices; a build picks one of each with -DALGORITHM=..., -DSAMPLING=..., -DNUMBER_FORMAT=... A fourth
 * sampling, REV, is SEQ over a chunk that the host has turned round (swiftrl_core/chunks.py). */
#define ALGORITHM_Q_LEARNING 0
#define ALGORITHM_SARSA 1

#define SAMPLING_SEQ 0
#define SAMPLING_STR 1
#define SAMPLING_RAN 2

#define NUMBER_FORMAT_FP32 0
#define NUMBER_FORMAT_INT32 1
#define NUMBER_FORMAT_INT32_POW2 2

/* Choices beyond the paper (learn.h), -DUPDATE=..., -DALPHA_SCHEDULE=... and -DBOOTSTRAP=...; a build that names none
 * takes the paper's, the first of each. */
#define UPDATE_TD 0
#define UPDATE_VR 1

#define ALPHA_SCHEDULE_CONSTANT 0
#define ALPHA_SCHEDULE_RESCALED_LINEAR 1

#define BOOTSTRAP_CURRENT 0
#define BOOTSTRAP_FROZEN 1

#ifndef UPDATE
#define UPDATE UPDATE_TD
#endif
#ifndef ALPHA_SCHEDULE
#define ALPHA_SCHEDULE ALPHA_SCHEDULE_CONSTANT
#endif
#ifndef BOOTSTRAP
#define BOOTSTRAP BOOTSTRAP_CURRENT
#endif

/* Updates of a pair in a round after which alpha falls no further. */
#define VISITS_LIMIT 65535

/* STR takes every fourth transition, four times over, so that a pass still meets each once. */
#define STR_STRIDE 4

/* One DMA transfer moves at most this many bytes between MRAM and WRAM. */
#define DMA_BLOCK_BYTES 2048

/* Units of a fixed-point value per 1.0: decimal (INT32) and binary (INT32_POW2, 2^13). */
#define INT32_SCALE 10000
#define INT32_POW2_SCALE 8192

/* The packed step below: 16 bits of state and action, 15 bits of next state, 1 bit of termination. */
#define PAIR_LIMIT 65536
#define STATE_LIMIT 32768

#ifdef NUMBER_FORMAT
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
typedef float value_t;
#else
typedef int32_t value_t;
#endif

/* A transition, 8 bytes: the unit of DMA.
 *   step    bits 0..15   state * N_ACTIONS + action: where Q(s, a) stands in the table
 *           bits 16..30  next state
 *           bit  31      the episode terminated here: nothing to bootstrap from
 *   reward  in the number format's own units */
struct transition {
  uint32_t step;
  value_t reward;
};

/* A chunk dealt to tasklets (tasklet_learner.c, swiftrl_core/dealing.py): each tasklet's share is a row of runs, a run the
 * transitions of one pair, in the chunk's order. A run is its head, then its outcomes. Both are 8 bytes, a word.
 *   pair         state * N_ACTIONS + action: where Q(s, a) stands in the table
 *   transitions  outcomes that follow, at least 1
 *   next         next state; N_STATES where the episode terminated
 *   reward       in the number format's own units */
struct run {
  uint32_t pair;
  uint32_t transitions;
};

struct outcome {
  uint32_t next;
  value_t reward;
};

/* What a launch needs to know, 32 bytes. The host writes it once; random_state comes back changed, so that the next
 * launch draws on where this one stopped.
 *   transitions    in this core's chunk, at least 1
 *   episodes       passes over the chunk in this launch
 *   random_state   of the core's generator (lcg.h)
 *   explore_below  SARSA explores when a 31-bit draw is below it: epsilon * 2^31
 *   alpha, gamma and their scales are the coefficients of td_update.h */
struct learner_args {
  uint32_t transitions;
  uint32_t episodes;
  uint32_t random_state;
  uint32_t explore_below;
  value_t alpha;
  value_t alpha_scale;
  value_t gamma;
  value_t gamma_scale;
};
#endif

#endif
