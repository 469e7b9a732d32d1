/* From the paper's kernel to a fast one: build switches of learner.c, each 0 unless the build says 1 (-DHELD_CHUNK=1).
 *
 * None of them changes a bit of a table. What each one saves, on which learner, is measured by
 * swiftrl_core/kernel_study.py and shown in notebook 11; steps that saved nothing, or changed bits, are not here.
 *
 *   -DKNOWN_ALPHA=... KNOWN_ALPHA_SCALE, KNOWN_GAMMA, KNOWN_GAMMA_SCALE: the coefficients of td_rule.h are constants of the
 *                       build, no longer arguments of the launch. The next two need them.
 *   CONSTANT_DIVISION   INT32 divides by them with shifts and additions: constant_division.h
 *   CONSTANT_PRODUCTS   FP32 multiplies by them with shifts and additions: soft_float.h
 *   INTEGER_COMPARISON  FP32 finds the maximum of a row by comparing integers: soft_float.h
 *   KEPT_MAXIMA         the maximum of every row is kept, not looked for: learner.c
 *   HELD_CHUNK          with -DBLOCK_RECORDS=... as many records as WRAM has room for; a chunk that fits is fetched once a
 *                       launch, not once a pass: learner.c
 *   FACTORED_LCG        the random numbers' multiplication is seven shift-and-adds: lcg.h */
#ifndef SWIFTRL_TUNING_H
#define SWIFTRL_TUNING_H

#ifndef CONSTANT_DIVISION
#define CONSTANT_DIVISION 0
#endif
#ifndef CONSTANT_PRODUCTS
#define CONSTANT_PRODUCTS 0
#endif
#ifndef INTEGER_COMPARISON
#define INTEGER_COMPARISON 0
#endif
#ifndef KEPT_MAXIMA
#define KEPT_MAXIMA 0
#endif
#ifndef HELD_CHUNK
#define HELD_CHUNK 0
#endif
#ifndef FACTORED_LCG
#define FACTORED_LCG 0
#endif

#endif
