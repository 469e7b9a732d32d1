/* The DPU's one performance counter, shared by all tasklets; its values are multiples of 16. */
#ifndef DPUSIM_PERFCOUNTER_H
#define DPUSIM_PERFCOUNTER_H

#include <intrinsics.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint64_t perfcounter_t;

typedef enum {
  COUNT_SAME = 0,
  COUNT_CYCLES = 1,
  COUNT_INSTRUCTIONS = 2,
  COUNT_NOTHING = 3,
} perfcounter_config_t;

/* Clock in Hz, written by the loader. */
extern const volatile uint32_t CLOCKS_PER_SEC;

/* The register holds the count in units of 16. */
__dpusim_inline perfcounter_t perfcounter_get(void) {
  uint32_t sixteens;
  __asm__ volatile(".insn i 0x0b, 0, %0, x0, 3" : "=r"(sixteens) : : "memory");
  return (uint64_t)sixteens << 4;
}

/* Choose what is counted; `reset` starts again from zero. Returns the value before. */
__dpusim_inline perfcounter_t perfcounter_config(perfcounter_config_t config, bool reset) {
  uint32_t sixteens;
  __dpusim_system(sixteens, DPUSIM_PERF_CONFIG, (uint32_t)config | (uint32_t)reset << 2);
  return (uint64_t)sixteens << 4;
}

#endif
