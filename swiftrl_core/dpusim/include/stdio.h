/* printf for debugging: the host formats the text when it reads the DPU's log. No %g, as on the DPU. */
#ifndef DPUSIM_STDIO_H
#define DPUSIM_STDIO_H

#include <attributes.h>
#include <stdarg.h>
#include <stddef.h>

/* The DPU keeps its text in an MRAM buffer of 1 MiB unless told otherwise. */
#define STDOUT_BUFFER_INIT(bytes) \
  _Static_assert((bytes) > 0 && (bytes) % 8 == 0, "the print buffer is a multiple of 8 bytes");

int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int puts(const char *text);
int putchar(int character);

#endif
