/* On-policy updates along a random walk, with an action that is mostly the best one: branches, a generator, a shift
 * scale. */
#include "suite.h"

#define STATES 64
#define ACTIONS 4
#define STEPS 2048
#define SHIFT 13

static uint32_t best_action(const int32_t *row) {
  uint32_t best = 0;
  for (uint32_t a = 1; a < ACTIONS; a++)
    if (row[a] > row[best]) best = a;
  return best;
}

__attribute__((noinline)) static void walk(int32_t *table, uint32_t steps, uint32_t *seed) {
  uint32_t state = 0, action = 0;
  for (uint32_t i = 0; i < steps; i++) {
    uint32_t random = draw(seed);
    uint32_t next = (state + (action & 1 ? 1 : STATES - 1)) % STATES;
    uint32_t next_action = (random & 15) ? best_action(&table[next * ACTIONS]) : (random >> 4) % ACTIONS;
    int32_t reward = next == STATES / 2 ? 1 << SHIFT : 0;
    int32_t *entry = &table[state * ACTIONS + action];
    int32_t target = reward + ((table[next * ACTIONS + next_action] * 7782) >> SHIFT);
    *entry += ((target - *entry) * 819) >> SHIFT;
    state = next, action = next_action;
  }
}

int main(void) {
  static int32_t table[STATES * ACTIONS];
  uint32_t seed = 7;
  for (uint32_t i = 0; i < STATES * ACTIONS; i++) table[i] = 0;
  walk(table, STEPS, &seed);
  publish(table, sizeof table);
  return 0;
}
