/* Vectors with a lane for each of LANES virtual cores, and the ways between them and the cores' tables.
 *
 * GCC's vector types carry the arithmetic: + or > on a lanes_t works on every lane, and the compiler spells it in
 * whatever instructions the target has. What it cannot find by itself is how to collect rows of many tables. A vector
 * unit loads whole rows quickly and scattered entries slowly, so a row comes in by one load, and a transposition in
 * registers makes columns of them: column a holds Q(s', a) of every lane, each lane with an s' of its own. The plain
 * loops at the end say what is meant; AVX-512 and AVX2 say the same in their own instructions.
 *
 * Needs N_STATES, N_ACTIONS and value_t. */
#ifndef SWIFTRL_LANES_H
#define SWIFTRL_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "inline.h"

#if defined(__AVX512F__) && !defined(PLAIN_C)
#define LANES 16
#elif defined(__AVX2__) && !defined(PLAIN_C)
#define LANES 8
#else
#define LANES 4
#endif

/* In the engine a row is padded, so that one aligned load fetches four or eight entries. A table has one row more than
 * there are states, the spare one, where a lane reads and writes while it has nothing to do; and it fills an odd number
 * of cache lines, since tables a power of two apart would contend for the same few sets of the cache. */
#define ROW (N_ACTIONS <= 4 ? 4 : (N_ACTIONS + 7) / 8 * 8)
#define SPARE (N_STATES * ROW)
#define TABLE (((SPARE + ROW + 15) / 16 | 1) * 16)

/* Where an entry stands in its table. 16 bits if they suffice: transitions are read once an update, so size counts. */
#if TABLE <= 65536
typedef uint16_t place_t;
#else
typedef uint32_t place_t;
#endif

typedef value_t lanes_t __attribute__((vector_size(4 * LANES)));
typedef uint32_t words_t __attribute__((vector_size(4 * LANES)));
typedef int32_t mask_t __attribute__((vector_size(4 * LANES))); /* a lane is all ones or all zeros */
typedef double doubles_t __attribute__((vector_size(8 * LANES)));

/* a where the mask holds, b elsewhere. */
INLINE words_t choose_words(mask_t mask, words_t a, words_t b) { return (a & (words_t)mask) | (b & ~(words_t)mask); }
INLINE lanes_t choose(mask_t mask, lanes_t a, lanes_t b) { return (lanes_t)choose_words(mask, (words_t)a, (words_t)b); }

/* The same vector, of which the compiler no longer knows what is in it: now and then it knows a little and makes a lot of
 * it, such as lane by lane arithmetic where lanes are stored one by one. */
INLINE words_t unknown(words_t v) {
#ifdef __x86_64__
  __asm__("" : "+v"(v));
#endif
  return v;
}

/* The entries of one table for all lanes. */
INLINE lanes_t load_shared(const value_t *table, const place_t *place) {
  lanes_t entries;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) entries[l] = table[place[l]];
  return entries;
}

#if defined(__AVX512F__) && !defined(PLAIN_C)
#include "lanes_avx512.h"
#elif defined(__AVX2__) && !defined(PLAIN_C)
#include "lanes_avx2.h"
#else

/* column[a] = the entries a of the rows at `place`, one from each lane's table. Lane loops are unrolled, here and in the
 * engine: a lane whose number is no constant is reached through memory. */
INLINE void load_columns(lanes_t column[ROW], const value_t *tables, const place_t *place) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++)
    for (int a = 0; a < N_ACTIONS; a++) column[a][l] = (tables + l * TABLE)[place[l] + a];
}

INLINE lanes_t load_entries(const value_t *tables, const place_t *place) {
  lanes_t entries;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) entries[l] = (tables + l * TABLE)[place[l]];
  return entries;
}

INLINE void store_entries(value_t *tables, const place_t *place, lanes_t entries) {
  entries = (lanes_t)unknown((words_t)entries);
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) (tables + l * TABLE)[place[l]] = entries[l];
}

#endif

#endif
