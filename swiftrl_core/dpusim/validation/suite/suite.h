/* What the kernels of the suite share: inputs from a generator, results as a checksum. */
#ifndef VALIDATION_SUITE_H
#define VALIDATION_SUITE_H

#include <defs.h>
#include <stdint.h>

__host uint32_t checksum;

/* xorshift: no multiplication, so that inputs cost the same whatever multiplication does. */
static inline uint32_t draw(uint32_t *state) {
  uint32_t x = *state;
  x ^= x << 13, x ^= x >> 17, x ^= x << 5;
  return *state = x;
}

static inline void fill(uint32_t *words, uint32_t n, uint32_t seed) {
  for (uint32_t i = 0; i < n; i++) words[i] = draw(&seed);
}

static inline void publish(const void *data, uint32_t bytes) {
  const uint8_t *byte = data;
  uint32_t sum = 2166136261u;
  for (uint32_t i = 0; i < bytes; i++) sum = ((sum << 5) + sum) ^ byte[i];
  checksum = sum;
}

#endif
