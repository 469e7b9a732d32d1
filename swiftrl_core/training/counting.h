/* Counts of a data set: how often each pair occurs, its total reward, and the states it led to.
 *
 * The order of transitions does not matter, so these counts hold everything there is to learn from them; and there are
 * fewer counts than rows, since a pair keeps leading to the same few states. */
#ifndef SWIFTRL_COUNTING_H
#define SWIFTRL_COUNTING_H

#include <stdint.h>
#include <stdlib.h>

#include "layout.h"

/* Pairs of one table and their outcomes: pair p has visits[p] rows, and led to state next[k] without terminating in
 * count[k] of them, for k from first[p] to end[p] - 1. */
struct model {
  int64_t states, actions;
  int64_t *visits, *first, *end;
  double *rewards; /* sums over the rows, in the records' own units */
  uint32_t *next, *count;
};

static void count_pairs(struct model *m, const struct transition *records, int64_t rows) {
  for (int64_t i = 0; i < rows; i++) {
    uint32_t pair = pair_of(records[i]);
    m->visits[pair]++;
    m->end[pair] += !ends(records[i]);
    m->rewards[pair] += (double)records[i].reward;
  }
}

/* Put next states in order of pair (a counting sort); first[p] and end[p] become where those of p stand. */
static void sort_by_pair(struct model *m, const struct transition *records, int64_t rows) {
  int64_t sum = 0;
  for (int64_t p = 0; p < m->states * m->actions; p++) {
    int64_t bootstraps = m->end[p];
    m->first[p] = m->end[p] = sum;
    sum += bootstraps;
  }
  for (int64_t i = 0; i < rows; i++) {
    if (!ends(records[i])) m->next[m->end[pair_of(records[i])]++] = next_of(records[i]);
  }
}

/* Replace the next states of every pair by the different ones among them and how often they occur. `seen` has a zero
 * for every state, and has again in the end. */
static void merge_outcomes(struct model *m, uint32_t *seen) {
  for (int64_t p = 0; p < m->states * m->actions; p++) {
    int64_t to = m->first[p];
    for (int64_t k = m->first[p]; k < m->end[p]; k++) {
      uint32_t s = m->next[k];
      if (!seen[s]++) m->next[to++] = s;
    }
    for (int64_t k = m->first[p]; k < to; k++) {
      m->count[k] = seen[m->next[k]];
      seen[m->next[k]] = 0;
    }
    m->end[p] = to;
  }
}

/* Fill in a model whose arrays hold zeros; next and count have room for all rows. Returns 0, or -1 where memory is
 * short. */
static int count(struct model *m, const struct transition *records, int64_t rows) {
  uint32_t *seen = calloc((size_t)m->states, 4);
  if (!seen) return -1;
  count_pairs(m, records, rows);
  sort_by_pair(m, records, rows);
  merge_outcomes(m, seen);
  free(seen);
  return 0;
}

#endif
