/* Independent agents that learn from one stream of transitions, one lane per agent: dpu_src/multi_agent.c on this CPU.
 *
 * Every agent sees the same transition at the same time, so all lanes work on the same entry and the same next state,
 * each in its own table. Tables are therefore interleaved: entry e of all lanes is contiguous, and a row is loaded
 * without gathering. The cost of an update is its loads and its comparisons.
 *
 * To save some of both, the largest entry of each group of actions is kept, so that B is the largest of a few such
 * numbers instead of a row. When an entry changes, it is compared with the rest of its group, and the larger is kept.
 * With A actions in groups of g that takes A / g + g loads and A / g + g - 2 comparisons, where a row takes A + 1 loads
 * and A - 1 comparisons; the price is a second store. The next update waits for only one of these comparisons, since
 * the rest of the group is loaded before the new entry is known. Memory is a price too: with 16 lanes a team's tables
 * already fill a first-level cache, so there a group is one action, which is its own largest.
 *
 * An agent's updates are a chain: each reads what one shortly before wrote, and a CPU takes about ten cycles to read
 * what has just been written. So a team of up to 8 vectors takes turns at each transition: while one waits for its
 * operands, the others compute. A team of 4 could keep all its coefficients in 16 registers, but it waits longer than
 * it takes to load a few. The places of all numbers are computed once for all episodes.
 *
 * The arithmetic is td_rule.h itself with vectors for numbers, and vectors for coefficients, since every agent may have
 * its own alpha and gamma: IEEE single precision, no contraction, the kernel's order. So the tables agree in every bit.
 * Only the largest of a row is found in another order. Equal numbers have equal bits here: a table that starts at +0
 * never holds -0, since a sum rounded to nearest is -0 only where both parts are -0.
 *
 * Build switches: SAMPLING (SEQ or STR), NUMBER_FORMAT, N_STATES, N_ACTIONS as for the kernel. Q-learning only: SARSA
 * and RAN draw random numbers and send every agent its own way (agents_alone.c). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#define TEAM 8

/* In this order: first the vectors of numbers, then the arithmetic on them. */
#include "lanes.h"
#if NUMBER_FORMAT != NUMBER_FORMAT_FP32
#define FRACTION fractions
#include "lanes_fixed_point.h"
#endif

#if ALGORITHM != ALGORITHM_Q_LEARNING || SAMPLING == SAMPLING_RAN
#error "agents.c is for SEQ or STR Q-learning"
#endif

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)
#define ENTRIES (N_STATES * N_ACTIONS)
#define CACHE_LINE 64

/* Actions in a group. A group and the kept numbers of a row together are smallest near the square root of the number of
 * actions. */
#define GROUP (LANES > 8 ? 1 : N_ACTIONS <= 4 ? 2 : N_ACTIONS <= 9 ? 3 : N_ACTIONS <= 16 ? 4 : 8)
#define GROUPS ((N_ACTIONS + GROUP - 1) / GROUP)

/* Behind the entries are the kept numbers, state by state (groups of one are the entries themselves), and behind the
 * last state some numbers that stay zero. After termination B is the largest of these zeros, without a branch that a
 * CPU would often mispredict. */
#define KEPT(state) ((GROUP > 1 ? ENTRIES : 0) + (state) * GROUPS)
#define NUMBERS KEPT(N_STATES + 1)

/* The `args` of td_rule.h: for each lane, those of its agent. */
struct lane_args {
  lanes_t alpha, alpha_scale, gamma, gamma_scale;
};

#if NUMBER_FORMAT == NUMBER_FORMAT_INT32_POW2
INLINE mask_t shift_round_each(mask_t x, mask_t bits) { return (x + (1 << (bits - 1))) >> bits; }
#endif

/* td_rule.h, with the names above in place of its own. */
#define NUMBER lanes_t
#define learner_args lane_args
#define shift_round shift_round_each
#include "td_rule.h"
#undef learner_args

/* A transition, as byte offsets from the start of a team's tables. */
struct step {
  uint32_t next;        /* the kept numbers of the next state */
  uint32_t entry;       /* Q(s, a) */
  uint32_t rest[GROUP]; /* the others of its group */
  uint32_t kept;        /* the largest of its group */
  value_t reward;
};

/* Translate records to steps. Number n of vector v is q[n * team + v]. Where a group is short, the entry itself
 * replaces the missing one: it is read after it has been written. */
static void locate(struct step *steps, const struct transition *records, int64_t transitions, int team) {
  const uint32_t bytes = (uint32_t)team * sizeof(lanes_t);
  for (int64_t i = 0; i < transitions; i++) {
    uint32_t entry = pair_of(records[i]), next = ends(records[i]) ? N_STATES : next_of(records[i]);
    uint32_t state = entry / N_ACTIONS, action = entry % N_ACTIONS, group = action / GROUP;
    steps[i].next = KEPT(next) * bytes;
    steps[i].entry = entry * bytes;
    for (uint32_t k = 1; k < GROUP; k++) {
      uint32_t other = group * GROUP + (action + k) % GROUP;
      steps[i].rest[k - 1] = (other < N_ACTIONS ? state * N_ACTIONS + other : entry) * bytes;
    }
    steps[i].kept = (KEPT(state) + group) * bytes;
    steps[i].reward = records[i].reward;
  }
}

INLINE lanes_t *vectors_at(lanes_t *q, uint32_t bytes) { return (lanes_t *)((char *)q + bytes); }

/* The largest of the kept numbers of each lane's state, compared in pairs, since in a chain every comparison would wait
 * for the one before. */
INLINE lanes_t largest(const lanes_t *kept, int team) {
  lanes_t best[GROUPS];
  for (int g = 0; g < GROUPS; g++) best[g] = kept[g * team];
  for (int left = GROUPS; left > 1; left = (left + 1) / 2)
    for (int g = 0; g < left / 2; g++) best[g] = larger(best[left - 1 - g], best[g]);
  return best[0];
}

/* All agents of a team learn from one transition. (The reward minus zero is the reward; plus zero would turn -0 into
 * +0.) */
INLINE void learn(lanes_t *q, struct step step, const struct lane_args *args, int team) {
  lanes_t *next = vectors_at(q, step.next), *entry = vectors_at(q, step.entry), *kept = vectors_at(q, step.kept);
  lanes_t reward = step.reward - (lanes_t){0};
#pragma GCC unroll 8
  for (int v = 0; v < team; v++) {
    lanes_t target = bootstrapped_target(reward, largest(next + v, team), &args[v]);
    entry[v] = updated(entry[v], target, &args[v]);
    if (GROUP == 1) continue;
    lanes_t rest = vectors_at(q, step.rest[0])[v];
    for (int k = 1; k < GROUP - 1; k++) rest = larger(rest, vectors_at(q, step.rest[k])[v]);
    kept[v] = larger(entry[v], rest);
  }
}

/* All episodes of a team. The compiler knows its size, so that the coefficients stay in registers as far as these
 * go. */
INLINE void train_team(lanes_t *q, const struct step *steps, int64_t transitions, uint32_t episodes,
                       const struct lane_args *given, int team) {
  struct lane_args args[TEAM];
  memcpy(args, given, (size_t)team * sizeof(args[0]));
  for (uint32_t episode = 0; episode < episodes; episode++)
    for (int64_t offset = 0; offset < STRIDE; offset++)
      for (int64_t i = offset; i < transitions; i += STRIDE) learn(q, steps[i], args, team);
}

/* The coefficients of agents first .. first + LANES - 1; lanes without an agent repeat the last one. */
static struct lane_args lane_args_of(const struct learner_args *args, int64_t agents, int64_t first) {
  struct lane_args lanes;
  for (int64_t l = 0; l < LANES; l++) {
    struct learner_args own = args[first + l < agents ? first + l : agents - 1];
#if NUMBER_FORMAT == NUMBER_FORMAT_INT32
    as_multiplier(&own.alpha, &own.alpha_scale);
    as_multiplier(&own.gamma, &own.gamma_scale);
#endif
    lanes.alpha[l] = own.alpha;
    lanes.alpha_scale[l] = own.alpha_scale;
    lanes.gamma[l] = own.gamma;
    lanes.gamma_scale[l] = own.gamma_scale;
  }
  return lanes;
}

/* Copy a team's tables to the caller, agent by agent, as many entries at a time as fill a cache line there. */
static void hand_back(const value_t *q, int team, value_t *tables, int64_t agents, int64_t first) {
  enum { LINE = CACHE_LINE / sizeof(value_t) };
  for (int64_t start = 0; start < ENTRIES; start += LINE)
    for (int64_t at = 0; at < team * LANES && first + at < agents; at++)
      for (int64_t e = start; e < start + LINE && e < ENTRIES; e++)
        tables[(first + at) * ENTRIES + e] = q[e * team * LANES + at];
}

int64_t lanes(void) { return LANES; }

int64_t team(void) { return TEAM; }

/* Train the agents of vectors first .. last - 1, LANES agents each, from tables of zeros; agent a's table ends up at
 * tables + a * ENTRIES. All read the same `transitions` records, args[0].episodes times. Returns 0, or -1 if there is
 * not enough memory. */
int train_vectors(const struct transition *records, int64_t transitions, const struct learner_args *args,
                  value_t *tables, int64_t agents, int64_t first, int64_t last) {
  size_t bytes = (size_t)NUMBERS * TEAM * sizeof(lanes_t);
  lanes_t *q = aligned_alloc(CACHE_LINE, bytes);
  struct step *steps = malloc((size_t)(transitions + 1) * sizeof(*steps));
  uint32_t episodes = args[0].episodes;
  for (int64_t at = first, team; q && steps && at < last; at += team) {
    team = last - at >= 8 ? 8 : last - at >= 4 ? 4 : last - at >= 2 ? 2 : 1;
    struct lane_args coefficients[TEAM];
    for (int64_t v = 0; v < team; v++) coefficients[v] = lane_args_of(args, agents, (at + v) * LANES);
    locate(steps, records, transitions, (int)team);
    memset(q, 0, bytes);
    if (team == 8) train_team(q, steps, transitions, episodes, coefficients, 8);
    if (team == 4) train_team(q, steps, transitions, episodes, coefficients, 4);
    if (team == 2) train_team(q, steps, transitions, episodes, coefficients, 2);
    if (team == 1) train_team(q, steps, transitions, episodes, coefficients, 1);
    hand_back((const value_t *)q, (int)team, tables, agents, at * LANES);
  }
  int short_of_memory = !q || !steps;
  free(q);
  free(steps);
  return -short_of_memory;
}
