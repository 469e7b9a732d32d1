/* The rows, entries and columns of 8 tables with AVX2. */
#ifndef SWIFTRL_LANES_AVX2_H
#define SWIFTRL_LANES_AVX2_H

#include "lanes_avx.h"

/* The lanes' places in registers. */
typedef struct {
  fetched_t of[LANES];
} places_t;

/* Four places of 16 bits come in with one load, and one instruction extracts each of them, since loads and instructions
 * limit the speed of an update. Volatile as in lanes_avx.h. */
INLINE places_t fetch(const place_t *place) {
  typedef uint64_t four_t __attribute__((may_alias));
  places_t places;
#pragma GCC unroll 8
  for (int l = 0; l < LANES; l += 4) {
    if (sizeof(place_t) == 2) {
      uint64_t four = *(const volatile four_t *)(place + l);
      places.of[l] = four & 0xffff;
      places.of[l + 1] = (uint32_t)_bextr_u64(four, 16, 16);
      places.of[l + 2] = (uint32_t)_bextr_u64(four, 32, 16);
      places.of[l + 3] = (uint32_t)(four >> 48);
    } else {
      for (int k = l; k < l + 4; k++) places.of[k] = ((const volatile place_t *)place)[k];
    }
  }
  return places;
}

/* Lane l belongs in half l / 4 of a column, at place l % 4. Register k collects four entries from the rows of lanes k
 * and k + 4; four registers, transposed 4 x 4 in each half, are four columns. */
INLINE void load_columns(lanes_t column[ROW], const value_t *tables, places_t places) {
  const fetched_t *place = places.of;
  for (int first = 0; first < ROW; first += 4) {
    const float *q = (const float *)tables + FOUR(first);
    __m256 quad[4];
    for (int k = 0; k < 4; k++) quad[k] = two_quads(AT(k), AT(k + 4));
    __m256 a = _mm256_unpacklo_ps(quad[0], quad[1]), b = _mm256_unpackhi_ps(quad[0], quad[1]);
    __m256 c = _mm256_unpacklo_ps(quad[2], quad[3]), d = _mm256_unpackhi_ps(quad[2], quad[3]);
    lanes_t *four = column + FOUR(first);
    four[0] = (lanes_t)_mm256_shuffle_ps(a, c, 0x44);
    four[1] = (lanes_t)_mm256_shuffle_ps(a, c, 0xee);
    four[2] = (lanes_t)_mm256_shuffle_ps(b, d, 0x44);
    four[3] = (lanes_t)_mm256_shuffle_ps(b, d, 0xee);
  }
}

/* Four entries from the rows of lanes k and k + 4. */
INLINE lanes_t load_fours(const value_t *tables, places_t places, int k) {
  const float *q = (const float *)tables;
  return (lanes_t)two_quads(q + places.of[k], q + places.of[k + 4]);
}

INLINE lanes_t load_entries(const value_t *tables, places_t places) {
  return (lanes_t)eight_entries((const float *)tables, places.of);
}

INLINE void store_entries(value_t *tables, places_t places, lanes_t entries) {
  float *q = (float *)tables;
  store_four(q, places.of, _mm256_castps256_ps128((__m256)entries));
  store_four(q, places.of + 4, _mm256_extractf128_ps((__m256)entries, 1));
}

/* Volatile, because the compiler would otherwise extract every number from the vector, which costs more than a load. */
INLINE void load_records(words_t *lower, words_t *upper, const void *records, words_t at) {
  _Alignas(sizeof(words_t)) volatile uint32_t index[LANES];
  *(volatile words_t *)index = at;
  const double *record = (const double *)records;
  __m128d two[4];
  for (int k = 0; k < 4; k++) two[k] = _mm_loadh_pd(_mm_load_sd(record + index[2 * k]), record + index[2 * k + 1]);
  __m256 a = (__m256)_mm256_insertf128_pd(_mm256_castpd128_pd256(two[0]), two[2], 1);
  __m256 b = (__m256)_mm256_insertf128_pd(_mm256_castpd128_pd256(two[1]), two[3], 1);
  *lower = (words_t)_mm256_shuffle_ps(a, b, 0x88);
  *upper = (words_t)_mm256_shuffle_ps(a, b, 0xdd);
}

INLINE void store_places(place_t *place, words_t first, words_t second) {
  if (sizeof(place_t) == 2) {
    __m256i packed = _mm256_packus_epi32((__m256i)first, (__m256i)second); /* four of each in either half */
    _mm256_store_si256((__m256i *)place, _mm256_permute4x64_epi64(packed, 0xd8));
  } else {
    *(words_t *)place = first;
    *(words_t *)(place + LANES) = second;
  }
}

#endif
