/* printf of a kernel: the format and its arguments lie in the DPU's memory, the text goes to the machine's log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

enum { TEXT_LIMIT = 4096 }; /* one formatted argument */

/* Add to the DPU's print buffer; older text gives way. */
static bool log_append(struct machine *machine, const char *text, size_t size) {
  if (machine->log_size + size + 1 > machine->log_room) {
    size_t room = (machine->log_size + size + 1) * 2;
    char *larger = realloc(machine->log, room);
    if (!larger) return false;
    machine->log = larger, machine->log_room = room;
  }
  memcpy(machine->log + machine->log_size, text, size);
  machine->log_size += size;
  size_t most = machine->program->print_bytes;
  if (machine->log_size > most) {
    memmove(machine->log, machine->log + machine->log_size - most, most);
    machine->log_size = most, machine->log_lost = true;
  }
  return true;
}

static uint32_t wram_word(const struct machine *machine, uint32_t address) {
  uint32_t word = 0;
  if (address <= machine->program->wram_bytes - 4) memcpy(&word, machine->wram + address, 4);
  return word;
}

/* The next argument; include/stdio.h passes every one as 64 bits. */
static uint64_t next_argument(const struct machine *machine, uint32_t *at) {
  uint64_t value = wram_word(machine, *at) | (uint64_t)wram_word(machine, *at + 4) << 32;
  *at += 8;
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

/* A string argument, through this machine's printf for width and precision. */
static int print_string(const struct machine *machine, char *format, size_t used, uint32_t address, char *text) {
  size_t length;
  const char *string = wram_string(machine, address, &length);
  char copy[TEXT_LIMIT];
  length = length < sizeof copy - 1 ? length : sizeof copy - 1;
  memcpy(copy, string, length), copy[length] = 0;
  memcpy(format + used, "s", 2);
  return snprintf(text, TEXT_LIMIT, format, copy);
}

static int print_number(char *format, size_t used, char letter, bool wide, uint64_t value, char *text) {
  bool is_signed = letter == 'd' || letter == 'i';
  if (!wide) value = is_signed ? (uint64_t)(int64_t)(int32_t)value : (uint32_t)value;
  snprintf(format + used, 6, "ll%c", letter);
  return snprintf(text, TEXT_LIMIT, format, value);
}

static int print_real(char *format, size_t used, char letter, uint64_t value, char *text) {
  double number;
  memcpy(&number, &value, sizeof number);
  snprintf(format + used, 4, "%c", letter);
  return snprintf(text, TEXT_LIMIT, format, number);
}

/* One conversion of the format, from `%` to its letter, rebuilt for this machine's printf. `l` is 64 bits, as on a
 * DPU. */
static int print_conversion(struct machine *machine, const char *spec, size_t size, uint32_t *at, char *text) {
  char format[40] = "%";
  size_t used = 1;
  bool wide = false;
  for (size_t i = 1; i + 1 < size && used < 24; i++) {
    if (spec[i] == 'l')
      wide = true;
    else if (spec[i] == '*')
      used += (size_t)snprintf(format + used, 12, "%d", (int32_t)next_argument(machine, at));
    else if (!strchr("hzjt", spec[i]))
      format[used++] = spec[i];
  }
  char letter = spec[size - 1];
  uint64_t value = next_argument(machine, at);
  if (strchr("feE", letter)) return print_real(format, used, letter, value, text);
  if (strchr("diouxX", letter)) return print_number(format, used, letter, wide, value, text);
  if (letter == 's') return print_string(machine, format, used, (uint32_t)value, text);
  if (letter == 'p') return snprintf(text, TEXT_LIMIT, "0x%08x", (uint32_t)value);
  if (letter != 'c') return snprintf(text, TEXT_LIMIT, "(no conversion %%%c on a DPU)", letter);
  memcpy(format + used, "c", 2);
  return snprintf(text, TEXT_LIMIT, format, (int)value);
}

int32_t log_print(struct machine *machine, uint32_t request) {
  size_t length;
  const char *format = wram_string(machine, wram_word(machine, request), &length);
  uint32_t at = wram_word(machine, request + 4);
  char text[TEXT_LIMIT];
  int32_t written = 0;
  for (size_t i = 0, end; i < length; i = end) {
    const char *piece = format + i;
    size_t size;
    end = i + 1;
    if (*piece != '%') {
      while (end < length && format[end] != '%') end++;
      size = end - i;
    } else if (end < length && format[end] == '%') {
      end++, size = 1;
    } else {
      while (end < length && strchr("0123456789+-# .*hlzjt", format[end])) end++;
      end += end < length;
      int made = print_conversion(machine, piece, end - i, &at, text);
      size = made < 0 ? 0 : made < TEXT_LIMIT ? (size_t)made : TEXT_LIMIT - 1;
      piece = text;
    }
    if (!log_append(machine, piece, size)) return -FAULT_OUT_OF_MEMORY;
    written += (int32_t)size;
    if ((uint32_t)written > machine->program->print_bytes) return -FAULT_LOG_FULL;
  }
  return written;
}
