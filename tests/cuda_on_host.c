/* The GPU's kernels for the host, one launcher each; built by host_gpu.py with the switches of learner.cu. */
#include "cuda_on_host.h"

#define GRID uint32_t blocks, uint32_t threads
#define FILL_SHARED_MEMORY memset(tile_tables, 0xa5, sizeof(tile_tables))

#include "learner.cu"
#include "mean.cu"

value_t tile_tables[(TABLE_ENTRIES + (BOOTSTRAP == BOOTSTRAP_FROZEN ? N_STATES : 0)) * LANES];

LAUNCHER(train,
         (GRID, value_t *table, value_t *tables, const uint64_t *records, const uint64_t *tile_starts,
          struct learner_args *args, uint32_t cores, uint32_t episodes, const value_t *targets, const value_t *values,
          uint16_t *visits, value_t *frozen),
         (table, tables, records, tile_starts, args, cores, episodes, targets, values, visits, frozen))
LAUNCHER(start_tables, (GRID, const value_t *table, value_t *tables, uint32_t cores), (table, tables, cores))
LAUNCHER(lay_out_records,
         (GRID, const uint64_t *rows, const uint64_t *starts, const uint64_t *tile_starts, uint64_t *records,
          uint32_t cores),
         (rows, starts, tile_starts, records, cores))
LAUNCHER(gather_tables, (GRID, const value_t *tables, value_t *gathered, uint32_t cores), (tables, gathered, cores))
LAUNCHER(sum_segments, (GRID, const value_t *tables, total_t *sums, uint32_t cores, uint32_t segments),
         (tables, sums, cores, segments))
#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
LAUNCHER(guess_starts, (GRID, double *sums, uint32_t segments), (sums, segments))
LAUNCHER(round_segments,
         (GRID, const value_t *tables, const double *guesses, double *rises, double *falls, double *odds,
          uint32_t cores, uint32_t segments),
         (tables, guesses, rises, falls, odds, cores, segments))
LAUNCHER(mean,
         (GRID, const value_t *tables, const double *guesses, const double *rises, const double *falls,
          const double *odds, value_t *table, uint32_t cores, uint32_t segments),
         (tables, guesses, rises, falls, odds, table, cores, segments))
#else
LAUNCHER(mean, (GRID, const int64_t *sums, value_t *table, uint32_t cores, uint32_t segments),
         (sums, table, cores, segments))
#endif
