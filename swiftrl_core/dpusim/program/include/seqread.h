/* Read MRAM item by item through a small WRAM cache that refills itself. */
#ifndef DPUSIM_SEQREAD_H
#define DPUSIM_SEQREAD_H

#include <attributes.h>
#include <mram.h>
#include <stdint.h>

#ifndef SEQREAD_CACHE_SIZE
#define SEQREAD_CACHE_SIZE 256
#endif
_Static_assert(SEQREAD_CACHE_SIZE >= 32 && SEQREAD_CACHE_SIZE <= 1024 &&
                   (SEQREAD_CACHE_SIZE & (SEQREAD_CACHE_SIZE - 1)) == 0,
               "SEQREAD_CACHE_SIZE must be a power of two from 32 to 1024");

/* A buffer of two pages, so that an item which begins in the first page is whole. */
typedef uintptr_t seqreader_buffer_t;

typedef struct {
  seqreader_buffer_t cache;
  uint32_t page; /* MRAM address of the cached bytes, a multiple of 8 */
} seqreader_t;

seqreader_buffer_t __seqread_alloc(uint32_t cache_size);
void *__seqread_seek(const __mram_ptr void *from, seqreader_t *reader, uint32_t cache_size);

static inline seqreader_buffer_t seqread_alloc(void) { return __seqread_alloc(SEQREAD_CACHE_SIZE); }

static inline void *seqread_seek(const __mram_ptr void *from, seqreader_t *reader) {
  return __seqread_seek(from, reader, SEQREAD_CACHE_SIZE);
}

/* Point the reader at an MRAM address, of any alignment. Returns the item's place in WRAM. */
static inline void *seqread_init(seqreader_buffer_t cache, const __mram_ptr void *from, seqreader_t *reader) {
  reader->cache = cache;
  return seqread_seek(from, reader);
}

/* MRAM address of the item at `item`. */
static inline __mram_ptr void *seqread_tell(void *item, seqreader_t *reader) {
  return (__mram_ptr void *)(reader->page + ((uintptr_t)item - reader->cache));
}

/* Step `increment` bytes forward (less than the cache size); refill when the step leaves the first page. */
static inline void *seqread_get(void *item, uint32_t increment, seqreader_t *reader) {
  uintptr_t next = (uintptr_t)item + increment;
  if (__builtin_expect(next - reader->cache < SEQREAD_CACHE_SIZE, 1)) return (void *)next;
  return seqread_seek(seqread_tell((void *)next, reader), reader);
}

#endif
