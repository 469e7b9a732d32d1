/* Names of the decoded instructions and of the runtime routines, in the order of their numbers.
 *
 * The one list of each: machine.c makes enumerations of them, rv32.py reads this file. */
#ifndef DPUSIM_OPCODES_H
#define DPUSIM_OPCODES_H

/* clang-format off */

/* RV32I and Zba (`auipc` is decoded as `lui` of the sum), then the DPU's own instructions of include/intrinsics.h,
 * then calls: the pair `auipc, jalr` to a function, to a routine, to the multiply routine at a cost known before; and
 * `addi sp, sp, -n`, which makes a stack frame. */
#define DPU_OPS(OP) \
  OP(LUI) OP(JAL) OP(JALR) OP(BEQ) OP(BNE) OP(BLT) OP(BGE) OP(BLTU) OP(BGEU) OP(LB) OP(LH) OP(LW) OP(LBU) \
  OP(LHU) OP(SB) OP(SH) OP(SW) OP(ADDI) OP(SLTI) OP(SLTIU) OP(XORI) OP(ORI) OP(ANDI) OP(SLLI) OP(SRLI)    \
  OP(SRAI) OP(ADD) OP(SUB) OP(SLL) OP(SLT) OP(SLTU) OP(XOR) OP(SRL) OP(SRA) OP(OR) OP(AND) OP(SH1ADD)     \
  OP(SH2ADD) OP(SH3ADD) OP(NOP) OP(ROUTINE) OP(ME) OP(FAULT) OP(PERF_CONFIG) OP(PERF_GET) OP(SEM_TAKE)    \
  OP(SEM_GIVE) OP(NOTIFY) OP(WAIT_FOR) OP(LOG) OP(EXIT) OP(DMA_READ) OP(DMA_WRITE) OP(DMA_READ_N)         \
  OP(DMA_WRITE_N) OP(LOCK) OP(TRYLOCK) OP(UNLOCK) OP(BARRIER) OP(ILLEGAL) OP(CALL) OP(CALL_ROUTINE)       \
  OP(MULTIPLY) OP(PUSH)

/* Sequences that are executed as one; lower.py finds them, fused.h executes them. */
#define DPU_FUSED_OPS(FUSED) \
  FUSED(CALL_MUL) FUSED(CALL_DIV) FUSED(CALL_UDIV) FUSED(CALL_UMOD) FUSED(CALL_ADDF) FUSED(CALL_SUBF) \
  FUSED(CALL_MULF) FUSED(CALL_LESSF) FUSED(CALL_GREATERF) FUSED(SELECT_EQ) FUSED(SELECT_NE)           \
  FUSED(SELECT_LT) FUSED(SELECT_GE) FUSED(SELECT_LTU) FUSED(SELECT_GEU)

/* Where compiled code takes over (translate.py), in the run tasklet by tasklet. */
#define DPU_COMPILED_OPS(OP) \
  OP(TRANSLATED)

/* The routines of runtime.S, by the compiler's names without the two underscores. */
#define DPU_ARITHMETIC(ROUTINE) \
  ROUTINE(mulsi3) ROUTINE(divsi3) ROUTINE(udivsi3) ROUTINE(modsi3) ROUTINE(umodsi3) ROUTINE(muldi3)    \
  ROUTINE(divdi3) ROUTINE(udivdi3) ROUTINE(moddi3) ROUTINE(umoddi3) ROUTINE(ashldi3) ROUTINE(lshrdi3)  \
  ROUTINE(ashrdi3) ROUTINE(addsf3) ROUTINE(subsf3) ROUTINE(mulsf3) ROUTINE(divsf3) ROUTINE(adddf3)     \
  ROUTINE(subdf3) ROUTINE(muldf3) ROUTINE(divdf3) ROUTINE(eqsf2) ROUTINE(nesf2) ROUTINE(ltsf2)         \
  ROUTINE(lesf2) ROUTINE(gtsf2) ROUTINE(gesf2) ROUTINE(unordsf2) ROUTINE(eqdf2) ROUTINE(nedf2)         \
  ROUTINE(ltdf2) ROUTINE(ledf2) ROUTINE(gtdf2) ROUTINE(gedf2) ROUTINE(unorddf2) ROUTINE(floatsisf)     \
  ROUTINE(floatunsisf) ROUTINE(floatdisf) ROUTINE(floatundisf) ROUTINE(floatsidf) ROUTINE(floatunsidf) \
  ROUTINE(floatdidf) ROUTINE(floatundidf) ROUTINE(fixsfsi) ROUTINE(fixunssfsi) ROUTINE(fixsfdi)        \
  ROUTINE(fixunssfdi) ROUTINE(fixdfsi) ROUTINE(fixunsdfsi) ROUTINE(fixdfdi) ROUTINE(fixunsdfdi)        \
  ROUTINE(extendsfdf2) ROUTINE(truncdfsf2)
#define DPU_BLOCK_ROUTINES(ROUTINE) ROUTINE(memcpy) ROUTINE(memmove) ROUTINE(memset)
#define DPU_ROUTINES(ROUTINE) DPU_ARITHMETIC(ROUTINE) DPU_BLOCK_ROUTINES(ROUTINE)

/* clang-format on */

#endif
