/* What a DPU has of stdlib.h: no malloc, no rand, no qsort. */
#ifndef DPUSIM_STDLIB_H
#define DPUSIM_STDLIB_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int quot;
  int rem;
} div_t;

static inline int abs(int value) { return value < 0 ? -value : value; }
static inline div_t div(int numerator, int denominator) {
  div_t both = {numerator / denominator, numerator % denominator};
  return both;
}

int atoi(const char *text);
long atol(const char *text);

void exit(int status) __attribute__((noreturn));
void abort(void) __attribute__((noreturn));

#endif
