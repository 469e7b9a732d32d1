/* What a DPU does in one instruction and RISC-V has no instruction for: one custom instruction each.
 *
 * Opcode custom-0 (0x0b); the field funct3 selects the group, the immediate the function within it.
 * `swiftrl_core/dpusim/rv32.py` decodes them, `machine.c` executes them. Kernels use the headers above this one. */
#ifndef DPUSIM_INTRINSICS_H
#define DPUSIM_INTRINSICS_H

#include <stdint.h>

/* Group 0: functions of the system, numbered by the immediate. */
#define DPUSIM_ME 0
#define DPUSIM_FAULT 1
#define DPUSIM_PERF_CONFIG 2
#define DPUSIM_PERF_GET 3
#define DPUSIM_SEM_TAKE 4
#define DPUSIM_SEM_GIVE 5
#define DPUSIM_NOTIFY 6
#define DPUSIM_WAIT_FOR 7
#define DPUSIM_LOG 8
#define DPUSIM_EXIT 9

#define __dpusim_system(result, number, argument) \
  __asm__ volatile(".insn i 0x0b, 0, %0, %1, %2" : "=r"(result) : "r"(argument), "i"(number) : "memory")

#define __dpusim_inline static inline __attribute__((always_inline, unused))

/* Fault codes of the DPU runtime; the text of an assertion goes through DPUSIM_LOG. */
#define DPUSIM_FAULT_HEAP_FULL 1
#define DPUSIM_FAULT_ASSERT 3
#define DPUSIM_FAULT_HALT 4

__dpusim_inline __attribute__((noreturn)) void __dpusim_fault(uint32_t code) {
  uint32_t ignored;
  __dpusim_system(ignored, DPUSIM_FAULT, code);
  __builtin_unreachable();
}

#endif
