/* Partitions chunks among tasklets, pair by pair; see dealing.py. Rewards are copied as 32-bit words, whatever they
 * mean, so one build serves all number formats: NUMBER_FORMAT is that of INT32. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

union word {
  struct run run;
  struct outcome outcome;
};

/* A pair of the current chunk. */
struct pair {
  uint32_t transitions;
  uint32_t tasklet;
  uint32_t place; /* of its next outcome, in the chunk's words */
};

/* How often the chunk holds each of `entries` pairs; returns how many it holds at all. */
static int64_t count(struct pair *pairs, int64_t entries, const struct transition *chunk, int64_t length) {
  int64_t held = 0;
  memset(pairs, 0, (size_t)entries * sizeof(*pairs));
  for (int64_t i = 0; i < length; i++) held += pairs[pair_of(chunk[i])].transitions++ == 0;
  return held;
}

/* The chunk's pairs, those with most transitions first, of equals the lower: a sort by counting. `behind` has room for
 * each number of transitions up to `length`. */
static void order_by_length(uint32_t *order, uint32_t *behind, const struct pair *pairs, int64_t entries,
                            int64_t length) {
  memset(behind, 0, (size_t)(length + 1) * sizeof(*behind));
  for (int64_t p = 0; p < entries; p++) behind[pairs[p].transitions]++;
  uint32_t before = 0;
  for (int64_t n = length; n > 0; n--) {
    uint32_t as_long = behind[n];
    behind[n] = before;
    before += as_long;
  }
  for (int64_t p = 0; p < entries; p++)
    if (pairs[p].transitions) order[behind[pairs[p].transitions]++] = (uint32_t)p;
}

/* Give each pair to the tasklet with the least work so far, the first of equals; `shares` becomes where each
 * begins. */
static void choose_tasklets(struct pair *pairs, const uint32_t *order, int64_t held, uint32_t *shares,
                            int64_t tasklets) {
  memset(shares, 0, (size_t)(tasklets + 1) * sizeof(*shares));
  uint32_t *load = shares + 1;
  for (int64_t i = 0; i < held; i++) {
    struct pair *pair = &pairs[order[i]];
    for (int64_t t = 1; t < tasklets; t++)
      if (load[t] < load[pair->tasklet]) pair->tasklet = (uint32_t)t;
    load[pair->tasklet] += pair->transitions + 1;
  }
  for (int64_t t = 1; t <= tasklets; t++) shares[t] += shares[t - 1];
}

/* Write each pair's head where its tasklet has got to, pairs in ascending order, then the outcomes behind their
 * heads. */
static void write_words(union word *words, struct pair *pairs, int64_t entries, const uint32_t *shares,
                        uint32_t *reached, int64_t tasklets, const struct transition *chunk, int64_t length,
                        uint32_t states) {
  memcpy(reached, shares, (size_t)tasklets * sizeof(*reached));
  for (int64_t p = 0; p < entries; p++) {
    if (!pairs[p].transitions) continue;
    uint32_t head = reached[pairs[p].tasklet];
    words[head].run = (struct run){(uint32_t)p, pairs[p].transitions};
    pairs[p].place = head + 1;
    reached[pairs[p].tasklet] += pairs[p].transitions + 1;
  }
  for (int64_t i = 0; i < length; i++) {
    uint32_t next = ends(chunk[i]) ? states : next_of(chunk[i]);
    words[pairs[pair_of(chunk[i])].place++].outcome = (struct outcome){next, chunk[i].reward};
  }
}

/* How many words each chunk becomes. Core c owns records starts[c] .. starts[c + 1] - 1. Returns 0, or -1 where memory
 * is short. */
int count_words(int64_t *words, const struct transition *records, const int64_t *starts, int64_t cores,
                int64_t entries) {
  struct pair *pairs = malloc((size_t)entries * sizeof(*pairs));
  if (!pairs) return -1;
  for (int64_t c = 0; c < cores; c++) {
    int64_t length = starts[c + 1] - starts[c];
    words[c] = length + count(pairs, entries, records + starts[c], length);
  }
  free(pairs);
  return 0;
}

/* Deal every chunk: core c's words go to words + word_starts[c], its shares to shares + c * (tasklets + 1). `longest`
 * is the longest chunk's length. Returns as above. */
int deal_chunks(union word *words, const int64_t *word_starts, uint32_t *shares, const struct transition *records,
                const int64_t *starts, int64_t cores, int64_t entries, int64_t states, int64_t tasklets,
                int64_t longest) {
  size_t numbers = (size_t)(entries + longest + 1 + tasklets);
  struct pair *pairs = malloc((size_t)entries * sizeof(*pairs) + numbers * sizeof(uint32_t));
  if (!pairs) return -1;
  uint32_t *order = (uint32_t *)(pairs + entries), *behind = order + entries, *reached = behind + longest + 1;
  for (int64_t c = 0; c < cores; c++) {
    const struct transition *chunk = records + starts[c];
    int64_t length = starts[c + 1] - starts[c];
    uint32_t *own = shares + c * (tasklets + 1);
    int64_t held = count(pairs, entries, chunk, length);
    order_by_length(order, behind, pairs, entries, length);
    choose_tasklets(pairs, order, held, own, tasklets);
    write_words(words + word_starts[c], pairs, entries, own, reached, tasklets, chunk, length, (uint32_t)states);
  }
  free(pairs);
  return 0;
}
