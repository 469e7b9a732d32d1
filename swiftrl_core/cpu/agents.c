/* Independent agents that learn from one stream of transitions, an agent a lane: dpu_src/multi_agent.c on this CPU.
 *
 * Every agent meets the same transition at the same time, so all lanes work on the same entry and the same next row,
 * each in a table of its own. Tables are therefore interleaved: entry e of all lanes stands together, and fetching a
 * row is loading it, with nothing to gather. What an update costs is its loads, one for each action and one for the
 * entry.
 *
 * An agent's updates are a chain, each reading what one shortly before wrote. So a team of up to 8 vectors takes turns
 * at each transition, which is decoded once for all of them: while one waits for its operands, the others compute.
 *
 * The arithmetic is td_rule.h itself with vectors for numbers, and vectors for coefficients, since every agent may
 * have an alpha and a gamma of its own: IEEE single precision, no contraction, the kernel's order. So tables agree in
 * every bit. Only the largest of a row is found in another order. Equal numbers have equal bits here: a table that
 * starts at +0 never holds -0, which a sum rounded to nearest gives only where both parts are -0.
 *
 * Build switches: SAMPLING (SEQ or STR), NUMBER_FORMAT, N_STATES, N_ACTIONS as for the kernel. Q-learning only: SARSA
 * and RAN draw random numbers and send every agent its own way (agents_alone.c). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
/* In this order: a vector of numbers first, then what the kernel does with one. */
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
#define TEAM 8

/* What td_rule.h finds in `args`: for each lane its agent's. */
struct lane_args {
  lanes_t alpha, alpha_scale, gamma, gamma_scale;
};

#if NUMBER_FORMAT == NUMBER_FORMAT_INT32_POW2
INLINE mask_t shift_round_each(mask_t x, mask_t bits) { return (x + (1 << (bits - 1))) >> bits; }
#endif

/* The rule, with the names above in the place of those it knows. */
#define NUMBER lanes_t
#define learner_args lane_args
#define shift_round shift_round_each
#include "td_rule.h"
#undef learner_args

/* The largest entry of every lane's row, by pairs, since a chain of comparisons would be waited for. */
INLINE lanes_t largest(const lanes_t *row, int team) {
  lanes_t best[N_ACTIONS];
  for (int a = 0; a < N_ACTIONS; a++) best[a] = row[a * team];
  for (int left = N_ACTIONS; left > 1; left = (left + 1) / 2)
    for (int a = 0; a < left / 2; a++) {
      lanes_t other = best[left - 1 - a];
      best[a] = choose(other > best[a], other, best[a]);
    }
  return best[0];
}

/* All agents of a team learn from one transition. Entry e of vector v is q[e * team + v]. Behind the last state stands
 * a row that stays zero: after termination its largest entry is B, without a branch that a CPU would often guess
 * wrong. */
INLINE void learn(lanes_t *q, struct transition t, const struct lane_args *args, int team) {
  uint32_t next = t.step >> 31 ? N_STATES : (t.step >> 16) & 0x7fff;
  const lanes_t *row = &q[next * N_ACTIONS * team];
  lanes_t *entry = &q[(t.step & 0xffff) * team];
  lanes_t reward = (lanes_t){0} + t.reward;
#pragma GCC unroll 8
  for (int v = 0; v < team; v++) {
    lanes_t target = bootstrapped_target(reward, largest(row + v, team), &args[v]);
    entry[v] += step_towards(target, entry[v], &args[v]);
  }
}

/* All episodes of a team, whose size the compiler knows: the coefficients stay in registers as far as these go. */
INLINE void train_team(lanes_t *q, const struct transition *records, int64_t transitions, uint32_t episodes,
                       const struct lane_args *given, int team) {
  struct lane_args args[TEAM];
  memcpy(args, given, (size_t)team * sizeof(args[0]));
  for (uint32_t episode = 0; episode < episodes; episode++)
    for (int64_t offset = 0; offset < STRIDE; offset++)
      for (int64_t i = offset; i < transitions; i += STRIDE) learn(q, records[i], args, team);
}

/* The coefficients of the agents first .. first + LANES - 1; lanes without one learn along with the last. */
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

/* Hand back a team's tables, agent by agent: as many entries at a time as fill a cache line there. */
static void hand_back(const value_t *q, int team, value_t *tables, int64_t agents, int64_t first) {
  enum { LINE = 64 / sizeof(value_t) };
  for (int64_t start = 0; start < ENTRIES; start += LINE)
    for (int64_t at = 0; at < team * LANES && first + at < agents; at++)
      for (int64_t e = start; e < start + LINE && e < ENTRIES; e++)
        tables[(first + at) * ENTRIES + e] = q[e * team * LANES + at];
}

int64_t lanes(void) { return LANES; }

int64_t team(void) { return TEAM; }

/* Train the agents of vectors first .. last - 1, LANES agents each, from tables of zeros; agent a's own ends at tables
 * + a * ENTRIES. All read the same `transitions` records, args[0].episodes times over. Returns 0, or -1 where memory
 * is short. */
int train_vectors(const struct transition *records, int64_t transitions, const struct learner_args *args,
                  value_t *tables, int64_t agents, int64_t first, int64_t last) {
  size_t vectors = (size_t)(ENTRIES + N_ACTIONS) * TEAM;
  lanes_t *q = aligned_alloc(sizeof(lanes_t), vectors * sizeof(lanes_t));
  if (!q) return -1;
  uint32_t episodes = args[0].episodes;
  for (int64_t at = first, team; at < last; at += team) {
    team = last - at >= 8 ? 8 : last - at >= 4 ? 4 : last - at >= 2 ? 2 : 1;
    struct lane_args coefficients[TEAM];
    for (int64_t v = 0; v < team; v++) coefficients[v] = lane_args_of(args, agents, (at + v) * LANES);
    memset(q, 0, vectors * sizeof(lanes_t));
    if (team == 8) train_team(q, records, transitions, episodes, coefficients, 8);
    if (team == 4) train_team(q, records, transitions, episodes, coefficients, 4);
    if (team == 2) train_team(q, records, transitions, episodes, coefficients, 2);
    if (team == 1) train_team(q, records, transitions, episodes, coefficients, 1);
    hand_back((const value_t *)q, (int)team, tables, agents, at * LANES);
  }
  free(q);
  return 0;
}
