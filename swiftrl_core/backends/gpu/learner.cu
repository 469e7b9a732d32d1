/* Many virtual PIM cores on a GPU: what dpu_src/learner.c or tasklet_learner.c does on one DPU, on every core at once.
 *
 * One lane is one virtual core. A core's updates are a chain, each reading what the last one wrote, so nothing within
 * a core can run in parallel; there are thousands of cores, and within a round they share nothing. Hence no lane ever
 * waits for another (no barrier, no shuffle, no atomic), and a block is one warp: 32 cores, a tile.
 *
 *   records  Row i of all the tile's chunks stands together, 32 times 8 bytes. In SEQ and STR the lanes of a warp are
 *            always at the same i (but in the one tile where chunks differ in length), so a load is one coalesced 256
 *            bytes. RAN draws an i for each lane: no layout helps.
 *   tables   Where 32 of them fit in a block's shared memory (FrozenLake: 8 KB), they live there, interleaved: entry e
 *            of lane l at 32 e + l. Whatever entries the lanes look up, each keeps to its own bank: no conflicts. The
 *            tile goes out to global memory as it stands, coalesced. Where they do not fit (Taxi: 384 KB), each stands
 *            alone in global memory: a row of actions is then one or two sectors of 32 bytes, and the caches serve the
 *            rows that chunks revisit episode after episode, few in a chunk of few transitions.
 *
 * The next record is loaded before the update that precedes it, so that its latency hides behind the chain.
 *
 * TABLES_ONE_FOR_ALL is the other shape, a baseline: a single table in global memory, whose entries all lanes
 * update atomically. What a lane reads then depends on who came first: its results differ from run to run.
 *
 * Build switches: ALGORITHM, SAMPLING, NUMBER_FORMAT, UPDATE, ALPHA_SCHEDULE, BOOTSTRAP (layout.h), N_STATES,
 * N_ACTIONS, TABLES (tile.h). This is also C11, so that a test can run it on the host, with loops for blocks and
 * threads. */
#include "tile.h"

#define STRIDE (SAMPLING == SAMPLING_STR ? STR_STRIDE : 1)

#ifdef __cplusplus
extern "C" {
#endif

#if TABLES == TABLES_IN_SHARED_MEMORY
extern __shared__ value_t tile_tables[]; /* TABLE_ENTRIES * LANES; BOOTSTRAP_FROZEN: and N_STATES * LANES more */
#endif

/* A transition, in one load of 8 bytes. */
INLINE struct transition load(const uint64_t *record) {
  union {
    uint64_t word;
    struct transition transition;
  } loaded;
  loaded.word = *record;
  return loaded.transition;
}

#if TABLES == TABLES_ONE_FOR_ALL

typedef union {
  value_t value;
  uint32_t bits;
} entry_t;

/* Write only if the entry still is what the step was taken from, else take the step again. Just adding the step would
 * do for a few lanes; a thousand, each taking a tenth of the way from the same stale entry, overshoot without bound. */
INLINE void learn_here(value_t *q, struct transition t, const struct learner_args *args, uint32_t *random_state,
                       const struct aux *aux) {
  value_t target = target_of(t, q, args, random_state, aux);
  value_t *entry = entry_of(t, q);
  entry_t found, seen, wanted;
  found.value = *entry;
  do {
    seen = found;
    wanted.value = updated(seen.value, target, args);
    found.bits = atomicCAS((uint32_t *)entry, seen.bits, wanted.bits);
  } while (found.bits != seen.bits);
}

#else

INLINE void learn_here(value_t *q, struct transition t, const struct learner_args *args, uint32_t *random_state,
                       const struct aux *aux) {
  td_update(q, t, args, random_state, aux);
}

#endif

/* Where a pass goes after row i: on by the stride, else to the next offset, else back to the front. */
INLINE uint32_t row_after(uint32_t i, uint32_t rows) {
  if (i + STRIDE < rows) return i + STRIDE;
  uint32_t offset = i % STRIDE + 1;
  return offset < STRIDE && offset < rows ? offset : 0;
}

/* Make all the passes of a round over a chunk whose rows are LANES apart; return the generator's state. */
INLINE uint32_t train_core(value_t *q, const uint64_t *__restrict__ chunk, struct learner_args a, uint32_t episodes,
                           const struct aux *aux) {
  uint32_t random_state = a.random_state;
  uint64_t updates = (uint64_t)a.transitions * episodes;
#if SAMPLING == SAMPLING_RAN
  for (uint64_t n = 0; n < updates; n++) {
    uint64_t row = lcg_below(&random_state, a.transitions);
    learn_here(q, load(&chunk[row * LANES]), &a, &random_state, aux);
  }
#else
  uint32_t row = 0;
  struct transition t = load(chunk);
  for (uint64_t n = 0; n < updates; n++) {
    if (BOOTSTRAP == BOOTSTRAP_FROZEN && row == 0)
      for (uint32_t s = 0; s < N_STATES; s++) freeze(s, q, &a, aux);
    row = row_after(row, a.transitions);
    struct transition next = load(&chunk[(uint64_t)row * LANES]);
    learn_here(q, t, &a, &random_state, aux);
    t = next;
  }
#endif
  return random_state;
}

/* One round. `table` is where every core starts, `tables` (tile.h: place) what each ends with; TABLES_ONE_FOR_ALL
 * learns in `table` and leaves `tables` alone, TABLES_IN_GLOBAL_MEMORY expects `tables` filled by start_tables.
 * `records` are tiles of rows, tile t from tile_starts[t] on. The argument `episodes` counts, not the member of args,
 * so that args go to the GPU once; their random_state is left where the next round goes on. The last four are
 * those of struct aux: the same for all cores but `visits`, whose entries stand as those of `tables`, and
 * `frozen`, N_STATES a core, for which TABLES_IN_SHARED_MEMORY has a place of its own. */
__global__ void train(value_t *table, value_t *tables, const uint64_t *__restrict__ records,
                      const uint64_t *__restrict__ tile_starts, struct learner_args *args, uint32_t cores,
                      uint32_t episodes, const value_t *targets, const value_t *values, uint16_t *visits,
                      value_t *frozen) {
  uint64_t core = thread_number();
  if (core >= cores) return;
  struct aux aux = {targets, values, visits + place(core, 0), frozen + core * N_STATES};
  if (ALPHA_SCHEDULE != ALPHA_SCHEDULE_CONSTANT)
    for (uint32_t entry = 0; entry < TABLE_ENTRIES; entry++) aux.visits[entry * TABLE_STRIDE] = 0;
  const uint64_t *chunk = records + tile_starts[blockIdx.x] + threadIdx.x;
#if TABLES == TABLES_IN_SHARED_MEMORY
  value_t *q = tile_tables + threadIdx.x;
  aux.frozen = q + TABLE_ENTRIES * LANES;
  for (uint32_t entry = 0; entry < TABLE_ENTRIES; entry++) q[entry * LANES] = table[entry];
  args[core].random_state = train_core(q, chunk, args[core], episodes, &aux);
  for (uint32_t entry = 0; entry < TABLE_ENTRIES; entry++) tables[place(core, entry)] = q[entry * LANES];
#elif TABLES == TABLES_IN_GLOBAL_MEMORY
  (void)table;
  args[core].random_state = train_core(tables + place(core, 0), chunk, args[core], episodes, &aux);
#else
  (void)tables;
  args[core].random_state = train_core(table, chunk, args[core], episodes, &aux);
#endif
}

/* Give every core in global memory its copy of the table; one thread an entry and core, so that stores coalesce. */
__global__ void start_tables(const value_t *table, value_t *tables, uint32_t cores) {
  uint64_t i = thread_number();
  if (i < (uint64_t)cores * TABLE_ENTRIES) tables[i] = table[i % TABLE_ENTRIES];
}

/* Lay rows out as tiles, once, after the upload: rows of core c from starts[c] on; a lane a core. */
__global__ void lay_out_records(const uint64_t *rows, const uint64_t *starts, const uint64_t *tile_starts,
                                uint64_t *records, uint32_t cores) {
  uint64_t core = thread_number();
  if (core >= cores) return;
  uint64_t *tile = records + tile_starts[blockIdx.x] + threadIdx.x;
  for (uint64_t i = starts[core]; i < starts[core + 1]; i++, tile += LANES) *tile = rows[i];
}

/* Lay the tables out as the host expects them, core by core; one thread an entry and core. */
__global__ void gather_tables(const value_t *tables, value_t *gathered, uint32_t cores) {
  uint64_t i = thread_number();
  if (i < (uint64_t)cores * TABLE_ENTRIES) gathered[i] = tables[place(i / TABLE_ENTRIES, i % TABLE_ENTRIES)];
}

#ifdef __cplusplus
}
#endif
