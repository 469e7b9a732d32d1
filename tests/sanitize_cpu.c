/* Runs the CPU engine and its baselines under a sanitizer: threads train disjoint teams, then share a table. Built with
 * engine.c, scalar.c and shared.c by tests/test_cpu_sanitizers.py; exits with 0 if lanes and scalar code agree. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

#define CORES 150
#define THREADS 3
#define EPISODES 5
#define ENTRIES (N_STATES * N_ACTIONS)

struct step;
int64_t lanes(void);
int64_t team_cores(void);
int64_t steps_bytes(int64_t steps);
void unpack(struct step *steps, const int64_t *step_starts, const struct transition *records, const int64_t *starts,
            int64_t cores, int64_t first, int64_t last);
int train_teams(const value_t *table, const value_t *targets, value_t *local, const struct step *steps,
                const int64_t *step_starts, const struct transition *records, const int64_t *starts,
                struct learner_args *args, int64_t *passes, int64_t cores, int64_t first, int64_t last);
void train_cores(const value_t *table, const value_t *targets, value_t *local, const struct transition *records,
                 const int64_t *starts, struct learner_args *args, int64_t *passes, int64_t first, int64_t last);
void train_shared(value_t *q, const struct transition *chunk, struct learner_args *args);

static int64_t starts[CORES + 1], step_starts[CORES + 1], passes[CORES], passes_again[CORES];
static struct learner_args args[CORES], again[CORES];
static value_t table[ENTRIES], targets[ENTRIES], by_lanes[CORES * ENTRIES], by_core[CORES * ENTRIES];
static struct transition *records;
static struct step *steps;
static int64_t teams;

static uint32_t draw(uint32_t n) { return (uint32_t)rand() % n; }

static void make_chunks(void) {
  for (int c = 0; c < CORES; c++) starts[c + 1] = starts[c] + 1 + draw(40);
  records = malloc(sizeof(*records) * (size_t)starts[CORES]);
  for (int e = 0; e < ENTRIES; e++) table[e] = (value_t)draw(1000), targets[e] = (value_t)draw(1000);
  for (int64_t i = 0; i < starts[CORES]; i++) {
    records[i].step = draw(ENTRIES) | draw(N_STATES) << 16 | (uint32_t)(draw(8) == 0) << 31;
    records[i].reward = (value_t)draw(1000);
  }
  for (int c = 0; c < CORES; c++) {
    args[c] = (struct learner_args){(uint32_t)(starts[c + 1] - starts[c]), EPISODES, draw(1u << 30), 1u << 29,
                                    /* FP32: 0.1, 0.9; INT32: 1/10, 9/10; INT32_POW2: 819/2^13, 1 - 819/2^13 */
                                    NUMBER_FORMAT == 0   ? (value_t)0.1
                                    : NUMBER_FORMAT == 1 ? 1
                                                         : 819,
                                    NUMBER_FORMAT == 1 ? 10 : 13,
                                    NUMBER_FORMAT == 0   ? (value_t)0.9
                                    : NUMBER_FORMAT == 1 ? 9
                                                         : 819,
                                    NUMBER_FORMAT == 1 ? 10 : 13};
    again[c] = args[c];
  }
}

static void make_teams(void) {
  teams = (CORES + team_cores() - 1) / team_cores();
  for (int64_t t = 0; t < teams; t++) {
    int64_t longest = 0, first = t * team_cores(), last = first + team_cores() < CORES ? first + team_cores() : CORES;
    for (int64_t c = first; c < last; c++)
      if (starts[c + 1] - starts[c] > longest) longest = starts[c + 1] - starts[c];
    step_starts[t + 1] = step_starts[t] + longest * ((last - first + lanes() - 1) / lanes());
  }
  steps = aligned_alloc(64, (size_t)(steps_bytes(step_starts[teams]) + 63) / 64 * 64);
  unpack(steps, step_starts, records, starts, CORES, 0, teams);
}

static void *lanes_thread(void *number) {
  int64_t t = (int64_t)(intptr_t)number;
  int64_t failed = train_teams(table, targets, by_lanes, steps, step_starts, records, starts, args, passes, CORES,
                               teams * t / THREADS, teams * (t + 1) / THREADS);
  return (void *)(intptr_t)failed;
}

static void *shared_thread(void *number) {
  int64_t c = (int64_t)(intptr_t)number;
  train_shared(table, records + starts[c], &again[c]);
  return 0;
}

static int run(void *(*work)(void *)) {
  pthread_t thread[THREADS];
  int failed = 0;
  for (intptr_t t = 0; t < THREADS; t++) pthread_create(&thread[t], 0, work, (void *)t);
  for (int t = 0; t < THREADS; t++) {
    void *result;
    pthread_join(thread[t], &result);
    failed |= result != 0;
  }
  return failed;
}

int main(void) {
  srand(1);
  make_chunks();
  make_teams();
  if (run(lanes_thread)) return 2;
  train_cores(table, targets, by_core, records, starts, again, passes_again, 0, CORES);
  if (memcmp(by_lanes, by_core, sizeof(by_core))) return 3;
  if (memcmp(args, again, sizeof(args))) return 4;
  if (memcmp(passes, passes_again, sizeof(passes))) return 5;
  if (run(shared_thread)) return 6;
  free(records);
  free(steps);
  return 0;
}
