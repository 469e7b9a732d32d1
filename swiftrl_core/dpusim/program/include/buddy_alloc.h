/* Blocks of powers of two; see alloc.h. */
#ifndef DPUSIM_BUDDY_ALLOC_H
#define DPUSIM_BUDDY_ALLOC_H
#include <alloc.h>
#endif
