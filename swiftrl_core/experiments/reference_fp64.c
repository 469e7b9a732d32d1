/* Loops that `swiftrl bench` compares the engine with: the authors' released code, rewritten in the same shape, and the
 * lower bound of one store an update. */
#include <stdint.h>

/* A transition as that code keeps it: 24 bytes, its reward a double. */
struct wide_record {
  int32_t state, action;
  double reward;
  int32_t next_state, terminated;
};

/* Q-learning on one table of doubles, one update after the other. */
void learn_doubles(double *q, const struct wide_record *records, int64_t rows, int64_t actions, double alpha,
                   double gamma) {
  for (int64_t i = 0; i < rows; i++) {
    struct wide_record r = records[i];
    double best = 0;
    if (!r.terminated) {
      const double *row = q + r.next_state * actions;
      best = row[0];
      for (int64_t a = 1; a < actions; a++)
        if (row[a] > best) best = row[a];
    }
    double *entry = q + r.state * actions + r.action;
    *entry += alpha * (r.reward + gamma * best - *entry);
  }
}

/* One store an update and nothing else: into 16 tables in turn, a cache line apart, the way the engine's lanes
 * store. */
void store_only(volatile uint32_t *lines, int64_t stores) {
  for (int64_t i = 0; i < stores; i += 16)
    for (int l = 0; l < 16; l++) lines[16 * l] = (uint32_t)i;
}
