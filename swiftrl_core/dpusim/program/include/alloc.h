/* Memory from the heap: the WRAM behind globals and stacks. There is no malloc on a DPU. */
#ifndef DPUSIM_ALLOC_H
#define DPUSIM_ALLOC_H

#include <attributes.h>
#include <stddef.h>
#include <stdint.h>

/* Bump allocator: 8-byte aligned; a full heap is a fault. `mem_alloc(0)` tells where the next block would be. */
void *mem_alloc(size_t size);

/* Forget every block, of all allocators. Returns the start of the heap. */
void *mem_reset(void);

/* Fixed-size blocks: one size, a free list. */
typedef struct fsb_allocator {
  void *free_list;
} *fsb_allocator_t;

fsb_allocator_t fsb_alloc(size_t block_size, unsigned int blocks);
void *fsb_get(fsb_allocator_t allocator); /* NULL when none is left */
void fsb_free(fsb_allocator_t allocator, void *block);

/* Power-of-two blocks of at least 16 bytes, halved and joined in pairs; NULL when none fits. */
void buddy_init(size_t size); /* a power of two, 32 .. 32768; taken from mem_alloc */
void *buddy_alloc(size_t size);
void buddy_free(void *block);
void *buddy_realloc(void *block, size_t size);
void buddy_reset(void);

#endif
