/* Blocks of one size; see alloc.h. */
#ifndef DPUSIM_FSB_ALLOCATOR_H
#define DPUSIM_FSB_ALLOCATOR_H
#include <alloc.h>
#endif
