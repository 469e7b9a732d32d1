/* printf for debugging: the host formats the text when the DPU prints it. No %g, as on the DPU.
 *
 * On a DPU a long has 64 bits and kernels print 64-bit numbers with %lu; here it has 32. So that both work, printf is a
 * macro that hands over every argument as 64 bits, and the format takes of them what it names. */
#ifndef DPUSIM_STDIO_H
#define DPUSIM_STDIO_H

#include <attributes.h>
#include <stddef.h>
#include <stdint.h>

/* The DPU keeps what it prints in an MRAM buffer of 1 MiB, or of as many bytes as are asked for here. */
#define STDOUT_BUFFER_INIT(bytes)                                                               \
  _Static_assert((bytes) > 0 && (bytes) % 8 == 0, "the print buffer is a multiple of 8 bytes"); \
  __mram_ptr __attribute__((aligned(8), section(".bss.__dpu_print_buffer"))) uint8_t __dpusim_print_buffer[bytes];

int __dpusim_print(const char *format, const uint64_t *arguments);
int puts(const char *text);
int putchar(int character);

static inline uint64_t __dpusim_double_bits(double value) {
  union {
    double value;
    uint64_t bits;
  } both = {value};
  return both.bits;
}

#define __dpusim_is_real(x) _Generic((x), float: 1, double: 1, default: 0)
#define __dpusim_argument(x)                                                                                           \
  __builtin_choose_expr(__dpusim_is_real(x), __dpusim_double_bits(__builtin_choose_expr(__dpusim_is_real(x), x, 0.0)), \
                        (uint64_t)__builtin_choose_expr(__dpusim_is_real(x), 0, x))

/* Apply a macro to each of up to 27 arguments: each expansion unrolls one more. */
#define __dpusim_unroll(...) __dpusim_unroll3(__dpusim_unroll3(__dpusim_unroll3(__VA_ARGS__)))
#define __dpusim_unroll3(...) __dpusim_unroll2(__dpusim_unroll2(__dpusim_unroll2(__VA_ARGS__)))
#define __dpusim_unroll2(...) __dpusim_unroll1(__dpusim_unroll1(__dpusim_unroll1(__VA_ARGS__)))
#define __dpusim_unroll1(...) __VA_ARGS__
#define __dpusim_parentheses ()
#define __dpusim_each(first, ...) \
  __dpusim_argument(first) __VA_OPT__(, __dpusim_each_again __dpusim_parentheses(__VA_ARGS__))
#define __dpusim_each_again() __dpusim_each

#define printf(format, ...) \
  __dpusim_print(format, (const uint64_t[]){__VA_OPT__(__dpusim_unroll(__dpusim_each(__VA_ARGS__)), ) 0})

#endif
