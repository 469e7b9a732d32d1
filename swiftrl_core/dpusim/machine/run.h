/* State of one run of one machine. Part of machine.c. */
#ifndef DPUSIM_RUN_H
#define DPUSIM_RUN_H

#include "machine.h"

struct replay;

struct run {
  struct machine *machine;
  struct replay *replay; /* of a fast run of several tasklets, else NULL */
  int64_t issued, now;   /* of an exact run: instructions and cycles so far */
  bool woken;            /* whether a step has woken somebody */
  struct run_stats *stats;
};

#endif
