/* The exact solution of the counted MDP: count the transitions, estimate the MDP, solve it.
 *
 * A learner that replays its chunk for ever approaches the fixed point
 *
 *     Q(s, a) = mean over the rows with (s, a) of  r + gamma * max_a' Q(s', a')      (no second term on termination),
 *
 * and Q(s, a) = 0 where (s, a) never occurs, for no row ever touches it. Counting how often (s, a) led to s' makes a
 * sweep over all pairs cost as many operations as there are different outcomes, instead of rows. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "counting.h"
#include "layout.h"

/* Renew every entry of q once, and v, the largest of each row; return the largest change of an entry. */
static double sweep(const struct model *m, double unit, double gamma, double *q, double *v) {
  double largest_change = 0;
  for (int64_t s = 0; s < m->states; s++) {
    double best = -INFINITY;
    for (int64_t p = s * m->actions; p < (s + 1) * m->actions; p++) {
      if (m->visits[p]) {
        double future = 0;
        for (int64_t k = m->first[p]; k < m->end[p]; k++) future += m->count[k] * v[m->next[k]];
        double renewed = (m->rewards[p] * unit + gamma * future) / (double)m->visits[p];
        largest_change = fmax(largest_change, fabs(renewed - q[p]));
        q[p] = renewed;
      }
      best = fmax(best, q[p]);
    }
    v[s] = best;
  }
  return largest_change;
}

static int64_t solve(const struct model *m, double unit, double gamma, double tolerance, int64_t most, double *q,
                     double *v) {
  /* An entry that changed by d in a sweep is within d * gamma / (1 - gamma) of where all sweeps lead. */
  double enough = gamma > 0 ? tolerance * (1 - gamma) / gamma : INFINITY;
  for (int64_t sweeps = 1; sweeps <= most; sweeps++)
    if (sweep(m, unit, gamma, q, v) <= enough) return sweeps;
  return 0;
}

/* Write the fixed point of `rows` records into q (states * actions doubles, zeros on entry). `unit` is what one unit of
 * a reward is worth. Returns the number of sweeps it took, 0 if `most` were not enough, -1 where memory is short. */
int64_t fixed_point(const struct transition *records, int64_t rows, int64_t states, int64_t actions, double unit,
                    double gamma, double tolerance, int64_t most, double *q) {
  size_t pairs = (size_t)(states * actions), n = (size_t)rows;
  struct model m = {states,           actions,          calloc(pairs, 8), calloc(pairs, 8),
                    calloc(pairs, 8), calloc(pairs, 8), malloc(4 * n),    malloc(4 * n)};
  double *v = calloc((size_t)states, 8);
  int64_t sweeps = -1;
  if (m.visits && m.first && m.end && m.rewards && m.next && m.count && v && !count(&m, records, rows))
    sweeps = solve(&m, unit, gamma, tolerance, most, q, v);
  free(m.visits), free(m.first), free(m.end), free(m.rewards), free(m.next), free(m.count), free(v);
  return sweeps;
}
