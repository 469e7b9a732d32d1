/* Start of every tasklet, and the entry points of the runtime routines.
 *
 * The compiler calls these names for arithmetic that the instruction set lacks. Each is one instruction of opcode
 * custom-1 (0x2b) with the routine's number; costs.h says what it computes and what it costs on a DPU. Calls are
 * recognised at load, so the code below runs only when a routine is reached by a jump or through a pointer. */

/* Sizes for the linker script, given to the compiler as macros. Absolute symbols: the host cannot see them. */
.globl __dpu_nr_tasklets, __dpu_stack_bytes, __dpu_iram_bytes, __dpu_wram_bytes
__dpu_nr_tasklets = NR_TASKLETS
__dpu_stack_bytes = DPUSIM_STACK_BYTES
__dpu_iram_bytes = DPUSIM_IRAM_BYTES
__dpu_wram_bytes = DPUSIM_WRAM_BYTES

/* The simulator sets sp. main's result is dropped: exit ends the tasklet. */
.section .text.start, "ax", @progbits
.globl _start
.type _start, @function
_start:
  call main
  .insn i 0x0b, 0, x0, x0, 9
.size _start, . - _start

.macro routine name number
.section .text.\name, "ax", @progbits
.globl \name
.type \name, @function
\name:
  .insn i 0x2b, 0, x0, x0, \number
  ret
.size \name, . - \name
.endm

routine __mulsi3 0
routine __divsi3 1
routine __udivsi3 2
routine __modsi3 3
routine __umodsi3 4
routine __muldi3 5
routine __divdi3 6
routine __udivdi3 7
routine __moddi3 8
routine __umoddi3 9
routine __ashldi3 10
routine __lshrdi3 11
routine __ashrdi3 12
routine __addsf3 13
routine __subsf3 14
routine __mulsf3 15
routine __divsf3 16
routine __adddf3 17
routine __subdf3 18
routine __muldf3 19
routine __divdf3 20
routine __eqsf2 21
routine __nesf2 22
routine __ltsf2 23
routine __lesf2 24
routine __gtsf2 25
routine __gesf2 26
routine __unordsf2 27
routine __eqdf2 28
routine __nedf2 29
routine __ltdf2 30
routine __ledf2 31
routine __gtdf2 32
routine __gedf2 33
routine __unorddf2 34
routine __floatsisf 35
routine __floatunsisf 36
routine __floatdisf 37
routine __floatundisf 38
routine __floatsidf 39
routine __floatunsidf 40
routine __floatdidf 41
routine __floatundidf 42
routine __fixsfsi 43
routine __fixunssfsi 44
routine __fixsfdi 45
routine __fixunssfdi 46
routine __fixdfsi 47
routine __fixunsdfsi 48
routine __fixdfdi 49
routine __fixunsdfdi 50
routine __extendsfdf2 51
routine __truncdfsf2 52
routine memcpy 53
routine memmove 54
routine memset 55
