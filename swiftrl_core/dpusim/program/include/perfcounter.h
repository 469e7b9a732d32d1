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
#ifdef __dpu_v1B__
  COUNT_DISABLE_BOTH = 6,
  COUNT_ENABLE_BOTH = 7,
#endif
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
  __dpusim_system(sixteens, DPUSIM_PERF_CONFIG, (uint32_t)config | (uint32_t)reset << 3);
  return (uint64_t)sixteens << 4;
}

#ifdef __dpu_v1B__
typedef struct {
  perfcounter_t cycles;
  perfcounter_t instr;
} perfcounter_pair_t;

/* Both counts since COUNT_ENABLE_BOTH was chosen, or since the last reset. */
__dpusim_inline perfcounter_pair_t perfcounter_get_both(bool reset) {
  uint32_t cycles, instr;
  __dpusim_system(cycles, DPUSIM_PERF_GET, COUNT_CYCLES);
  __dpusim_system(instr, DPUSIM_PERF_GET, COUNT_INSTRUCTIONS);
  if (reset) perfcounter_config(COUNT_ENABLE_BOTH, true);
  return (perfcounter_pair_t){(uint64_t)cycles << 4, (uint64_t)instr << 4};
}
#endif

#endif
