/* Single precision without the DPU's routines, where what is known beforehand makes it cheaper: the same bits.
 *
 * A DPU has no floating point. Its routine takes 166 instructions for a product of any two numbers and 12 for a
 * comparison. An update multiplies by alpha and by gamma only, and a run that meets a NaN, which `in_order` puts where it
 * does not belong, is refused in the end. */
#ifndef SWIFTRL_SOFT_FLOAT_H
#define SWIFTRL_SOFT_FLOAT_H

#include <stdint.h>

#include "inline.h"
#include "tuning.h"

/* constant * x. */
#if CONSTANT_PRODUCTS
#define PRODUCT(constant, x) times_constant(x, constant)
#else
#define PRODUCT(constant, x) ((constant) * (x))
#endif

/* a > b, values of a table. */
#if INTEGER_COMPARISON
#define EXCEEDS(a, b) (in_order(a) > in_order(b))
#else
#define EXCEEDS(a, b) ((a) > (b))
#endif

#if CONSTANT_PRODUCTS || INTEGER_COMPARISON
INLINE uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }

/* A number whose order is that of x: a float is a sign and a magnitude, an integer is not. -0 comes out as +0 does. */
INLINE int32_t in_order(float x) {
  int32_t bits = (int32_t)bits_of(x);
  return bits < 0 ? INT32_MIN - bits : bits;
}

/* constant * x, rounded to nearest, ties to even, as IEEE says.
 *
 * Mantissas have 24 bits, so that of x times one byte of the constant's just fits a word: three such products, each a
 * few shift-and-adds since the byte is known, make up the upper 32 of the product's 48 bits, and of the lower 16 all
 * that counts is whether any of them is 1. Every intermediate is a part of a 48-bit product, cut off below, so none
 * overflows; nor does rounding, for the upper 32 bits are below 2^32 - 2^8.
 *
 * The routine takes over where the exponent of x is too small for the product to be a normal number (x = 0 is the common
 * case, which it makes short work of), where x is not finite, and where the constant is 0, subnormal, negative or 1 and
 * more, by which a product could pass the largest number, or not known after all. */
INLINE float times_constant(float x, float constant) {
  const uint32_t c = bits_of(constant), c_exponent = c >> 23, c_mantissa = (c & 0x7fffff) | 0x800000;
  const uint32_t least = 128 - c_exponent; /* exponent of x: its product's is at least 1 */
  uint32_t bits = bits_of(x);
  if (!__builtin_constant_p(c) || c_exponent == 0 || c_exponent > 126) return constant * x;
  if ((bits >> 23 & 0xff) - least > 254 - least) return constant * x;

  uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
  uint32_t low = mantissa * (c_mantissa & 0xff);
  uint32_t middle = mantissa * (c_mantissa >> 8 & 0xff) + (low >> 8);
  uint32_t high = mantissa * (c_mantissa >> 16) + (middle >> 8);
  high |= ((low | middle) & 0xff) != 0;

  uint32_t product =
      (bits & 0xff800000) + ((c_exponent - 128) << 23); /* sign, exponent; a mantissa's first bit adds 1 */
  if (high >> 31)
    product += ((high + 0x7f + (high >> 8 & 1)) >> 8) + (1 << 23);
  else
    product += (high + 0x3f + (high >> 7 & 1)) >> 7;
  return __builtin_bit_cast(float, product);
}
#endif

#endif
