/* Shared by AVX2 and AVX-512: the entries of 8 tables, one from each, and four entries of a row.
 *
 * Integers travel as floats here, since a move changes no bit. Entries are loaded and stored one at a time: a gather
 * instruction takes longer than the loads that it replaces, and a scatter longer than the stores, because both access
 * memory once per lane anyway. */
#ifndef SWIFTRL_LANES_AVX_H
#define SWIFTRL_LANES_AVX_H

#include <immintrin.h>

/* The float at place[l] of lane l. 16 lanes have more places than there are registers, so the places stay in memory.
 * They are volatile, because the compiler would otherwise load all of them at once and take them apart again. */
#if LANES == 16
typedef place_t fetched_t;
#define AT(l) (q + (l) * APART + ((const volatile place_t *)place)[l])
#else
typedef uint32_t fetched_t;
#define AT(l) (q + place[l])
#endif

INLINE __m256 two_quads(const float *a, const float *b) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
}

INLINE __m128 four_entries(const float *q, const fetched_t *place) {
  __m128 v = _mm_load_ss(AT(0));
  v = _mm_insert_ps(v, _mm_load_ss(AT(1)), 0x10);
  v = _mm_insert_ps(v, _mm_load_ss(AT(2)), 0x20);
  return _mm_insert_ps(v, _mm_load_ss(AT(3)), 0x30);
}

INLINE __m256 eight_entries(const float *q, const fetched_t *place) {
  __m256 low = _mm256_castps128_ps256(four_entries(q, place));
  return _mm256_insertf128_ps(low, four_entries(q + 4 * APART, place + 4), 1);
}

#if LANES == 16
/* Two entries leave through the vector unit and two through an integer register. Both can store, and extracting single
 * entries from a vector is work for the one unit that already transposes. The empty assembly keeps the compiler from
 * extracting the integer's halves in the vector after all. */
INLINE void store_four(float *q, const fetched_t *place, __m128 v) {
  uint64_t upper = (uint64_t)_mm_extract_epi64(_mm_castps_si128(v), 1);
  __asm__("" : "+r"(upper));
  _mm_store_ss(AT(0), v);
  *(int32_t *)AT(1) = _mm_extract_ps(v, 1);
  *(int32_t *)AT(2) = (int32_t)upper;
  *(int32_t *)AT(3) = (int32_t)(upper >> 32);
}
#else
/* With half the lanes to transpose, the vector unit has time to extract every entry. */
INLINE void store_four(float *q, const fetched_t *place, __m128 v) {
  _mm_store_ss(AT(0), v);
  *(int32_t *)AT(1) = _mm_extract_ps(v, 1);
  *(int32_t *)AT(2) = _mm_extract_ps(v, 2);
  *(int32_t *)AT(3) = _mm_extract_ps(v, 3);
}
#endif

#endif
