/* Counts for the host's part of a round (counting.h). */
#include "counting.h"

/* Count all rows; the arrays are those of struct model: visits, rewards, first and end of states * actions, zeros on
 * entry, next and count of `rows`. Returns 0, or -1 where memory is short. */
int count_outcomes(const struct transition *records, int64_t rows, int64_t states, int64_t actions, int64_t *visits,
                   double *rewards, int64_t *first, int64_t *end, uint32_t *next, uint32_t *count_of) {
  struct model m = {states, actions, visits, first, end, rewards, next, count_of};
  return count(&m, records, rows);
}

/* Count the pairs of each chunk apart: visits[core * entries + pair], zeros on entry. */
void count_visits(const struct transition *records, const int64_t *starts, int64_t cores, int64_t entries,
                  int32_t *visits) {
  for (int64_t core = 0; core < cores; core++, visits += entries)
    for (int64_t i = starts[core]; i < starts[core + 1]; i++) visits[pair_of(records[i])]++;
}
