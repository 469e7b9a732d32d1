/* The part of the DPU runtime that is ordinary C. What needs the machine goes through include/intrinsics.h.
 *
 * Nothing here is re-initialised at a launch, as on a DPU: the heap pointer lives in WRAM like any other variable. */
#include <alloc.h>
#include <attributes.h>
#include <errno.h>
#include <intrinsics.h>
#include <mram.h>
#include <mutex.h>
#include <perfcounter.h>
#include <seqread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__host const volatile uint32_t CLOCKS_PER_SEC = 350000000;

int errno;

/* ---- heap: alloc.h ---- */

extern uint8_t __heap_start[], __heap_end[]; /* placed by the linker script */

MUTEX_INIT(__heap_lock);
static uint8_t *__dpusim_heap_next = __heap_start;

static void *heap_take(size_t size) {
  uint8_t *block = (uint8_t *)(((uintptr_t)__dpusim_heap_next + 7) & ~(uintptr_t)7);
  if (size > (size_t)(__heap_end - block)) __dpusim_fault(DPUSIM_FAULT_HEAP_FULL);
  __dpusim_heap_next = block + size;
  return block;
}

void *mem_alloc(size_t size) {
  mutex_lock(__heap_lock);
  void *block = heap_take(size);
  mutex_unlock(__heap_lock);
  return block;
}

void *mem_reset(void) {
  mutex_lock(__heap_lock);
  __dpusim_heap_next = __heap_start;
  mutex_unlock(__heap_lock);
  return __heap_start;
}

fsb_allocator_t fsb_alloc(size_t block_size, unsigned int blocks) {
  size_t step = block_size < 8 ? 8 : (block_size + 7) & ~(size_t)7;
  fsb_allocator_t allocator = mem_alloc(8 + step * blocks);
  uint8_t *block = (uint8_t *)allocator + 8;
  allocator->free_list = blocks ? block : NULL;
  for (unsigned int i = 0; i < blocks; i++, block += step) *(void **)block = i + 1 < blocks ? block + step : NULL;
  return allocator;
}

void *fsb_get(fsb_allocator_t allocator) {
  mutex_lock(__heap_lock);
  void *block = allocator->free_list;
  if (block) allocator->free_list = *(void **)block;
  mutex_unlock(__heap_lock);
  return block;
}

void fsb_free(fsb_allocator_t allocator, void *block) {
  mutex_lock(__heap_lock);
  *(void **)block = allocator->free_list;
  allocator->free_list = block;
  mutex_unlock(__heap_lock);
}

/* The buddy heap is a binary tree in an array: node 1 is the whole heap, 2n and 2n + 1 are the halves of node n.
 * Each node keeps the logarithm of the largest free block below it, plus one; 0 means nothing is free. */
enum { BUDDY_SMALLEST = 4, BUDDY_LARGEST = 15, BUDDY_NODES = 2 << (BUDDY_LARGEST - BUDDY_SMALLEST) };

static struct {
  uint8_t *start;
  uint8_t *largest; /* one entry a node */
  uint32_t log2_size;
} buddy;

static void buddy_fill(void) {
  uint32_t node = 1;
  for (uint32_t log2 = buddy.log2_size; log2 >= BUDDY_SMALLEST; log2--)
    for (uint32_t last = node * 2; node < last; node++) buddy.largest[node] = log2 + 1;
}

void buddy_init(size_t size) {
  buddy.log2_size = BUDDY_SMALLEST + 1;
  while ((size_t)1 << buddy.log2_size < size) buddy.log2_size++;
  if (buddy.log2_size > BUDDY_LARGEST) __dpusim_fault(DPUSIM_FAULT_HEAP_FULL);
  buddy.start = mem_alloc((size_t)1 << buddy.log2_size);
  buddy.largest = mem_alloc((size_t)2 << (buddy.log2_size - BUDDY_SMALLEST));
  buddy_fill();
}

void buddy_reset(void) {
  mutex_lock(__heap_lock);
  buddy_fill();
  mutex_unlock(__heap_lock);
}

/* Recompute the parents of a node; two free halves of full size join. */
static void buddy_update(uint32_t node, uint32_t log2) {
  while (node > 1) {
    node /= 2, log2++;
    uint8_t left = buddy.largest[2 * node], right = buddy.largest[2 * node + 1];
    buddy.largest[node] = left == log2 && right == log2 ? log2 + 1 : left > right ? left : right;
  }
}

static void *buddy_take(uint32_t wanted) {
  if (buddy.largest[1] < wanted + 1) return NULL;
  uint32_t node = 1, log2 = buddy.log2_size;
  for (; log2 > wanted; log2--) node = 2 * node + (buddy.largest[2 * node] < wanted + 1);
  buddy.largest[node] = 0;
  uint32_t offset = (node << log2) - (1u << buddy.log2_size);
  buddy_update(node, log2);
  return buddy.start + offset;
}

void *buddy_alloc(size_t size) {
  uint32_t log2 = BUDDY_SMALLEST;
  while ((size_t)1 << log2 < size) log2++;
  mutex_lock(__heap_lock);
  void *block = log2 <= buddy.log2_size ? buddy_take(log2) : NULL;
  if (!block) errno = ENOMEM;
  mutex_unlock(__heap_lock);
  return block;
}

/* The node of an allocated block: the lowest one at its address that is taken. */
static uint32_t buddy_node(const void *block, uint32_t *log2) {
  *log2 = BUDDY_SMALLEST;
  uint32_t offset = (uint32_t)((const uint8_t *)block - buddy.start);
  uint32_t node = (offset + (1u << buddy.log2_size)) >> BUDDY_SMALLEST;
  while (node > 1 && buddy.largest[node]) node /= 2, ++*log2;
  return node;
}

void buddy_free(void *block) {
  if (!block) return;
  uint32_t log2;
  mutex_lock(__heap_lock);
  uint32_t node = buddy_node(block, &log2);
  buddy.largest[node] = log2 + 1;
  buddy_update(node, log2);
  mutex_unlock(__heap_lock);
}

void *buddy_realloc(void *block, size_t size) {
  if (!block) return buddy_alloc(size);
  uint32_t log2;
  buddy_node(block, &log2);
  void *other = buddy_alloc(size);
  if (!other) return NULL;
  size_t old = (size_t)1 << log2;
  memcpy(other, block, old < size ? old : size);
  buddy_free(block);
  return other;
}

/* ---- seqread.h ---- */

seqreader_buffer_t __seqread_alloc(uint32_t cache_size) { return (seqreader_buffer_t)mem_alloc(2 * cache_size); }

void *__seqread_seek(const __mram_ptr void *from, seqreader_t *reader, uint32_t cache_size) {
  uint32_t address = (uint32_t)from;
  reader->page = address & ~7u;
  mram_read((const __mram_ptr void *)reader->page, (void *)reader->cache, 2 * cache_size);
  return (void *)(reader->cache + (address & 7));
}

/* ---- stdio.h: the machine formats the text into the DPU's log ---- */

/* What the DPU's own buffer takes from MRAM, unless STDOUT_BUFFER_INIT defines it; linked only with a program that
 * prints. The machine takes the buffer's size from the program's symbols. */
__mram_ptr __attribute__((weak, aligned(8), section(".bss.__dpu_print_buffer"))) uint8_t __dpusim_print_buffer[1 << 20];

struct log_request {
  const char *format;
  const uint64_t *arguments;
  __mram_ptr uint8_t *buffer;
};

int __dpusim_print(const char *format, const uint64_t *arguments) {
  struct log_request request = {format, arguments, __dpusim_print_buffer};
  int written;
  __dpusim_system(written, DPUSIM_LOG, &request);
  return written;
}

int puts(const char *text) { return printf("%s\n", text); }

int putchar(int character) {
  printf("%c", character);
  return character;
}

void __assert_failed(const char *text, const char *file, int line) {
  printf("%s:%d: assertion failed: %s\n", file, line, text);
  __dpusim_fault(DPUSIM_FAULT_ASSERT);
}

/* ---- stdlib.h ---- */

long atol(const char *text) {
  while (*text == ' ' || (*text >= '\t' && *text <= '\r')) text++;
  bool negative = *text == '-';
  if (*text == '-' || *text == '+') text++;
  unsigned long value = 0;
  for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + (unsigned long)(*text - '0');
  return negative ? -value : value;
}

int atoi(const char *text) { return (int)atol(text); }

void exit(int status) {
  uint32_t ignored;
  __dpusim_system(ignored, DPUSIM_EXIT, status);
  __builtin_unreachable();
}

void abort(void) { __dpusim_fault(DPUSIM_FAULT_HALT); }

/* ---- string.h; memcpy, memmove and memset are routines of the machine ---- */

int memcmp(const void *left, const void *right, size_t size) {
  const uint8_t *a = left, *b = right;
  for (; size; size--, a++, b++)
    if (*a != *b) return *a - *b;
  return 0;
}

size_t strnlen(const char *text, size_t limit) {
  size_t length = 0;
  while (length < limit && text[length]) length++;
  return length;
}

size_t strlen(const char *text) { return strnlen(text, SIZE_MAX); }

int strncmp(const char *left, const char *right, size_t limit) {
  for (; limit; limit--, left++, right++)
    if (*left != *right || !*left) return (uint8_t)*left - (uint8_t)*right;
  return 0;
}

int strcmp(const char *left, const char *right) { return strncmp(left, right, SIZE_MAX); }

char *strncpy(char *restrict to, const char *restrict from, size_t limit) {
  size_t i = 0;
  for (; i < limit && from[i]; i++) to[i] = from[i];
  for (; i < limit; i++) to[i] = 0;
  return to;
}

char *strcpy(char *restrict to, const char *restrict from) {
  memcpy(to, from, strlen(from) + 1);
  return to;
}

char *strcat(char *restrict to, const char *restrict from) {
  strcpy(to + strlen(to), from);
  return to;
}

char *strchr(const char *text, int character) {
  for (; *text != (char)character; text++)
    if (!*text) return NULL;
  return (char *)text;
}

char *strrchr(const char *text, int character) {
  const char *found = NULL;
  do
    if (*text == (char)character) found = text;
  while (*text++);
  return (char *)found;
}

void *memchr(const void *at, int value, size_t size) {
  for (const uint8_t *byte = at; size; size--, byte++)
    if (*byte == (uint8_t)value) return (void *)byte;
  return NULL;
}

char *strncat(char *restrict to, const char *restrict from, size_t limit) {
  size_t length = strnlen(from, limit);
  char *end = to + strlen(to);
  memcpy(end, from, length);
  end[length] = 0;
  return to;
}

char *strstr(const char *text, const char *wanted) {
  size_t length = strlen(wanted);
  for (; strncmp(text, wanted, length); text++)
    if (!*text) return NULL;
  return (char *)text;
}

/* Characters at the start that are all in `set`, or all not. */
static size_t span(const char *text, const char *set, bool in) {
  size_t length = 0;
  while (text[length] && (strchr(set, text[length]) != NULL) == in) length++;
  return length;
}

size_t strspn(const char *text, const char *accepted) { return span(text, accepted, true); }

size_t strcspn(const char *text, const char *rejected) { return span(text, rejected, false); }

char *strpbrk(const char *text, const char *accepted) {
  text += strcspn(text, accepted);
  return *text ? (char *)text : NULL;
}

char *strsep(char **text, const char *separators) {
  char *first = *text;
  if (!first) return NULL;
  char *end = strpbrk(first, separators);
  if (end) *end++ = 0;
  *text = end;
  return first;
}

char *strtok_r(char *restrict text, const char *restrict separators, char **restrict rest) {
  char *first = text ? text : *rest;
  if (!first) return NULL;
  first += strspn(first, separators);
  *rest = *first ? first : NULL;
  return *first ? strsep(rest, separators) : NULL;
}

char *stpcpy(char *restrict to, const char *restrict from) {
  strcpy(to, from);
  return to + strlen(to);
}

char *stpncpy(char *restrict to, const char *restrict from, size_t limit) {
  strncpy(to, from, limit);
  return to + strnlen(to, limit);
}
