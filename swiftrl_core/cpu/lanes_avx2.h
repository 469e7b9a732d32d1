/* Rows, entries and columns of 8 tables in AVX2. */
#ifndef SWIFTRL_LANES_AVX2_H
#define SWIFTRL_LANES_AVX2_H

#include "lanes_avx.h"

/* Lane l has to end up in half l / 4 of a column, at place l % 4: register k collects a quarter of the rows of lanes k
 * and k + 4, and four registers, transposed 4 x 4 in either half, are four columns. */
INLINE void load_columns(lanes_t column[ROW], const value_t *tables, const place_t *place) {
  const float *q = (const float *)tables;
  for (int first = 0; first < ROW; first += 4, q += 4) {
    __m256 quad[4];
    for (int k = 0; k < 4; k++) quad[k] = two_quads(AT(k), AT(k + 4));
    __m256 a = _mm256_unpacklo_ps(quad[0], quad[1]), b = _mm256_unpackhi_ps(quad[0], quad[1]);
    __m256 c = _mm256_unpacklo_ps(quad[2], quad[3]), d = _mm256_unpackhi_ps(quad[2], quad[3]);
    column[first] = (lanes_t)_mm256_shuffle_ps(a, c, 0x44);
    column[first + 1] = (lanes_t)_mm256_shuffle_ps(a, c, 0xee);
    column[first + 2] = (lanes_t)_mm256_shuffle_ps(b, d, 0x44);
    column[first + 3] = (lanes_t)_mm256_shuffle_ps(b, d, 0xee);
  }
}

INLINE lanes_t load_entries(const value_t *tables, const place_t *place) {
  return (lanes_t)eight_entries((const float *)tables, place);
}

INLINE void store_entries(value_t *tables, const place_t *place, lanes_t entries) {
  float *q = (float *)tables;
  store_four(q, place, _mm256_castps256_ps128((__m256)entries));
  store_four(q + 4 * TABLE, place + 4, _mm256_extractf128_ps((__m256)entries, 1));
}

#endif
