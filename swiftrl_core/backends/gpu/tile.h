/* The places of tables in the GPU's memory; shared by learner.cu and mean.cu.
 *
 * A tile is what a warp works on: 32 virtual cores. Lane l of tile t is core 32 t + l. */
#ifndef SWIFTRL_TILE_H
#define SWIFTRL_TILE_H

#include <stdint.h>

#define LANES 32

/* Where the tables are, chosen with -DTABLES=...: see learner.cu. */
#define TABLES_IN_SHARED_MEMORY 0
#define TABLES_IN_GLOBAL_MEMORY 1
#define TABLES_ONE_FOR_ALL 2

#define TABLE_ENTRIES (N_STATES * N_ACTIONS)
#if TABLES == TABLES_IN_SHARED_MEMORY
#define TABLE_STRIDE LANES /* for td_update.h: the tables of a tile are interleaved */
#else
#define TABLE_STRIDE 1
#endif

#include "td_update.h" /* after its TABLE_STRIDE */

/* The index of a core's entry in the array of all tables. */
INLINE uint64_t place(uint64_t core, uint32_t entry) {
  return (core / TABLE_STRIDE * TABLE_ENTRIES + entry) * TABLE_STRIDE + core % TABLE_STRIDE;
}

/* This thread's number in the grid. */
INLINE uint64_t thread_number(void) { return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; }

#endif
