/* The rows, entries and columns of 16 tables with AVX-512. */
#ifndef SWIFTRL_LANES_AVX512_H
#define SWIFTRL_LANES_AVX512_H

#include "lanes_avx.h"

/* In each 128-bit part, row k of the result holds element k of the four operands: a 4 x 4 transposition. */
INLINE void transpose(__m512 r[4]) {
  __m512 a = _mm512_unpacklo_ps(r[0], r[1]), b = _mm512_unpackhi_ps(r[0], r[1]);
  __m512 c = _mm512_unpacklo_ps(r[2], r[3]), d = _mm512_unpackhi_ps(r[2], r[3]);
  r[0] = _mm512_shuffle_ps(a, c, 0x44);
  r[1] = _mm512_shuffle_ps(a, c, 0xee);
  r[2] = _mm512_shuffle_ps(b, d, 0x44);
  r[3] = _mm512_shuffle_ps(b, d, 0xee);
}

INLINE __m512 join(__m256 low, __m256 high) {
  __m512d both = _mm512_castps_pd(_mm512_castps256_ps512(low));
  return _mm512_castpd_ps(_mm512_insertf64x4(both, _mm256_castps_pd(high), 1));
}

/* Lane l belongs in part l / 4 of a column, at place l % 4: register k collects lanes k, k + 4, k + 8 and k + 12. */
INLINE void load_columns(lanes_t column[ROW], const value_t *tables, const place_t *place) {
  const float *q = (const float *)tables;
#if ROW == 4
  __m512 quad[4];
  for (int k = 0; k < 4; k++) quad[k] = join(two_quads(AT(k), AT(k + 4)), two_quads(AT(k + 8), AT(k + 12)));
  transpose(quad);
  for (int a = 0; a < 4; a++) column[a] = (lanes_t)quad[a];
#else
  for (int first = 0; first < ROW; first += 8, q += 8) {
    __m512 low[4], high[4];
    for (int k = 0; k < 4; k++) {
      __m512 front = join(_mm256_load_ps(AT(k)), _mm256_load_ps(AT(k + 4)));
      __m512 back = join(_mm256_load_ps(AT(k + 8)), _mm256_load_ps(AT(k + 12)));
      low[k] = _mm512_shuffle_f32x4(front, back, 0x88);
      high[k] = _mm512_shuffle_f32x4(front, back, 0xdd);
    }
    transpose(low);
    transpose(high);
    for (int a = 0; a < 4; a++) column[first + a] = (lanes_t)low[a], column[first + 4 + a] = (lanes_t)high[a];
  }
#endif
}

INLINE lanes_t load_entries(const value_t *tables, const place_t *place) {
  const float *q = (const float *)tables;
  return (lanes_t)join(eight_entries(q, place), eight_entries(q + 8 * APART, place + 8));
}

INLINE void store_entries(value_t *tables, const place_t *place, lanes_t entries) {
  float *q = (float *)tables;
  __m512 v = (__m512)entries;
  store_four(q, place, _mm512_castps512_ps128(v));
  store_four(q + 4 * APART, place + 4, _mm512_extractf32x4_ps(v, 1));
  store_four(q + 8 * APART, place + 8, _mm512_extractf32x4_ps(v, 2));
  store_four(q + 12 * APART, place + 12, _mm512_extractf32x4_ps(v, 3));
}

#endif
