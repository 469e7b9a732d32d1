/* printf of a kernel: the format and its arguments lie in the DPU's memory, the text goes to the machine's log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

enum {
  LOG_BYTES = 1 << 20, /* the DPU's print buffer; older text gives way */
  TEXT_LIMIT = 4096,   /* one formatted argument */
};

static bool log_append(struct machine *machine, const char *text, size_t size) {
  if (machine->log_size + size + 1 > machine->log_room) {
    size_t room = (machine->log_size + size + 1) * 2;
    char *larger = realloc(machine->log, room);
    if (!larger) return false;
    machine->log = larger, machine->log_room = room;
  }
  memcpy(machine->log + machine->log_size, text, size);
  machine->log_size += size;
  if (machine->log_size > LOG_BYTES) {
    size_t surplus = machine->log_size - LOG_BYTES;
    memmove(machine->log, machine->log + surplus, LOG_BYTES);
    machine->log_size = LOG_BYTES;
  }
  return true;
}

static uint32_t wram_word(const struct machine *machine, uint32_t address) {
  uint32_t word = 0;
  if (address <= machine->program->wram_bytes - 4) memcpy(&word, machine->wram + address, 4);
  return word;
}

/* The next argument from the RISC-V argument area: 64-bit values are aligned to 8. */
static uint64_t next_argument(const struct machine *machine, uint32_t *at, bool wide) {
  if (wide) *at = (*at + 7) & ~7u;
  uint64_t value = wram_word(machine, *at);
  if (wide) value |= (uint64_t)wram_word(machine, *at + 4) << 32;
  *at += wide ? 8 : 4;
  return value;
}

/* A string argument, cut at the end of WRAM. */
static const char *wram_string(const struct machine *machine, uint32_t address, size_t *length) {
  uint32_t limit = machine->program->wram_bytes;
  if (address >= limit) return *length = 14, "(bad address) ";
  const char *text = (const char *)machine->wram + address;
  const char *end = memchr(text, 0, limit - address);
  *length = end ? (size_t)(end - text) : limit - address;
  return text;
}

/* One conversion of the format, from `%` to its letter; rebuilt for this machine's printf and executed there. */
static int print_conversion(struct machine *machine, const char *spec, size_t size, uint32_t *at, char *text) {
  char format[40] = "%";
  size_t used = 1, longs = 0;
  char letter = spec[size - 1];
  for (size_t i = 1; i + 1 < size && used < 24; i++) {
    if (spec[i] == 'l')
      longs++;
    else if (spec[i] == '*')
      used += (size_t)snprintf(format + used, 12, "%d", (int32_t)next_argument(machine, at, false));
    else if (!strchr("hzjt", spec[i]))
      format[used++] = spec[i];
  }
  bool real = strchr("feEgG", letter) != NULL;
  uint64_t value = next_argument(machine, at, real || (longs > 1 && letter != 's'));
  if (real) {
    double number;
    memcpy(&number, &value, sizeof number);
    snprintf(format + used, 4, "%c", letter);
    return snprintf(text, TEXT_LIMIT, format, number);
  }
  if (letter == 's') {
    size_t length;
    const char *string = wram_string(machine, (uint32_t)value, &length);
    char copy[TEXT_LIMIT];
    length = length < sizeof copy - 1 ? length : sizeof copy - 1;
    memcpy(copy, string, length), copy[length] = 0;
    snprintf(format + used, 4, "s");
    return snprintf(text, TEXT_LIMIT, format, copy);
  }
  if (letter == 'c') {
    snprintf(format + used, 4, "c");
    return snprintf(text, TEXT_LIMIT, format, (int)value);
  }
  if (letter == 'p') return snprintf(text, TEXT_LIMIT, "0x%08x", (uint32_t)value);
  bool is_signed = letter == 'd' || letter == 'i';
  if (is_signed && longs < 2) value = (uint64_t)(int64_t)(int32_t)value;
  snprintf(format + used, 6, "ll%c", letter);
  return snprintf(text, TEXT_LIMIT, format, value);
}

int32_t log_print(struct machine *machine, uint32_t request) {
  size_t length;
  const char *format = wram_string(machine, wram_word(machine, request), &length);
  uint32_t at = wram_word(machine, request + 4);
  char text[TEXT_LIMIT];
  int32_t written = 0;
  for (size_t i = 0; i < length;) {
    size_t end = i + 1;
    const char *piece = format + i;
    size_t size;
    if (*piece != '%') {
      while (end < length && format[end] != '%') end++;
      size = end - i;
    } else if (end < length && format[end] == '%') {
      end++, size = 1;
    } else {
      while (end < length && !strchr("diouxXcspfeEgG", format[end])) end++;
      end += end < length;
      int made = print_conversion(machine, piece, end - i, &at, text);
      size = made < 0 ? 0 : made < TEXT_LIMIT ? (size_t)made : TEXT_LIMIT - 1;
      piece = text;
    }
    if (!log_append(machine, piece, size)) return -1;
    written += (int32_t)size, i = end;
  }
  return written;
}
