/* Sections for the DPU's profiler. They compile and do nothing: the simulator counts every line. */
#ifndef DPUSIM_PROFILING_H
#define DPUSIM_PROFILING_H

typedef struct {
  char unused;
} profiling_t;

#define PROFILING_INIT(name) profiling_t name

static inline void profiling_start(profiling_t *section) { (void)section; }
static inline void profiling_stop(profiling_t *section) { (void)section; }

#endif
