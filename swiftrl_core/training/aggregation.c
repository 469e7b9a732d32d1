/* The sums of aggregation.py: entry by entry over all tables, in core order. The docstrings there state how exact they
 * are.
 *
 * Build switches: VALUE, the type of a table's entries, and SUM, wide enough for their sums: float and double, or
 * int32_t and int64_t. */
#include <stdint.h>

/* total[e] += sum over the cores of tables[core][e]. */
void sum(const VALUE *tables, int64_t cores, int64_t entries, SUM *restrict total) {
  for (int64_t core = 0; core < cores; core++, tables += entries)
    for (int64_t e = 0; e < entries; e++) total[e] += (SUM)tables[e];
}

/* total[e] += sum of weights[core][e] * tables[core][e], and weight[e] += sum of weights[core][e]. */
void weighted_sum(const VALUE *tables, const int32_t *weights, int64_t cores, int64_t entries, SUM *restrict total,
                  int64_t *restrict weight) {
  for (int64_t core = 0; core < cores; core++, tables += entries, weights += entries)
    for (int64_t e = 0; e < entries; e++) {
      total[e] += (SUM)tables[e] * (SUM)weights[e];
      weight[e] += weights[e];
    }
}
