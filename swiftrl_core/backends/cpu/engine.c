/* Many virtual PIM cores on this CPU, a lane each: what dpu_src/learner.c or tasklet_learner.c does on one DPU, for
 * LANES of them in step: 16 with AVX-512, 8 with AVX2, else 4.
 *
 * Cores are independent, so the k-th update of LANES cores is one vector operation: arithmetic costs a sixteenth, or
 * an eighth. What remains is fetching the operands. Every core reads a row of its own table and writes an entry of it
 * (lanes.h); the one store an update is the floor, a cycle.
 *
 * The arithmetic is td_rule.h itself with vectors for numbers: IEEE single precision, no contraction, the kernel's
 * order. The random numbers are those of lcg.h, drawn when the kernel draws them. So the tables agree in every bit.
 *
 * With BOOTSTRAP_FROZEN (td_update.h) an update reads no row: a lane loads one number of the next state, computed when
 * the pass began. So the lanes, like tasklets, take the maximum once per state and pass.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, N_STATES, N_ACTIONS, UPDATE, BOOTSTRAP as for the kernel;
 * EARLY_EXIT, 0 or 1. Every lane has the same alpha: ALPHA_SCHEDULE is left to scalar.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

/* A group is LANES cores. A team is a number of groups that take turns, update by update: while one waits for its
 * operands, the others compute. As many as keep the CPU busy, provided that their tables about fit the first level
 * cache (the limits, in bytes, were found by experiment), else two: three groups of 16 lanes, or four of 8, which
 * finish sooner and wait as long. (A row waits for its entries that are still on their way to the cache, and the next
 * row often is the one just written.) */
#define TEAM (LANES == 16 ? (3 * 4 * LANES * TABLE <= 24576 ? 3 : 2) : (4 * 4 * LANES * TABLE <= 36864 ? 4 : 2))

/* In this order: first the vectors of numbers, then the arithmetic on them. */
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
#define SHARED (UPDATE == UPDATE_VR) /* besides their own tables, all lanes read two shared ones */
#define FROZEN (BOOTSTRAP == BOOTSTRAP_FROZEN ? (N_STATES + 1 + 15) / 16 * 16 : 0) /* whole cache lines of a lane's */

/* A step: a transition of every lane as the lanes read it. Where Q(s, a) stands (lanes.h), where the row of the next
 * state does (the spare row after termination), and the reward. BOOTSTRAP_FROZEN needs no row, but the next state's
 * number, N_STATES after termination. In SEQ and STR steps are unpacked once for all episodes. In RAN every lane goes
 * its own way: steps are dealt as the lanes draw them, BLOCK at a time, then learned from. So draws wait for no table
 * and learning for no draw, and many records are fetched at once from all over the chunks. (32 was faster than 8 and
 * 128.) */
#define BLOCK (SAMPLING == SAMPLING_RAN ? 32 : 1)
#define PLACE_OF(PAIR) ((PAIR) / N_ACTIONS * ROW + (PAIR) % N_ACTIONS)
struct step {
  _Alignas(4 * LANES) value_t reward[LANES];
  place_t entry[LANES];
  place_t next[LANES];
};

struct group {
  words_t length;
  words_t random;
  words_t origin;         /* the place where each lane's table begins */
  uint32_t passes[LANES]; /* of each lane until it rested */
  mask_t rests;           /* lanes whose last pass changed nothing */
  words_t start;          /* RAN: where among the team's records each lane's begin */
  words_t reciprocal;     /* (2^32 - 1) / length */
  mask_t choice[BLOCK];   /* SARSA: what draw_choice drew */
};

/* Steps of a team alternate as its groups do, so that one register leads to all of them, as one does to all tables. A
 * lane whose chunk ends before the team's longest has padding for the rest: it teaches the spare row nothing. */
struct team {
  value_t *tables;        /* one a lane, TABLE entries apart */
  value_t *before;        /* EARLY_EXIT: the tables as the last pass found them */
  const value_t *targets; /* UPDATE_VR: Tbar, and max Qbar(s, .) where a row begins; in the shape of a table */
  const value_t *values;
  value_t *frozen;                  /* BOOTSTRAP_FROZEN: that of struct aux, state s of lane l at s * LANES + l */
  const struct step *steps;         /* SEQ and STR: step i of group g is the one at i * groups + g */
  const struct transition *records; /* RAN: the chunks themselves */
  int64_t longest;
  int groups; /* TEAM, or fewer at the end */
  struct group group[TEAM];
  struct step dealt[BLOCK * TEAM];
};

int64_t lanes(void) { return LANES; }

int64_t team_cores(void) { return TEAM * LANES; }

/* Bytes of `steps` steps of a group; none in RAN, which reads the chunks themselves. */
int64_t steps_bytes(int64_t steps) { return SAMPLING == SAMPLING_RAN ? 0 : steps * (int64_t)sizeof(struct step); }

/* Groups of a team that have cores. */
static int groups_of(int64_t team, int64_t cores) {
  int64_t groups = (cores + LANES - 1) / LANES - team * TEAM;
  return groups < TEAM ? (int)groups : TEAM;
}

/* One lane of a team's steps: its core's chunk, then padding up to the team's longest. */
static void unpack_lane(struct step *steps, int64_t longest, int groups, int lane, const struct transition *chunk,
                        int64_t length) {
  uint32_t origin = TABLE_AT(lane), l = lane % LANES;
  struct step *step = steps + lane / LANES;
  for (int64_t i = 0; i < longest; i++, step += groups) {
    int fills = i < length;
    uint32_t next = !fills || ends(chunk[i]) ? N_STATES : next_of(chunk[i]);
    step->entry[l] = (place_t)(origin + (fills ? PLACE_OF(pair_of(chunk[i])) : SPARE));
    step->next[l] = (place_t)(BOOTSTRAP == BOOTSTRAP_FROZEN ? next : origin + next * ROW);
    step->reward[l] = fills ? chunk[i].reward : 0;
  }
}

/* Unpack the chunks of teams first .. last - 1, except in RAN. Core c owns records starts[c] .. starts[c + 1] - 1. The
 * steps of team t begin at step_starts[t], and each of its groups has as many as the longest of the team's chunks. */
void unpack(struct step *steps, const int64_t *step_starts, const struct transition *records, const int64_t *starts,
            int64_t cores, int64_t first, int64_t last) {
  if (SAMPLING == SAMPLING_RAN) return;
  for (int64_t team = first; team < last; team++) {
    int groups = groups_of(team, cores);
    int64_t longest = (step_starts[team + 1] - step_starts[team]) / groups;
    for (int lane = 0; lane < groups * LANES; lane++) {
      int64_t core = team * TEAM * LANES + lane, at = core < cores ? core : 0;
      int64_t length = core < cores ? starts[core + 1] - starts[core] : 0;
      unpack_lane(steps + step_starts[team], longest, groups, lane, records + starts[at], length);
    }
  }
}

#if ALGORITHM == ALGORITHM_SARSA
/* The draws of value_of_next in td_update.h: a lane that bootstraps draws once, and again on exploring. The action that
 * it explores, or -1, which is none, where the greedy one is taken. */
INLINE mask_t draw_choice(mask_t terminated, words_t *random, uint32_t explore_below) {
  words_t once = *random;
  mask_t explores = lcg_chance(&once, explore_below) & ~terminated;
  words_t twice = once;
  mask_t action = (mask_t)lcg_below(&twice, N_ACTIONS);
  *random = choose_words(terminated, *random, choose_words(explores, twice, once));
  return spread(action | ~explores);
}
#endif

/* What the places of a group count from. */
INLINE value_t *tables_of(const struct team *team, int g) { return team->tables + g * LANES * APART; }

#if BOOTSTRAP == BOOTSTRAP_FROZEN
/* freeze of td_update.h, for every state of every lane; after termination it is nothing: x + -0 is x for every x. */
static void freeze(struct team *team, int g, const struct learner_args *args) {
  value_t *frozen = team->frozen + g * LANES * FROZEN;
  for (uint32_t s = 0; s < N_STATES; s++) {
    _Alignas(uint64_t) place_t place[LANES]; /* as `fetch` reads them */
    for (int l = 0; l < LANES; l++) place[l] = (place_t)(TABLE_AT(g * LANES + l) + s * ROW);
    lanes_t value = largest_of_rows(tables_of(team, g), fetch(place));
    if (UPDATE == UPDATE_VR) value -= team->values[s * ROW];
    *(lanes_t *)(frozen + s * LANES) = discounted(value, args);
  }
  for (int l = 0; l < LANES; l++) frozen[N_STATES * LANES + l] = (value_t)-0.0f;
}

/* B of every lane's next state, by now discounted. */
INLINE lanes_t value_of_next(const struct team *team, int g, const struct step *step, mask_t choice) {
  (void)choice;
  const value_t *frozen = team->frozen + g * LANES * FROZEN;
  lanes_t value;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) value[l] = frozen[step->next[l] * LANES + l];
  return value;
}
#else
/* B of every lane's next state: the largest of its row, or the entry of SARSA's choice. After termination the spare row
 * stands for the next one: r + gamma * 0 is r. (It is +0 for an r of -0, but no entry that learns from either can
 * tell.) */
INLINE lanes_t value_of_next(const struct team *team, int g, const struct step *step, mask_t choice) {
  const value_t *tables = tables_of(team, g);
  places_t next = fetch(step->next);
#if ALGORITHM == ALGORITHM_Q_LEARNING
  (void)choice;
  return largest_of_rows(tables, next);
#else
  lanes_t column[ROW];
  load_columns(column, tables, next);
  lanes_t value = largest_of_columns(column);
  for (int a = 0; a < N_ACTIONS; a++) value = choose(choice == a, column[a], value);
  return value;
#endif
}
#endif

/* td_update of td_update.h: every lane learns from its transition. */
INLINE void learn(struct team *team, int g, const struct step *step, mask_t choice, const struct learner_args *args) {
  value_t *tables = tables_of(team, g);
  lanes_t value = value_of_next(team, g, step, choice), reward = *(const lanes_t *)step->reward;
  if (UPDATE == UPDATE_VR) reward = load_shared(team->targets, step->entry, g * LANES);
  if (UPDATE == UPDATE_VR && BOOTSTRAP == BOOTSTRAP_CURRENT) value -= load_shared(team->values, step->next, g * LANES);
  lanes_t target = bootstrapped_target(reward, value, args);
  places_t entry = fetch(step->entry);
  store_entries(tables, entry, updated(load_entries(tables, entry), target, args));
}

#if SAMPLING == SAMPLING_RAN
/* A draw from 0 .. length - 1 in every lane: x % n = x - n * floor(x / n). With m = floor((2^32 - 1) / n), the upper
 * half of x * m is that quotient or one less, since n * m >= 2^32 - n and so x / n - x * m / 2^32 is from 0 to
 * x / 2^32 < 1. If it is one less, n can be subtracted once more; if not, that wraps around to a larger number. */
INLINE words_t draw_index(const struct group *group, words_t *random) {
  words_t x = lcg_folded(random);
  words_t left = x - group->length * upper_product(x, group->reciprocal), less = left - group->length;
  return choose_words(less < left, less, left);
}

/* Step i of a pass, and in SARSA its choice. A lane that has made its draws takes padding and does not draw. */
INLINE void deal(struct team *team, int g, int groups, int64_t i, const struct learner_args *args) {
  struct group *group = &team->group[g];
  words_t drawn = group->random;
  words_t at = draw_index(group, &drawn);
  mask_t draws = group->length > (uint32_t)i;
  group->random = choose_words(draws, drawn, group->random);
  at = group->start + (at & (words_t)draws);
  words_t packed, reward;
  load_records(&packed, &reward, team->records, at);
  reward &= (words_t)draws;
  mask_t terminated = ENDS_IN((mask_t)packed) | ~draws;
  words_t pair = PAIR_IN(packed);
  words_t entry = choose_words(draws, PLACE_OF(pair), (words_t){0} + SPARE) + group->origin;
  words_t next = choose_words(terminated, (words_t){0} + N_STATES, NEXT_IN(packed));
  if (BOOTSTRAP != BOOTSTRAP_FROZEN) next = next * ROW + group->origin;
  struct step *step = &team->dealt[i % BLOCK * groups + g];
  *(lanes_t *)step->reward = (lanes_t)reward;
  store_places(step->entry, entry, next);
#if ALGORITHM == ALGORITHM_SARSA
  group->choice[i % BLOCK] = draw_choice(terminated, &group->random, args->explore_below);
#else
  (void)args;
#endif
}

INLINE void update(struct team *team, int g, int groups, int64_t i, const struct learner_args *args) {
  learn(team, g, &team->dealt[i % BLOCK * groups + g], team->group[g].choice[i % BLOCK], args);
}
#else
INLINE void update(struct team *team, int g, int groups, int64_t i, const struct learner_args *args) {
  const struct step *step = &team->steps[i * groups + g];
  mask_t choice = {0};
#if ALGORITHM == ALGORITHM_SARSA
  typedef place_t next_t __attribute__((vector_size(sizeof(place_t) * LANES)));
  words_t next = __builtin_convertvector(*(const next_t *)step->next, words_t);
  mask_t terminated = spread((mask_t)(next == team->group[g].origin + SPARE));
  choice = draw_choice(terminated, &team->group[g].random, args->explore_below);
#endif
  learn(team, g, step, choice, args);
}
#endif

/* Steps first, first + STRIDE, .. below last of a whole team, interleaved. They are unrolled, since a CPU predicts
 * from an instruction's address which store a load must wait for: with instructions of its own a group waits for
 * itself, not for the one before it. */
INLINE void in_turns(struct team *team, int64_t first, int64_t last, const struct learner_args *args,
                     void (*work)(struct team *, int, int, int64_t, const struct learner_args *)) {
  if (team->groups < TEAM) {
    for (int64_t i = first; i < last; i += STRIDE)
      for (int g = 0; g < team->groups; g++) work(team, g, team->groups, i, args);
    return;
  }
  for (int64_t i = first; i < last; i += STRIDE) {
#pragma GCC unroll 4
    for (int g = 0; g < TEAM; g++) work(team, g, TEAM, i, args);
  }
}

/* One episode of a whole team. */
static void pass(struct team *team, const struct learner_args *args) {
#if BOOTSTRAP == BOOTSTRAP_FROZEN
  for (int g = 0; g < team->groups; g++) freeze(team, g, args);
#endif
#if SAMPLING == SAMPLING_RAN
  for (int64_t first = 0; first < team->longest; first += BLOCK) {
    int64_t last = first + BLOCK < team->longest ? first + BLOCK : team->longest;
    in_turns(team, first, last, args, deal);
    in_turns(team, first, last, args, update);
  }
#else
  for (int64_t offset = 0; offset < STRIDE; offset++) in_turns(team, offset, team->longest, args, update);
#endif
}

/* Count a pass for every lane that does not rest yet. A pass of SEQ or STR Q-learning is a function of the table alone,
 * so one that left the table unchanged would do so for ever: then the lane rests, and its further passes count for
 * nothing. (Single updates may well have moved an entry and moved it back.) Returns whether any lane still moves. */
static int count_pass(struct team *team, int g) {
  struct group *group = &team->group[g];
  int moves = 0;
  for (int l = 0; l < LANES; l++) {
    group->passes[l] += !group->rests[l];
#if EARLY_EXIT
    size_t at = (size_t)(g * LANES + l) * TABLE, bytes = TABLE * sizeof(value_t);
    group->rests[l] = -!memcmp(team->before + at, team->tables + at, bytes);
    memcpy(team->before + at, team->tables + at, bytes);
#endif
    moves |= !group->rests[l];
  }
  return moves;
}

static void train_team(struct team *team, const struct learner_args *args) {
  int moves = 1;
  for (uint32_t episode = 0; episode < args->episodes && moves; episode++) {
    pass(team, args);
    moves = 0;
    for (int g = 0; g < team->groups; g++) moves |= count_pass(team, g);
  }
}

/* The least number, for padding. */
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
#define LEAST (-__builtin_inff())
#else
#define LEAST INT32_MIN
#endif

/* A table of the host's in the engine's shape: padded rows, and the spare one at zero. */
static void widen(value_t *wide, const value_t *table) {
  for (int64_t i = 0; i < TABLE; i++) wide[i] = LEAST;
  for (int64_t s = 0; s < N_STATES; s++) memcpy(wide + s * ROW, table + s * N_ACTIONS, N_ACTIONS * sizeof(value_t));
  memset(wide + SPARE, 0, N_ACTIONS * sizeof(value_t));
}

/* keep_values of td_update.h, where the rows of a widened table begin. */
static void keep_values(value_t *values, const value_t *table) {
  for (int64_t s = 0; s < N_STATES; s++) {
    const value_t *row = table + s * N_ACTIONS;
    value_t best = row[0];
    for (int64_t a = 1; a < N_ACTIONS; a++)
      if (row[a] > best) best = row[a];
    values[s * ROW] = best;
  }
}

/* Make a team's lanes ready: all start from the same table. */
static void start(struct team *team, int64_t number, const value_t *table, const int64_t *starts,
                  const struct learner_args *args, int64_t cores) {
  team->groups = groups_of(number, cores);
  int64_t core = number * TEAM * LANES;
  team->longest = 0;
  for (int lane = 0; lane < team->groups * LANES; lane++, core++) {
    struct group *group = &team->group[lane / LANES];
    int l = lane % LANES, fills = core < cores;
    if (l == 0) *group = (struct group){0};
    if (fills && args[core].transitions > team->longest) team->longest = args[core].transitions;
    group->origin[l] = TABLE_AT(lane);
    group->length[l] = fills ? args[core].transitions : 0;
    group->random[l] = fills ? args[core].random_state : 0;
    group->start[l] = fills ? (uint32_t)(starts[core] - starts[number * TEAM * LANES]) : 0;
    group->reciprocal[l] = fills ? UINT32_MAX / args[core].transitions : 0;
  }
  widen(team->tables, table);
  for (int lane = 1; lane < team->groups * LANES; lane++)
    memcpy(team->tables + lane * TABLE, team->tables, TABLE * sizeof(value_t));
  if (EARLY_EXIT) memcpy(team->before, team->tables, team->groups * LANES * TABLE * sizeof(value_t));
}

/* Hand back a team's tables, where its generators stopped, and how many passes each core made. */
static void finish(const struct team *team, int64_t number, value_t *local, struct learner_args *args, int64_t *passes,
                   int64_t cores) {
  for (int64_t lane = 0, core = number * TEAM * LANES; lane < TEAM * LANES && core < cores; lane++, core++) {
    for (int64_t s = 0; s < N_STATES; s++)
      memcpy(local + (core * N_STATES + s) * N_ACTIONS, team->tables + lane * TABLE + s * ROW,
             N_ACTIONS * sizeof(value_t));
    args[core].random_state = team->group[lane / LANES].random[lane % LANES];
    passes[core] = team->group[lane / LANES].passes[lane % LANES];
  }
}

/* Train the cores of teams first .. last - 1 from `table`, in UPDATE_VR with `targets`; core c's own ends at
 * local + c * N_STATES * N_ACTIONS. Coefficients and episodes are those of the first of these cores. Returns 0, or -1
 * where memory is short. */
int train_teams(const value_t *table, const value_t *targets, value_t *local, const struct step *steps,
                const int64_t *step_starts, const struct transition *records, const int64_t *starts,
                struct learner_args *args, int64_t *passes, int64_t cores, int64_t first, int64_t last) {
  /* Whole pages, so that where the tables fall in the cache, and with it the speed, is the same in every process. */
  size_t bytes = (((1 + EARLY_EXIT) * TEAM * LANES + 2 * SHARED) * TABLE + TEAM * LANES * FROZEN) * sizeof(value_t);
  value_t *tables = aligned_alloc(PAGE_BYTES, (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
  if (!tables) return -1;
  value_t *shared_targets = tables + (1 + EARLY_EXIT) * TEAM * LANES * TABLE, *values = shared_targets + TABLE;
  if (SHARED) {
    widen(shared_targets, targets);
    memset(values, 0, TABLE * sizeof(value_t));
    keep_values(values, table);
  }
  struct learner_args coefficients = args[first * TEAM * LANES];
#if NUMBER_FORMAT == NUMBER_FORMAT_INT32
  as_multiplier(&coefficients.alpha, &coefficients.alpha_scale);
  as_multiplier(&coefficients.gamma, &coefficients.gamma_scale);
#endif
  struct team team = {.tables = tables,
                      .before = tables + TEAM * LANES * TABLE,
                      .targets = shared_targets,
                      .values = values,
                      .frozen = shared_targets + 2 * SHARED * TABLE};
  for (int64_t number = first; number < last; number++) {
    if (SAMPLING != SAMPLING_RAN) team.steps = steps + step_starts[number];
    team.records = records + starts[number * TEAM * LANES];
    start(&team, number, table, starts, args, cores);
    train_team(&team, &coefficients);
    finish(&team, number, local, args, passes, cores);
  }
  free(tables);
  return 0;
}
