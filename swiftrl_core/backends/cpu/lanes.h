/* Vectors with a lane for each of LANES virtual cores, and the ways between them and the cores' tables.
 *
 * GCC's vector types carry the arithmetic: + or > on a lanes_t works on every lane, and the compiler spells it in
 * whatever instructions the target has. What it cannot find by itself is how to collect rows of many tables. A vector
 * unit loads whole rows quickly and scattered entries slowly, so a row comes in by one load. Transposed in registers,
 * rows become columns: column a holds Q(s', a) of every lane, each lane with an s' of its own. Where only the largest
 * of a row is wanted, half a transposition does. Plain loops say what is meant; AVX-512 and AVX2 say the same in their
 * own instructions.
 *
 * Needs N_STATES, N_ACTIONS, value_t, and TEAM, which is how many vectors' tables stand together. */
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

/* In the engine a row has room for four entries at least, which one load fetches, and with AVX-512 for four or for
 * multiples of eight, aligned; elsewhere longer rows stand close together, so that more of them fit a cache. Padding is
 * the least number there is, which is never the largest. A table has one row more than there are states, the spare one,
 * where a lane reads and writes while it has nothing to do; and it fills an odd number of cache lines, since tables a
 * power of two apart would contend for the same few sets of the cache. */
#if LANES == 16
#define ROW (N_ACTIONS <= 4 ? 4 : (N_ACTIONS + 7) / 8 * 8)
#else
#define ROW (N_ACTIONS <= 4 ? 4 : N_ACTIONS)
#endif
#define SPARE (N_STATES * ROW)
/* A row comes in by fours; the last four of a row end with it, and so may overlap those before. */
#define FOUR(first) ((first) + 4 <= ROW ? (first) : ROW - 4)
#define TABLE (((SPARE + ROW + 15) / 16 | 1) * 16)

/* Where an entry stands: counted from the first of a team's tables, so that an address is a register and a place. 16
 * lanes have so many tables that 16 bits would not do for Taxi; their places count from the lane's own table, which is
 * APART entries further on than its neighbour's. 16 bits if they suffice: a transition is read once an update, so its
 * size counts. */
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

/* a where the mask holds, b elsewhere. */
INLINE words_t choose_words(mask_t mask, words_t a, words_t b) { return (a & (words_t)mask) | (b & ~(words_t)mask); }
INLINE lanes_t choose(mask_t mask, lanes_t a, lanes_t b) { return (lanes_t)choose_words(mask, (words_t)a, (words_t)b); }

/* The same vector, of which the compiler no longer knows what is in it: now and then it knows a little and makes a lot
 * of it, such as lane by lane arithmetic where lanes are stored one by one. */
INLINE words_t unknown(words_t v) {
#ifdef __x86_64__
  __asm__("" : "+v"(v));
#endif
  return v;
}

/* The same mask, of which the compiler no longer knows that its lanes are all ones or all zeros: it would pack them to
 * join them to narrower ones, and unpack them to use them. With AVX-512, which has registers for truths, it may
 * know. */
INLINE mask_t spread(mask_t mask) { return LANES == 16 ? mask : (mask_t)unknown((words_t)mask); }

/* The upper halves of the products of two lanes. */
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

/* The entries of one table for all lanes, by places in tables of their own, which begin with the team's `first`. */
INLINE lanes_t load_shared(const value_t *table, const place_t *place, int first) {
  lanes_t entries;
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++) entries[l] = table[(int64_t)place[l] - TABLE_AT(first + l)];
  return entries;
}

#if LANES == 8
#include "lanes_avx2.h"
#else

/* Where all lanes' entries or rows stand: AVX2 fetches the places into registers, others read them where they are. */
typedef const place_t *places_t;
INLINE places_t fetch(const place_t *place) { return place; }

#if LANES == 16
#include "lanes_avx512.h"
#else

/* column[a] = the entries a of the rows at `place`, one from each lane's table. Lane loops are unrolled, here and in
 * the engine: a lane whose number is no constant is reached through memory. */
INLINE void load_columns(lanes_t column[ROW], const value_t *tables, const place_t *place) {
#pragma GCC unroll 16
  for (int l = 0; l < LANES; l++)
    for (int a = 0; a < N_ACTIONS; a++) column[a][l] = (tables + l * APART)[place[l] + a];
}

/* Four entries in the row of lane k. */
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

/* The records of 8 bytes at `at`, one for each lane, as lower and upper words. */
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

/* Places of all lanes, and behind them others. */
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

/* Without columns: the fours of a row are compared with each other, padding and all, then what a transposition brings
 * together, half by half. That is not the order of td_update.h, so a zero may have another sign, which no entry that
 * learns from it can tell (learn). (Entries are finite: a run that leaves single precision is refused in the end.) */
INLINE lanes_t largest_of_rows(const value_t *tables, places_t places) {
  enum { B = LANES }; /* where the second vector's numbers begin */
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
