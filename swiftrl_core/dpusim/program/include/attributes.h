/* Where a variable lives, and who sees it.
 *
 * WRAM is address space 0. MRAM pointers live in address space 255, so the compiler refuses to mix them with WRAM
 * pointers; they may be dereferenced for scalars, at the price of a DMA each. */
#ifndef DPUSIM_ATTRIBUTES_H
#define DPUSIM_ATTRIBUTES_H

#define __mram_ptr __attribute__((address_space(255)))
#define __dma_aligned __attribute__((aligned(8)))
#define __keep __attribute__((used))

/* Visible to the host. */
#define __host __attribute__((used, aligned(8), section(".data.__sys_host")))

/* In MRAM: written by load, or left as it was. The `.bss` prefix keeps the object file empty. */
#define __mram __mram_ptr __attribute__((used, aligned(8), section(".mram")))
#define __mram_keep __mram
#define __mram_noinit __mram_ptr __attribute__((used, aligned(8), section(".bss.__dpu_mram_noinit")))
#define __mram_noinit_keep __mram_noinit

#define __noinline __attribute__((noinline))
#define __aligned(bytes) __attribute__((aligned(bytes)))
#define __section(name) __attribute__((section(name)))
#define __used __attribute__((used))
#define __NO_RETURN __attribute__((noreturn))
#define DEPRECATED __attribute__((deprecated))
#define __weak __attribute__((weak))

#endif
