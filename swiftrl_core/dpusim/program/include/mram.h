/* DMA between MRAM and WRAM: 8 to 2048 bytes, sizes and both addresses multiples of 8. */
#ifndef DPUSIM_MRAM_H
#define DPUSIM_MRAM_H

#include <attributes.h>
#include <intrinsics.h>
#include <stdint.h>

/* First free byte of MRAM; the linker script places the symbol behind the program's own MRAM variables. */
extern __mram_ptr uint8_t __sys_used_mram_end[];
#define DPU_MRAM_HEAP_POINTER ((__mram_ptr void *)__sys_used_mram_end)
#define DPU_MRAM_HEAP_POINTER_NAME "__sys_used_mram_end"

#define DPUSIM_DMA_FITS(n) ((n) <= 2048 && (n) % 8 == 0)

void __dpusim_bad_dma_size(void) __attribute__((error("the size of a DMA must be a multiple of 8 from 8 to 2048")));

/* The size is part of the DMA instruction when the compiler knows it, else it comes in a register. Less than 8 bytes, a
 * bug that the DPU's compiler lets pass, always do: the sanitizer then sees the size that was meant. */
__dpusim_inline void mram_read(const __mram_ptr void *from, void *to, unsigned int n) {
#ifdef __OPTIMIZE__
  if (__builtin_constant_p(n) && n >= 8) {
    if (!DPUSIM_DMA_FITS(n)) __dpusim_bad_dma_size();
    __asm__ volatile(".insn s 0x0b, 1, %1, %2(%0)" : : "r"(to), "r"(from), "i"(n / 8 - 1) : "memory");
    return;
  }
#endif
  __asm__ volatile(".insn r4 0x0b, 3, 0, x0, %0, %1, %2" : : "r"(to), "r"(from), "r"(n) : "memory");
}

__dpusim_inline void mram_write(const void *from, __mram_ptr void *to, unsigned int n) {
#ifdef __OPTIMIZE__
  if (__builtin_constant_p(n) && n >= 8) {
    if (!DPUSIM_DMA_FITS(n)) __dpusim_bad_dma_size();
    __asm__ volatile(".insn s 0x0b, 2, %1, %2(%0)" : : "r"(from), "r"(to), "i"(n / 8 - 1) : "memory");
    return;
  }
#endif
  __asm__ volatile(".insn r4 0x0b, 4, 0, x0, %0, %1, %2" : : "r"(from), "r"(to), "r"(n) : "memory");
}

#endif
