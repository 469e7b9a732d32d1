/* Rounding up for transfers. What the DPU's header has beside these, copies within MRAM, is not here. */
#ifndef DPUSIM_MEMMRAM_UTILS_H
#define DPUSIM_MEMMRAM_UTILS_H

#include <mram.h>

/* `unit` is a power of two. */
#define ALIGN(n, unit) (((n) + (unit) - 1) & ~((unit) - 1))
#define DMA_ALIGNED(n) ALIGN(n, 8)

#endif
