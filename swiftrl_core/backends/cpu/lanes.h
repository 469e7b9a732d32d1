/* Vectors with one lane for each of LANES virtual cores, and how they read and write the cores' tables.
 *
 * GCC's vector types carry the arithmetic: + or > on a lanes_t works on every lane, and the compiler chooses the
 * target's instructions. It does not find by itself how to collect rows from many tables. A vector unit loads whole
 * rows quickly and scattered entries slowly, so each row comes in with one load. A transposition in registers then
 * turns rows into columns: column a holds Q(s', a) of every lane, each lane with its own s'. Where only the largest
 * entry of a row is needed, half a transposition is enough. Plain loops define these operations; AVX-512 and AVX2 have
 * versions in their own instructions.
 *
 * Needs N_STATES, N_ACTIONS, value_t and TEAM, the number of vectors whose tables are allocated together. */
#ifndef SWIFTRL_LANES_H
#define SWIFTRL_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "inline.h"

#ifndef TEAM
#error "define TEAM first"
#endif

#if defined(__AVX512F__) && !defined(PLAIN_C)
#define LANES 16
#elif defined(__AVX2__) && defined(__BMI__) && !defined(PLAIN_C)
#define LANES 8
#else
#define LANES 4
#endif

/* In the engine a row has room for at least four entries, which one load fetches. With AVX-512 it has room for four or
 * for a multiple of eight, aligned; elsewhere longer rows are packed, so that more of them fit into a cache. Padding
 * holds the smallest number that there is, so it is never the largest of a row. A table has one row more than there are
 * states: the spare row, which a lane reads and writes while it has nothing to do. And a table fills an odd number of
 * cache lines, since tables a power of two apart would compete for the same few sets of the cache. */
#if LANES == 16
#define ROW (N_ACTIONS <= 4 ? 4 : (N_ACTIONS + 7) / 8 * 8)
#else
#define ROW (N_ACTIONS <= 4 ? 4 : N_ACTIONS)
#endif
#define SPARE (N_STATES * ROW)
/* A row is loaded four entries at a time; the last four end with the row and so may overlap those before. */
#define FOUR(first) ((first) + 4 <= ROW ? (first) : ROW - 4)
#define TABLE (((SPARE + ROW + 15) / 16 | 1) * 16)

/* The place of an entry, counted from the first of a team's tables, so that an address is a register plus a place. With
 * 16 lanes there are so many tables that 16 bits would not be enough for Taxi; there a place counts from the lane's own
 * table, which begins APART entries after its neighbour's. 16 bits where they suffice: every update reads a transition,
 * so its size counts. */
#define APART (LANES == 16 ? TABLE : 0)
#define TABLE_AT(lane) ((uint32_t)(lane) * (TABLE - APART))
#if (LANES == 16 ? TABLE : TEAM * LANES * TABLE) <= 65536
typedef uint16_t place_t;
#else
typedef uint32_t place_t;
#endif

typedef value_t lanes_t __attribute__((vector_size(4 * LANES)));
typedef uint32_t words_t __attribute__((vector_size(4 * LANES)));
typedef int32_t mask_t __attribute__((vector_size(4 * LANES)));   /* a lane is all ones or all zeros */
typedef uint64_t pairs_t __attribute__((vector_size(4 * LANES))); /* two lanes as one number */

/* a where the mask is set, b elsewhere. */
INLINE words_t choose_words(mask_t mask, words_t a, words_t b) { return (a & (words_t)mask) | (b & ~(words_t)mask); }
INLINE lanes_t choose(mask_t mask, lanes_t a, lanes_t b) { return (lanes_t)choose_words(mask, (words_t)a, (words_t)b); }

/* The same vector, but the compiler no longer knows what is in it. From partial knowledge it sometimes makes slower
 * code, such as lane-by-lane arithmetic where lanes are stored one at a time. */
INLINE words_t unknown(words_t v) {
#ifdef __x86_64__
  __asm__("" : "+v"(v));
#endif
  return v;
}

/* The same mask, but the compiler no longer knows that its lanes are all ones or all zeros. If it did, it would pack
 * masks to join them to narrower ones, and unpack them to use them. With AVX-512, which has mask registers, it may
 * know. */
INLINE mask_t spread(mask_t mask) { return LANES == 16 ? mask : (mask_t)unknown((words_t)mask); }

/* The upper halves of the lanes' 64-bit products. */
INLINE words_t upper_product(words_t a, words_t b) {
  pairs_t even = ((pairs_t)a & 0xffffffff) * ((pairs_t)b & 0xffffffff), odd = ((pairs_t)a >> 32) * ((pairs_t)b >> 32);
  return (words_t)(even >> 32 | (odd & ~0xffffffffull));
}

INLINE lanes_t larger(lanes_t a, lanes_t b) { return choose(a > b, a, b); }

/* The largest entry of every lane's row, compared in the order of td_update.h. */
INLINE lanes_t largest_of_columns(const lanes_t column[ROW]) {
  lanes_t best = column[0];
  for (int a = 1; a < N_ACTIONS; a++) best = choose(column[a] > best, column[a], best);
  return best;
}

/* One entry for each lane from a table that all lanes share. A place refers to the lane's own table, as for place_t;
 * `first` is the number of lane 0 within the team. */
INLINE lanes_t load_shared(const value_t *table, const place_t *place, int first) {
  lanes_t entries;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) entries[l] = table[(int64_t)place[l] - TABLE_AT(first + l)];
  return entries;
}

#if LANES == 8
#include "lanes_avx2.h"
#else

/* The places of all lanes' entries or rows: AVX2 fetches them into registers, the others read them from memory. */
typedef const place_t *places_t;
INLINE places_t fetch(const place_t *place) { return place; }

#if LANES == 16
#include "lanes_avx512.h"
#else

/* column[a] = entry a of the rows at `place`, one from each lane's table. Loops over lanes are unrolled, here and in
 * the engine, because a lane whose number is not a constant is reached through memory. */
INLINE void load_columns(lanes_t column[ROW], const value_t *tables, const place_t *place) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++)
    for (int a = 0; a < N_ACTIONS; a++) column[a][l] = (tables + l * APART)[place[l] + a];
}

/* Four entries from the row of lane k. */
INLINE lanes_t load_fours(const value_t *tables, const place_t *place, int k) {
  lanes_t four;
  memcpy(&four, tables + place[k], sizeof(four));
  return four;
}

INLINE lanes_t load_entries(const value_t *tables, const place_t *place) {
  lanes_t entries;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) entries[l] = (tables + l * APART)[place[l]];
  return entries;
}

INLINE void store_entries(value_t *tables, const place_t *place, lanes_t entries) {
  entries = (lanes_t)unknown((words_t)entries);
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) (tables + l * APART)[place[l]] = entries[l];
}

#endif

/* For each lane l, the record of 8 bytes with index at[l], split into its lower and upper word. */
INLINE void load_records(words_t *lower, words_t *upper, const void *records, words_t at) {
  typedef uint64_t record_t __attribute__((vector_size(8 * LANES)));
  record_t record;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) {
    uint64_t one;
    memcpy(&one, (const char *)records + 8ull * at[l], sizeof(one));
    record[l] = one;
  }
  *lower = __builtin_convertvector(record, words_t);
  *upper = __builtin_convertvector(record >> 32, words_t);
}

/* Store places of all lanes: `first`, and `second` behind it. */
INLINE void store_places(place_t *place, words_t first, words_t second) {
  typedef place_t vector_t __attribute__((vector_size(sizeof(place_t) * LANES)));
  *(vector_t *)place = __builtin_convertvector(first, vector_t);
  *(vector_t *)(place + LANES) = __builtin_convertvector(second, vector_t);
}

#endif

/* The largest entry of each lane's row. */
#if LANES == 16
INLINE lanes_t largest_of_rows(const value_t *tables, places_t places) {
  lanes_t column[ROW];
  load_columns(column, tables, places);
  return largest_of_columns(column);
}
#else
#if LANES == 8
#define SHUFFLED(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l, (i) + 4, (j) + 4, (k) + 4, (l) + 4)
#else
#define SHUFFLED(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#endif

/* Without columns: first the fours of a row are compared with each other, padding included. Then the shuffles of a
 * transposition bring together what remains to be compared, half as much each time. This is not the order of
 * td_update.h, so a zero may have the other sign, but no entry that learns from it differs (value_of_next in engine.c).
 * (Entries are finite: a run that leaves single precision is rejected at the end.) */
INLINE lanes_t largest_of_rows(const value_t *tables, places_t places) {
  enum { B = LANES }; /* index of the second vector's first number */
  lanes_t row[4];
  for (int k = 0; k < 4; k++) {
    row[k] = load_fours(tables + FOUR(0), places, k);
    for (int first = 4; first < ROW; first += 4) row[k] = larger(row[k], load_fours(tables + FOUR(first), places, k));
  }
  lanes_t a = larger(SHUFFLED(row[0], row[1], 0, B, 1, B + 1), SHUFFLED(row[0], row[1], 2, B + 2, 3, B + 3));
  lanes_t b = larger(SHUFFLED(row[2], row[3], 0, B, 1, B + 1), SHUFFLED(row[2], row[3], 2, B + 2, 3, B + 3));
  return larger(SHUFFLED(a, b, 0, 1, B, B + 1), SHUFFLED(a, b, 2, 3, B + 2, B + 3));
}
#endif

#endif
