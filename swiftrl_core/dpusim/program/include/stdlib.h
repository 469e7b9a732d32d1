/* What a DPU has of stdlib.h: no malloc, no rand, no qsort. */
#ifndef DPUSIM_STDLIB_H
#define DPUSIM_STDLIB_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int quot;
  int rem;
} div_t;

typedef struct {
  long quot;
  long rem;
} ldiv_t;

typedef struct {
  long long quot;
  long long rem;
} lldiv_t;

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

static inline long labs(long value) { return value < 0 ? -value : value; }
static inline long long llabs(long long value) { return value < 0 ? -value : value; }
static inline ldiv_t ldiv(long numerator, long denominator) {
  ldiv_t both = {numerator / denominator, numerator % denominator};
  return both;
}
static inline lldiv_t lldiv(long long numerator, long long denominator) {
  lldiv_t both = {numerator / denominator, numerator % denominator};
  return both;
}
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
