/* Many virtual PIM cores on this CPU, a lane each: what dpu_src/learner.c or tasklet_learner.c does on one DPU, for 16 of
 * them in step.
 *
 * Cores are independent, so the k-th update of 16 cores is one vector operation: arithmetic costs a sixteenth. What is
 * left is getting at the numbers. Every core reads a row of its own table and writes an entry of it (lanes.h); the one
 * store an update is the floor, a cycle.
 *
 * The arithmetic is td_rule.h itself with vectors for numbers: IEEE single precision, no contraction, the kernel's
 * order. The random numbers are those of lcg.h, drawn when the kernel draws them. So the tables agree in every bit.
 *
 * BOOTSTRAP_FROZEN (learn.h) spares an update the row: a lane reads one number of the next state, computed when the pass
 * began. So the lanes, too, take the maximum once a state and pass.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, N_STATES, N_ACTIONS, UPDATE, BOOTSTRAP as for the kernel;
 * EARLY_EXIT, 0 or 1. Every lane has the same alpha: ALPHA_SCHEDULE is left to scalar.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
/* In this order: a vector of numbers first, then what the kernel does with one. */
#include "lanes.h"
#define LCG_WORD words_t
#define LCG_TRUTH mask_t
#include "lcg.h"
#if NUMBER_FORMAT != NUMBER_FORMAT_FP32
#include "lanes_fixed_point.h"
#endif
#define NUMBER lanes_t
#include "td_rule.h"

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)
#define PAGE_BYTES 4096
#define SHARED (UPDATE == UPDATE_VR) /* beside the tables stand two that all lanes read */
#define AHEAD (BOOTSTRAP == BOOTSTRAP_FROZEN ? (N_STATES + 1 + 15) / 16 * 16 : 0) /* whole cache lines of a lane's */

/* A group is LANES cores. A team is so many groups that take turns, update by update: while one waits for its operands,
 * the others compute. Three, if their tables then fit a first level cache; one in RAN, whose cache misses need the room
 * more than its turns need company. */
#if SAMPLING == SAMPLING_RAN
#define TEAM 1
#elif 3 * 4 * LANES * TABLE <= 24576
#define TEAM 3
#else
#define TEAM 2
#endif

/* Transitions, unpacked once for all episodes: where Q(s, a) stands in the table, where the row of the next state does
 * (the spare row after termination), and the reward. BOOTSTRAP_FROZEN needs no row, but the next state's number, N_STATES
 * after termination. In SEQ and STR the k-th ones of all lanes stand together. In RAN every lane goes its own way, so a
 * lane's transitions stand together. */
#if SAMPLING == SAMPLING_RAN
#define TOGETHER 1
#else
#define TOGETHER LANES
#endif
#define NEXT_PLACE(STATE) (BOOTSTRAP == BOOTSTRAP_FROZEN ? (STATE) : (STATE) * ROW)
struct step {
  _Alignas(4 * TOGETHER) value_t reward[TOGETHER];
  place_t entry[TOGETHER];
  place_t next[TOGETHER];
};

struct group {
  value_t *tables;          /* LANES of them, TABLE entries apart */
  const struct step *steps; /* a shorter lane's last one is padding: it teaches the spare row nothing */
  int64_t longest;
  words_t length;
  words_t random;
  doubles_t inverse;      /* 1 / length */
  uint32_t passes[LANES]; /* of each lane until it rested */
  value_t *before;        /* EARLY_EXIT: the tables as the last pass found them */
  mask_t rests;           /* lanes whose last pass changed nothing */
  const value_t *targets; /* UPDATE_VR: Tbar, and max Qbar(s, .) where a row begins; in the shape of a table */
  const value_t *values;
  value_t *ahead; /* BOOTSTRAP_FROZEN: that of learn.h, state s of lane l at s * LANES + l */
};

int64_t lanes(void) { return LANES; }

int64_t team(void) { return TEAM; }

/* Bytes of `longest` transitions of every lane. */
int64_t steps_bytes(int64_t longest) { return longest * (LANES / TOGETHER) * (int64_t)sizeof(struct step); }

static void unpack_one(struct step *steps, int64_t longest, int lane, int64_t i, uint32_t entry, uint32_t next,
                       value_t reward) {
  struct step *step = TOGETHER == 1 ? &steps[lane * longest + i] : &steps[i];
  int at = lane % TOGETHER;
  step->entry[at] = (place_t)entry;
  step->next[at] = (place_t)next;
  step->reward[at] = reward;
}

/* One lane of a group's steps: its core's chunk, then padding up to the group's longest. */
static void unpack_lane(struct step *steps, int64_t longest, int lane, const struct transition *chunk, int64_t length) {
  for (int64_t i = 0; i < length; i++) {
    uint32_t step = chunk[i].step, pair = step & 0xffff, next = step >> 31 ? N_STATES : (step >> 16) & 0x7fff;
    unpack_one(steps, longest, lane, i, pair / N_ACTIONS * ROW + pair % N_ACTIONS, NEXT_PLACE(next), chunk[i].reward);
  }
  for (int64_t i = length; i < longest; i++) unpack_one(steps, longest, lane, i, SPARE, NEXT_PLACE(N_STATES), 0);
}

/* A group's steps. step_starts[g + 1] - step_starts[g] is how many transitions its longest chunk has. */
INLINE const struct step *steps_of(const struct step *steps, const int64_t *step_starts, int64_t group) {
  return steps + step_starts[group] * (LANES / TOGETHER);
}

/* Unpack the chunks of groups first .. last - 1. Core c owns records starts[c] .. starts[c + 1] - 1. */
void unpack(struct step *steps, const int64_t *step_starts, const struct transition *records, const int64_t *starts,
            int64_t cores, int64_t first, int64_t last) {
  for (int64_t group = first; group < last; group++)
    for (int lane = 0; lane < LANES; lane++) {
      int64_t core = group * LANES + lane, at = core < cores ? core : 0;
      int64_t length = core < cores ? starts[core + 1] - starts[core] : 0;
      unpack_lane((struct step *)steps_of(steps, step_starts, group), step_starts[group + 1] - step_starts[group], lane,
                  records + starts[at], length);
    }
}

/* The largest of every lane's row, compared in the order of td_update.h. */
INLINE lanes_t largest(const lanes_t column[ROW]) {
  lanes_t best = column[0];
  for (int a = 1; a < N_ACTIONS; a++) best = choose(column[a] > best, column[a], best);
  return best;
}

#if ALGORITHM == ALGORITHM_SARSA
/* value_of_next of td_update.h: a lane that bootstraps draws once, and again on exploring. */
INLINE lanes_t value_of_next(const lanes_t column[ROW], mask_t terminated, words_t *random, uint32_t explore_below) {
  words_t once = *random;
  mask_t explores = lcg_chance(&once, explore_below) & ~terminated;
  words_t twice = once;
  mask_t action = (mask_t)lcg_below(&twice, N_ACTIONS);
  *random = choose_words(terminated, *random, choose_words(explores, twice, once));
  lanes_t value = largest(column);
  for (int a = 0; a < N_ACTIONS; a++) value = choose(explores & (action == a), column[a], value);
  return value;
}
#endif

#if BOOTSTRAP == BOOTSTRAP_FROZEN
/* look_ahead of learn.h, for every state of every lane; nothing lies ahead of termination: x + -0 is x for every x. */
static void look_ahead(struct group *group, const struct learner_args *args) {
  for (uint32_t s = 0; s < N_STATES; s++) {
    place_t place[LANES];
    for (int l = 0; l < LANES; l++) place[l] = (place_t)(s * ROW);
    lanes_t column[ROW];
    load_columns(column, group->tables, place);
    lanes_t value = largest(column);
    if (UPDATE == UPDATE_VR) value -= group->values[s * ROW];
    *(lanes_t *)(group->ahead + s * LANES) = discounted(value, args);
  }
  for (int l = 0; l < LANES; l++) group->ahead[N_STATES * LANES + l] = (value_t)-0.0f;
}

/* learn of learn.h: every lane learns from its transition, out of what its pass began with. */
INLINE void learn(struct group *group, const place_t *entry, const place_t *next, lanes_t reward, mask_t terminated,
                  const struct learner_args *args) {
  (void)terminated;
  lanes_t ahead;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) ahead[l] = group->ahead[next[l] * LANES + l];
  lanes_t target = (UPDATE == UPDATE_VR ? load_shared(group->targets, entry) : reward) + ahead;
  lanes_t old = load_entries(group->tables, entry);
  store_entries(group->tables, entry, old + step_towards(target, old, args));
}
#else
/* UPDATE_VR of learn.h: every lane learns from its transition; targets and values stand where its table's entries do. */
INLINE void vr_learn(struct group *group, const place_t *entry, const place_t *next, mask_t terminated,
                     const struct learner_args *args) {
  lanes_t column[ROW];
  load_columns(column, group->tables, next);
  lanes_t gain = largest(column) - load_shared(group->values, next);
  lanes_t target = load_shared(group->targets, entry);
  target = choose(terminated, target, bootstrapped_target(target, gain, args));
  lanes_t old = load_entries(group->tables, entry);
  store_entries(group->tables, entry, old + step_towards(target, old, args));
}

/* td_update of td_update.h: every lane learns from its transition. */
INLINE void td_learn(struct group *group, const place_t *entry, const place_t *next, lanes_t reward, mask_t terminated,
                     const struct learner_args *args) {
  lanes_t column[ROW];
  load_columns(column, group->tables, next);
#if ALGORITHM == ALGORITHM_Q_LEARNING
  lanes_t next_value = largest(column);
#else
  lanes_t next_value = value_of_next(column, terminated, &group->random, args->explore_below);
#endif
  lanes_t target = choose(terminated, reward, bootstrapped_target(reward, next_value, args));
  lanes_t old = load_entries(group->tables, entry);
  store_entries(group->tables, entry, old + step_towards(target, old, args));
}

INLINE void learn(struct group *group, const place_t *entry, const place_t *next, lanes_t reward, mask_t terminated,
                  const struct learner_args *args) {
  if (UPDATE == UPDATE_VR)
    vr_learn(group, entry, next, terminated, args);
  else
    td_learn(group, entry, next, reward, terminated, args);
}
#endif

#if SAMPLING == SAMPLING_RAN
/* A draw from 0 .. length - 1 in every lane that has draws left in this episode: x % n = x - n * floor(x / n), where
 * floor((x + 1/2) * (1 / n)) in float64 is that quotient, since (2x + 1) / 2n is at least 1 / 2n away from any integer
 * and two roundings move it by less than 2^-51 * 2^32 / n. A lane that is done takes its padding, and does not draw. */
INLINE words_t draw(struct group *group, int64_t i) {
  words_t drawn = group->random;
  words_t x = lcg_folded(&drawn);
  words_t quotient = __builtin_convertvector((__builtin_convertvector(x, doubles_t) + 0.5) * group->inverse, words_t);
  mask_t draws = group->length > (uint32_t)i;
  group->random = choose_words(draws, drawn, group->random);
  return choose_words(draws, x - group->length * quotient, group->length);
}

INLINE void update(struct group *group, int64_t i, const struct learner_args *args) {
  words_t index = draw(group, i);
  place_t entry[LANES], next[LANES];
  lanes_t reward;
  mask_t terminated;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    struct step step = group->steps[l * group->longest + index[l]];
    entry[l] = step.entry[0];
    next[l] = step.next[0];
    reward[l] = step.reward[0];
    terminated[l] = -(step.next[0] == SPARE);
  }
  learn(group, entry, next, reward, terminated, args);
}
#else
INLINE void update(struct group *group, int64_t i, const struct learner_args *args) {
  typedef place_t places_t __attribute__((vector_size(sizeof(place_t) * LANES)));
  const struct step *step = &group->steps[i];
  mask_t terminated = __builtin_convertvector(*(const places_t *)step->next, mask_t) == SPARE;
  learn(group, step->entry, step->next, *(const lanes_t *)step->reward, terminated, args);
}
#endif

/* One episode of a whole team: in turns as long as every group has steps left, then what is left of each. The turns are
 * unrolled, since a CPU guesses from an instruction's address which store a load must wait for: with instructions of its
 * own a group waits for itself, not for the one before it. */
static void pass(struct group team[TEAM], const struct learner_args *args) {
#if BOOTSTRAP == BOOTSTRAP_FROZEN
  for (int g = 0; g < TEAM; g++)
    if (team[g].longest) look_ahead(&team[g], args);
#endif
  int64_t shortest = team[0].longest;
  for (int g = 1; g < TEAM; g++)
    if (team[g].longest < shortest) shortest = team[g].longest;
  for (int64_t offset = 0; offset < STRIDE; offset++) {
    int64_t i = offset;
    for (; i < shortest; i += STRIDE) {
#pragma GCC unroll 4
      for (int g = 0; g < TEAM; g++) update(&team[g], i, args);
    }
    for (int g = 0; g < TEAM; g++)
      for (int64_t k = i; k < team[g].longest; k += STRIDE) update(&team[g], k, args);
  }
}

/* Count a pass for every lane that does not rest yet. A pass of SEQ or STR Q-learning is a function of the table alone,
 * so one that left the table as it was would do so for ever: then the lane rests, and its passes stand for nothing.
 * (Single updates may well have moved an entry and moved it back.) Returns whether any lane still moves. */
static int count_pass(struct group *group) {
  int moves = 0;
  for (int l = 0; l < LANES; l++) {
    group->passes[l] += !group->rests[l];
#if EARLY_EXIT
    size_t at = (size_t)l * TABLE, bytes = TABLE * sizeof(value_t);
    group->rests[l] = group->length[l] ? -!memcmp(group->before + at, group->tables + at, bytes) : -1;
    memcpy(group->before + at, group->tables + at, bytes);
#endif
    moves |= !group->rests[l];
  }
  return moves;
}

static void train_team(struct group team[TEAM], const struct learner_args *args) {
  int moves = 1;
  for (uint32_t episode = 0; episode < args->episodes && moves; episode++) {
    pass(team, args);
    moves = 0;
    for (int g = 0; g < TEAM; g++)
      if (team[g].longest) moves |= count_pass(&team[g]);
  }
}

/* A table of the host's in the engine's shape: padded rows, and the spare one at zero. */
static void widen(value_t *wide, const value_t *table) {
  memset(wide, 0, TABLE * sizeof(value_t));
  for (int64_t s = 0; s < N_STATES; s++) memcpy(wide + s * ROW, table + s * N_ACTIONS, N_ACTIONS * sizeof(value_t));
}

/* keep_values of learn.h, where the rows of a widened table begin. */
static void keep_values(value_t *values, const value_t *table) {
  for (int64_t s = 0; s < N_STATES; s++) {
    const value_t *row = table + s * N_ACTIONS;
    value_t best = row[0];
    for (int64_t a = 1; a < N_ACTIONS; a++)
      if (row[a] > best) best = row[a];
    values[s * ROW] = best;
  }
}

/* Make a group ready: every lane starts from the same table. A group past the last is empty and fills up a team. */
static void start(struct group *group, int64_t number, value_t *tables, const value_t *table, const struct step *steps,
                  const int64_t *step_starts, const struct learner_args *args, int64_t cores, int64_t last) {
  *group = (struct group){.tables = tables, .before = EARLY_EXIT ? tables + TEAM * LANES * TABLE : 0};
  if (number >= last) return;
  group->steps = steps_of(steps, step_starts, number);
  group->longest = step_starts[number + 1] - step_starts[number];
  widen(tables, table);
  for (int l = 1; l < LANES; l++) memcpy(tables + l * TABLE, tables, TABLE * sizeof(value_t));
  if (EARLY_EXIT) memcpy(group->before, tables, LANES * TABLE * sizeof(value_t));
  for (int64_t l = 0, core = number * LANES; l < LANES; l++, core++) {
    group->length[l] = core < cores ? args[core].transitions : 0;
    group->random[l] = core < cores ? args[core].random_state : 0;
    group->inverse[l] = core < cores ? 1.0 / args[core].transitions : 1;
  }
}

/* Hand back a group's tables, where its generators stopped, and how many passes each core made. */
static void finish(const struct group *group, int64_t number, value_t *local, struct learner_args *args,
                   int64_t *passes, int64_t cores) {
  for (int64_t l = 0, core = number * LANES; l < LANES && core < cores; l++, core++) {
    for (int64_t s = 0; s < N_STATES; s++)
      memcpy(local + (core * N_STATES + s) * N_ACTIONS, group->tables + l * TABLE + s * ROW,
             N_ACTIONS * sizeof(value_t));
    args[core].random_state = group->random[l];
    passes[core] = group->passes[l];
  }
}

/* Train the cores of groups first .. last - 1 from `table`, with `targets` beside it in UPDATE_VR; core c's own ends at
 * local + c * N_STATES * N_ACTIONS. Coefficients and episodes are those of the first of these cores. Returns 0, or -1
 * where memory is short. */
int train_groups(const value_t *table, const value_t *targets, value_t *local, const struct step *steps,
                 const int64_t *step_starts, struct learner_args *args, int64_t *passes, int64_t cores, int64_t first,
                 int64_t last) {
  /* Whole pages, so that where the tables fall in the cache, and with it the speed, is the same in every process. */
  size_t bytes = (((1 + EARLY_EXIT) * TEAM * LANES + 2 * SHARED) * TABLE + TEAM * LANES * AHEAD) * sizeof(value_t);
  value_t *tables = aligned_alloc(PAGE_BYTES, (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
  if (!tables) return -1;
  value_t *shared_targets = tables + (1 + EARLY_EXIT) * TEAM * LANES * TABLE, *values = shared_targets + TABLE;
  value_t *ahead = shared_targets + 2 * SHARED * TABLE;
  if (SHARED) {
    widen(shared_targets, targets);
    memset(values, 0, TABLE * sizeof(value_t));
    keep_values(values, table);
  }
  struct learner_args coefficients = args[first * LANES];
#if NUMBER_FORMAT == NUMBER_FORMAT_INT32
  as_multiplier(&coefficients.alpha, &coefficients.alpha_scale);
  as_multiplier(&coefficients.gamma, &coefficients.gamma_scale);
#endif
  for (int64_t number = first; number < last; number += TEAM) {
    struct group team[TEAM];
    for (int64_t g = 0; g < TEAM; g++)
      start(&team[g], number + g, tables + g * LANES * TABLE, table, steps, step_starts, args, cores, last);
    for (int64_t g = 0; g < TEAM; g++)
      team[g].targets = shared_targets, team[g].values = values, team[g].ahead = ahead + g * LANES * AHEAD;
    train_team(team, &coefficients);
    for (int64_t g = 0; g < TEAM && number + g < last; g++) finish(&team[g], number + g, local, args, passes, cores);
  }
  free(tables);
  return 0;
}
