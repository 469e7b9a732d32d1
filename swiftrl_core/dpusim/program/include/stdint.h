/* Integers of a fixed width, and, as on a DPU, the limits of all of them. */
#ifndef DPUSIM_STDINT_H
#define DPUSIM_STDINT_H

#include <limits.h>
#include_next <stdint.h>

#endif
