/* The tasklet itself: its number, and how it stops. */
#ifndef DPUSIM_DEFS_H
#define DPUSIM_DEFS_H

#include <attributes.h>
#include <intrinsics.h>
#include <stdint.h>

typedef unsigned int sysname_t;

/* Number of the running tasklet, 0 .. NR_TASKLETS - 1. A register on the DPU: no memory clobber, may be merged. */
__dpusim_inline sysname_t me(void) {
  sysname_t id;
  __asm__(".insn i 0x0b, 0, %0, x0, 0" : "=r"(id));
  return id;
}

/* Stop the whole DPU with a fault. */
__dpusim_inline __attribute__((noreturn)) void halt(void) { __dpusim_fault(DPUSIM_FAULT_HALT); }

#define __sys_halt halt

/* Bytes that are free on the tasklet's stack; what the linker script calls so is a number, not a place. */
__dpusim_inline int check_stack(void) {
  extern uint8_t __stacks_start[], __dpu_stack_bytes[];
  uintptr_t top;
  __asm__ volatile("mv %0, sp" : "=r"(top));
  return (int)(top - ((uintptr_t)__stacks_start + me() * (uintptr_t)__dpu_stack_bytes));
}

#endif
