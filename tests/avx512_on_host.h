/* Enough of AVX-512 to run the engine's 16 lanes on a CPU with AVX2: what lanes_avx512.h uses, as shuffles that the
 * compiler spells in narrower vectors. Included before engine.c, with -D__AVX512F__=1 for a CPU that has none.
 *
 * lanes.h keeps a vector from the compiler's eyes by a statement that wants it in one register. No register here is as
 * wide; so after the headers this is not x86-64 any more, and the statement goes. */
#ifndef AVX512_ON_HOST_H
#define AVX512_ON_HOST_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#undef __x86_64__

/* In each of four parts: i, j of a, then k, l of b. */
#define PART(n, i, j, k, l) 4 * n + (i), 4 * n + (j), 16 + 4 * n + (k), 16 + 4 * n + (l)
#define BY_PARTS(a, b, i, j, k, l) \
  __builtin_shufflevector(a, b, PART(0, i, j, k, l), PART(1, i, j, k, l), PART(2, i, j, k, l), PART(3, i, j, k, l))
#define _mm512_shuffle_ps(a, b, imm) BY_PARTS(a, b, (imm) & 3, (imm) >> 2 & 3, (imm) >> 4 & 3, (imm) >> 6)

/* Of every part: a's and b's number i, then their number j. */
#define MIXED(n, i, j) 4 * n + i, 16 + 4 * n + i, 4 * n + j, 16 + 4 * n + j
#define MIX(a, b, i, j) __builtin_shufflevector(a, b, MIXED(0, i, j), MIXED(1, i, j), MIXED(2, i, j), MIXED(3, i, j))
#define _mm512_unpacklo_ps(a, b) MIX(a, b, 0, 1)
#define _mm512_unpackhi_ps(a, b) MIX(a, b, 2, 3)

/* Whole parts: two of a, then two of b. */
#define WHOLE(n) 4 * (n), 4 * (n) + 1, 4 * (n) + 2, 4 * (n) + 3
#define _mm512_shuffle_f32x4(a, b, imm)                                                               \
  __builtin_shufflevector(a, b, WHOLE((imm) & 3), WHOLE((imm) >> 2 & 3), WHOLE(4 + ((imm) >> 4 & 3)), \
                          WHOLE(4 + ((imm) >> 6)))
#define _mm512_extractf32x4_ps(a, n) __builtin_shufflevector(a, a, WHOLE(n))
#define _mm512_castps512_ps128(a) _mm512_extractf32x4_ps(a, 0)

/* Numbers that stay what they are while their type changes. */
#define _mm512_castps_pd(a) ((__m512d)(a))
#define _mm512_castpd_ps(a) ((__m512)(a))
#define _mm512_castps256_ps512(a) __builtin_shufflevector(a, a, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7)
#define _mm512_insertf64x4(a, b, one) \
  __builtin_shufflevector(a, __builtin_shufflevector(b, b, 0, 1, 2, 3, 0, 1, 2, 3), 0, 1, 2, 3, 8, 9, 10, 11)

#endif
