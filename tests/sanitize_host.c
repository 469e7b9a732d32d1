/* Runs the host's own C under a sanitizer: dealing to tasklets, counts, sums. Built with dealing.c, counting.c and
 * aggregation.c by tests/test_cpu_sanitizers.py. Every array has its exact size, so that a step beyond its end is seen;
 * exits with 0 if what came out adds up to what went in. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

union word {
  struct run run;
  struct outcome outcome;
};

int count_words(int64_t *words, const struct transition *records, const int64_t *starts, int64_t cores,
                int64_t entries);
int deal_chunks(union word *words, const int64_t *word_starts, uint32_t *shares, const struct transition *records,
                const int64_t *starts, int64_t cores, int64_t entries, int64_t states, int64_t tasklets,
                int64_t longest);
int count_outcomes(const struct transition *records, int64_t rows, int64_t states, int64_t actions, int64_t *visits,
                   double *rewards, int64_t *first, int64_t *end, uint32_t *next, uint32_t *count);
void count_visits(const struct transition *records, const int64_t *starts, int64_t cores, int64_t entries,
                  int32_t *visits);
void sum(const VALUE *tables, int64_t cores, int64_t entries, SUM *total);
void weighted_sum(const VALUE *tables, const int32_t *weights, int64_t cores, int64_t entries, SUM *total,
                  int64_t *weight);

/* Chunks of random transitions. */
struct data {
  int64_t states, actions, entries, cores, rows, longest;
  int64_t *starts;
  struct transition *records;
};

static uint32_t draw(int64_t n) { return (uint32_t)(rand() % n); }

static void *zeros(int64_t n, size_t size) { return calloc((size_t)n, size); }

static struct data make(int64_t states, int64_t actions, int64_t cores, int64_t longest) {
  struct data d = {states, actions, states * actions, cores, 0, longest, zeros(cores + 1, 8), 0};
  for (int64_t c = 0; c < cores; c++) d.starts[c + 1] = d.starts[c] + (c ? 1 + draw(longest) : longest);
  d.rows = d.starts[cores];
  d.records = zeros(d.rows, sizeof(*d.records));
  for (int64_t i = 0; i < d.rows; i++) {
    d.records[i].step = draw(d.entries) | draw(states) << 16 | (uint32_t)(draw(3) == 0) << 31;
    d.records[i].reward = (value_t)draw(1000) - 500;
  }
  return d;
}

/* Follow every share run by run: is each transition in it, and nothing else? */
static int deals(const struct data *d, int64_t tasklets) {
  int64_t *word_starts = zeros(d->cores + 1, 8), dealt = 0;
  if (count_words(word_starts + 1, d->records, d->starts, d->cores, d->entries)) return 0;
  for (int64_t c = 0; c < d->cores; c++) word_starts[c + 1] += word_starts[c];
  union word *words = malloc((size_t)word_starts[d->cores] * sizeof(*words));
  uint32_t *shares = malloc((size_t)(d->cores * (tasklets + 1)) * sizeof(*shares));
  int failed = deal_chunks(words, word_starts, shares, d->records, d->starts, d->cores, d->entries, d->states, tasklets,
                           d->longest);
  for (int64_t c = 0; c < d->cores; c++) {
    const uint32_t *own = shares + c * (tasklets + 1);
    for (int64_t t = 0; t < tasklets; t++)
      for (uint32_t at = own[t]; at < own[t + 1];) {
        struct run run = words[word_starts[c] + at].run;
        failed |= run.pair >= d->entries || run.transitions == 0;
        dealt += run.transitions;
        at += 1 + run.transitions;
      }
    failed |= own[0] != 0 || own[tasklets] != word_starts[c + 1] - word_starts[c];
  }
  free(word_starts), free(words), free(shares);
  return !failed && dealt == d->rows;
}

/* Do visits and outcomes add up to the rows? */
static int counts(const struct data *d) {
  int64_t *visits = zeros(d->entries, 8), *first = zeros(d->entries, 8), *end = zeros(d->entries, 8);
  double *rewards = zeros(d->entries, 8);
  uint32_t *next = malloc((size_t)d->rows * 4), *count = malloc((size_t)d->rows * 4);
  int32_t *by_core = zeros(d->cores * d->entries, 4);
  int64_t rows = 0, led_on = 0, by_cores = 0, terminated = 0;
  int failed = count_outcomes(d->records, d->rows, d->states, d->actions, visits, rewards, first, end, next, count);
  count_visits(d->records, d->starts, d->cores, d->entries, by_core);
  for (int64_t p = 0; p < d->entries; p++) {
    rows += visits[p];
    for (int64_t k = first[p]; k < end[p]; k++) led_on += count[k];
  }
  for (int64_t i = 0; i < d->rows; i++) terminated += ends(d->records[i]);
  for (int64_t e = 0; e < d->cores * d->entries; e++) by_cores += by_core[e];
  free(visits), free(first), free(end), free(rewards), free(next), free(count), free(by_core);
  return !failed && rows == d->rows && by_cores == d->rows && led_on == d->rows - terminated;
}

/* Tables of the largest entries there are, each with weight 2: twice the plain sum. */
static int sums(const struct data *d) {
  int64_t n = d->cores * d->entries, unequal = 0;
  VALUE *tables = zeros(n, sizeof(VALUE));
  int32_t *weights = zeros(n, 4);
  SUM *plain = zeros(d->entries, sizeof(SUM)), *weighted = zeros(d->entries, sizeof(SUM));
  int64_t *weight = zeros(d->entries, 8);
  for (int64_t e = 0; e < n; e++) tables[e] = (VALUE)INT32_MIN, weights[e] = 2;
  sum(tables, d->cores, d->entries, plain);
  weighted_sum(tables, weights, d->cores, d->entries, weighted, weight);
  for (int64_t e = 0; e < d->entries; e++) {
    unequal += plain[e] != (SUM)INT32_MIN * (SUM)d->cores;
    unequal += weighted[e] != 2 * plain[e] || weight[e] != 2 * d->cores;
  }
  free(tables), free(weights), free(plain), free(weighted), free(weight);
  return unequal == 0;
}

int main(void) {
  static const int64_t shapes[][4] = {
      {1, 1, 1, 1}, {1, 3, 5, 40}, {16, 4, 7, 300}, {500, 6, 3, 50}, {65536 / 4, 4, 2, 9}};
  srand(1);
  for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
    struct data d = make(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
    for (int64_t tasklets = 1; tasklets <= 24; tasklets++)
      if (!deals(&d, tasklets)) return 2;
    if (!counts(&d)) return 3;
    if (!sums(&d)) return 4;
    free(d.starts), free(d.records);
  }
  return 0;
}
