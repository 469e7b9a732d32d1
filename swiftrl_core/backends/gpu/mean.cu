/* The mean of all cores' tables on the GPU, bit for bit that of swiftrl_core/training/aggregation.py.
 *
 * Fixed point is summed in int64, in any order. In FP32 the mean is defined by a float64 sum in core order, and float64
 * additions round, so their order decides bits. One after the other, 200,000 of them take longer than a round's
 * learning. They can run in parallel for this reason: while the running sum S stays between 2^e and 2^(e+1), it is a
 * multiple of the grid g = 2^(e-52), and adding x moves it by x rounded to a multiple of g, whatever S is. S matters
 * only where x lies half way between two multiples, and then only by whether S / g is even or odd: the sum becomes
 * even. And multiples of g add up exactly, in any order. Therefore:
 *
 *   1. Partition the cores into segments and sum each (sum_segments).
 *   2. Add up those sums, to guess S at the start of each segment (guess_starts).
 *   3. Round every value of a segment to the guess's grid; add up separately what raises S and what lowers it
 *      (round_segments). All segments run in parallel.
 *   4. Walk through the segments in order (mean). Where S is in the guessed binade, and would not leave it even if
 *      everything that lowers it or everything that raises it came first, take the segment in one step; elsewhere add
 *      its cores one by one.
 *
 * A wrong guess costs time but never a bit. Most segments take one step, since S leaves its binade at most once for
 * every doubling, unless it moves around zero. */
#include "tile.h"

#define SEGMENT_CORES 256

/* As a segment's rise, it keeps every S from taking the segment in one step. */
#define CORE_BY_CORE 1e308

#if NUMBER_FORMAT == NUMBER_FORMAT_FP32
typedef double total_t;
#else
typedef int64_t total_t;
#endif

#ifdef __cplusplus
extern "C" {
#endif

INLINE uint64_t segment_end(uint64_t segment, uint64_t cores) {
  uint64_t end = (segment + 1) * SEGMENT_CORES;
  return end < cores ? end : cores;
}

/* `sum` plus the values of one entry over one segment, added in core order. */
INLINE total_t add_segment(total_t sum, const value_t *tables, uint64_t segment, uint32_t entry, uint64_t cores) {
  for (uint64_t core = segment * SEGMENT_CORES; core < segment_end(segment, cores); core++)
    sum += tables[place(core, entry)];
  return sum;
}

/* sums[segment][entry]; one thread per entry and segment, as in round_segments. */
__global__ void sum_segments(const value_t *tables, total_t *sums, uint32_t cores, uint32_t segments) {
  uint64_t i = thread_number();
  if (i >= (uint64_t)segments * TABLE_ENTRIES) return;
  sums[i] = add_segment(0, tables, i / TABLE_ENTRIES, i % TABLE_ENTRIES, cores);
}

#if NUMBER_FORMAT == NUMBER_FORMAT_FP32

INLINE uint64_t bits_of(double x) {
  union {
    double value;
    uint64_t bits;
  } seen = {x};
  return seen.bits;
}

/* 2^e where 2^e <= |x| < 2^(e+1); 0 for 0. (A sum of float32 is never so small that it is subnormal in float64.) */
INLINE double binade(double x) {
  union {
    uint64_t bits;
    double value;
  } power = {bits_of(x) & 0x7ff0000000000000u};
  return power.value;
}

/* The distance between neighbouring float64 numbers from 2^e to 2^(e+1). */
INLINE double grid_of(double bottom) { return bottom * (1.0 / (1ull << 52)); }

/* Whether x is an odd multiple of its binade's grid. */
INLINE int is_odd(double x) { return bits_of(x) & 1; }

INLINE double magnitude(double x) { return x < 0 ? -x : x; }

/* Replace each segment's sum by the sum of all segments before it, which is close to S there; one thread per entry. */
__global__ void guess_starts(double *sums, uint32_t segments) {
  uint64_t entry = thread_number();
  if (entry >= TABLE_ENTRIES) return;
  double before = 0;
  for (uint64_t i = entry; i < (uint64_t)segments * TABLE_ENTRIES; i += TABLE_ENTRIES) {
    double sum = sums[i];
    sums[i] = before;
    before += sum;
  }
}

/* Compute what each segment adds to an S in the guessed binade: rises - falls, plus odds if S is odd there.
 *
 * The hardware does the rounding. `even` and `odd` replace S by numbers in the middle of the binade, and each is put
 * back there after every addition, with its parity. |x| <= bottom / 4 does not carry them out of the binade. Both take
 * the same steps up to the first tie, after which both are even, so that they differ by at most one g. */
__global__ void round_segments(const value_t *tables, const double *guesses, double *rises, double *falls, double *odds,
                               uint32_t cores, uint32_t segments) {
  uint64_t i = thread_number();
  if (i >= (uint64_t)segments * TABLE_ENTRIES) return;
  double bottom = binade(guesses[i]), middle = 1.5 * bottom, grid = grid_of(bottom);
  double even = middle, odd = middle + grid;
  double rise = 0, fall = 0, apart = 0;
  for (uint64_t core = i / TABLE_ENTRIES * SEGMENT_CORES; core < segment_end(i / TABLE_ENTRIES, cores); core++) {
    double x = tables[place(core, i % TABLE_ENTRIES)];
    double step = even + x - even, odd_step = odd + x - odd;
    even = is_odd(even + x) ? middle + grid : middle;
    odd = is_odd(odd + x) ? middle + grid : middle;
    if (step > 0) rise += step;
    if (step < 0) fall -= step;
    apart += odd_step - step;
    if (!(magnitude(x) <= bottom / 4)) rise = CORE_BY_CORE;
  }
  rises[i] = rise;
  falls[i] = fall;
  odds[i] = apart;
}

/* Write the mean to `table`; one thread per entry. */
__global__ void mean(const value_t *tables, const double *guesses, const double *rises, const double *falls,
                     const double *odds, value_t *table, uint32_t cores, uint32_t segments) {
  uint64_t entry = thread_number();
  if (entry >= TABLE_ENTRIES) return;
  double sum = 0;
  for (uint32_t segment = 0; segment < segments; segment++) {
    uint64_t i = (uint64_t)segment * TABLE_ENTRIES + entry;
    double bottom = binade(guesses[i]),
           margin = 2 * grid_of(bottom); /* one g for odds, one to stay clear of the ends */
    double away = sum < 0 ? falls[i] : rises[i], back = sum < 0 ? rises[i] : falls[i];
    int stays = magnitude(sum) + away <= 2 * bottom - margin && magnitude(sum) - back >= bottom + margin;
    if (stays)
      sum += rises[i] - falls[i] + (is_odd(sum) ? odds[i] : 0);
    else
      sum = add_segment(sum, tables, segment, entry, cores);
  }
  table[entry] = (value_t)(sum / cores);
}

#else

/* Write the mean to `table`, rounded to nearest, ties away from zero; one thread per entry. */
__global__ void mean(const int64_t *sums, value_t *table, uint32_t cores, uint32_t segments) {
  uint64_t entry = thread_number();
  if (entry >= TABLE_ENTRIES) return;
  int64_t sum = 0;
  for (uint32_t segment = 0; segment < segments; segment++) sum += sums[(uint64_t)segment * TABLE_ENTRIES + entry];
  int64_t rounded = (2 * (sum < 0 ? -sum : sum) + cores) / (2 * (int64_t)cores);
  table[entry] = (value_t)(sum < 0 ? -rounded : rounded);
}

#endif

#ifdef __cplusplus
}
#endif
