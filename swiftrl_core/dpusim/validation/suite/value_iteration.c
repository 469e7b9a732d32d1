/* Off-policy updates of a table of values from logged steps: the largest next value, a rate, a discount.
 * FIXED: int32 with the given scale; else float. */
#include "suite.h"

#define STATES 16
#define ACTIONS 4
#define STEPS 512

#ifdef FIXED
typedef int32_t value;
#define SCALED(x, numerator) ((x) * (numerator) / FIXED)
#define RATE (FIXED / 10)
#define DISCOUNT (FIXED * 95 / 100)
#define ONE FIXED
#else
typedef float value;
#define SCALED(x, numerator) ((x) * (numerator))
#define RATE 0.1f
#define DISCOUNT 0.95f
#define ONE 1.0f
#endif

struct step {
  uint8_t state, action, next, reward;
};

__attribute__((noinline)) static void learn(value *table, const struct step *steps, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const value *row = &table[steps[i].next * ACTIONS];
    value best = row[0];
    for (uint32_t a = 1; a < ACTIONS; a++)
      if (row[a] > best) best = row[a];
    value *entry = &table[steps[i].state * ACTIONS + steps[i].action];
    value target = (steps[i].reward ? ONE : 0) + SCALED(best, DISCOUNT);
    *entry += SCALED(target - *entry, RATE);
  }
}

int main(void) {
  static value table[STATES * ACTIONS];
  static uint32_t words[STEPS];
  struct step *steps = (struct step *)words;
  fill(words, STEPS, 1);
  for (uint32_t i = 0; i < STEPS; i++) {
    steps[i].state &= STATES - 1, steps[i].action &= ACTIONS - 1, steps[i].next &= STATES - 1;
    steps[i].reward = steps[i].reward < 16;
  }
  for (uint32_t i = 0; i < STATES * ACTIONS; i++) table[i] = 0;
  for (uint32_t pass = 0; pass < 4; pass++) learn(table, steps, STEPS);
  publish(table, sizeof table);
  return 0;
}
