/* A program turned into C, for the fast run: what interpreter.h does with one op after the other, compiled as a whole.
 *
 * translate.py writes a file of the macros below, an op each, in the order of IRAM; semantics.h defines them. The
 * registers are local variables here, which is most of the gain. Only simple instructions are translated: before
 * anything that others notice, that faults or that leaves WRAM, the code hands over to the interpreter (LEAVE), which
 * comes back at the next entry. Counting is as there: `count` plus what stands before the op. */
#ifndef DPUSIM_TRANSLATED_H
#define DPUSIM_TRANSLATED_H

#include "machine.h"
#include "semantics.h"

#define R(n) ((n) ? x[n] : 0u)
#define LEAVE(i) \
  do {           \
    at = (i);    \
    goto leave;  \
  } while (0)
#define LEAVE_IF(condition, i)                      \
  do {                                              \
    if (__builtin_expect((condition), 0)) LEAVE(i); \
  } while (0)
#define GO(to) goto at_##to

/* ---- each simple instruction as a function of words ---- */

#define RS1 a
#define RS2 b
#define IMM imm
#define VALUE_FUNCTION(name, value)                                           \
  static inline uint32_t value_##name(uint32_t a, uint32_t b, uint32_t imm) { \
    return (void)a, (void)b, (void)imm, (value);                              \
  }
#define TAKEN_FUNCTION(suffix, condition) \
  static inline bool taken_##suffix(uint32_t a, uint32_t b) { return (condition); }
#define CALL_FUNCTIONS(name, result, cost, stalls)                                  \
  static inline uint32_t result_##name(uint32_t a, uint32_t b) { return (result); } \
  static inline uint32_t cost_##name(uint32_t a, uint32_t b) { return (cost); }     \
  static inline uint32_t stalls_##name(uint32_t a, uint32_t b) { return (void)a, (void)b, (stalls); }
#define ACCESS(name, type, log2) \
  typedef type type_##name;      \
  enum { log2_##name = (log2) };

DPU_COMPUTE(VALUE_FUNCTION)
DPU_BRANCHES(TAKEN_FUNCTION)
DPU_CALLS(CALL_FUNCTIONS)
DPU_DIVISIONS(CALL_FUNCTIONS)
DPU_LOADS(ACCESS)
DPU_STORES(ACCESS)

/* ---- what a translated file is made of; `i` is the op's own index ---- */

#define COMPUTE(name, rd, rs1, rs2, imm) x[rd] = value_##name(R(rs1), R(rs2), (uint32_t)(imm));

#define LOAD(name, rd, rs1, imm, i)               \
  {                                               \
    uint32_t address = R(rs1) + (uint32_t)(imm);  \
    type_##name value;                            \
    LEAVE_IF(!IN_WRAM(address, log2_##name), i);  \
    memcpy(&value, wram + address, sizeof value); \
    x[rd] = (uint32_t)(int32_t)value;             \
  }
#define STORE(name, rs1, rs2, imm, i)             \
  {                                               \
    uint32_t address = R(rs1) + (uint32_t)(imm);  \
    type_##name value = (type_##name)R(rs2);      \
    LEAVE_IF(!IN_WRAM(address, log2_##name), i);  \
    memcpy(wram + address, &value, sizeof value); \
  }

/* Every loop jumps backward, so that is where the limit is looked at. */
#define JUMP(rd, link, cost, to) \
  {                              \
    x[rd] = (uint32_t)(link);    \
    count += (cost);             \
    goto at_##to;                \
  }
#define JUMP_BACK(rd, link, cost, to)            \
  {                                              \
    x[rd] = (uint32_t)(link);                    \
    count += (cost);                             \
    LEAVE_IF(count > limit, to | LIMIT_REACHED); \
    goto at_##to;                                \
  }
#define BRANCH(suffix, rs1, rs2, cost, to) \
  if (taken_##suffix(R(rs1), R(rs2))) {    \
    count += (cost);                       \
    goto at_##to;                          \
  }
#define BRANCH_BACK(suffix, rs1, rs2, cost, to)  \
  if (taken_##suffix(R(rs1), R(rs2))) {          \
    count += (cost);                             \
    LEAVE_IF(count > limit, to | LIMIT_REACHED); \
    goto at_##to;                                \
  }
#define SELECT(suffix, rd, rs1, rs2, rs3, imm, cost) \
  {                                                  \
    bool skip = taken_##suffix(R(rs1), R(rs2));      \
    x[rd] = skip ? x[rd] : R(rs3) + (uint32_t)(imm); \
    count += skip ? (cost) : 0;                      \
  }

/* To where a call has left its address, if that is known; `before` is what stands before the next op. */
#define RETURN(rs1, imm, before, i)    \
  {                                    \
    target = R(rs1) + (uint32_t)(imm); \
    at = (i), behind = (before);       \
    goto jump;                         \
  }
#define RETURN_TO(to, before)                    \
  case IRAM_BASE + 4 * to:                       \
    count += behind - (before);                  \
    LEAVE_IF(count > limit, to | LIMIT_REACHED); \
    goto at_##to;

/* The compiler must not know the operands: the NaN it makes is not always the processor's. */
#define CALL(name, rs1, rs2)                             \
  {                                                      \
    uint32_t a = R(rs1), b = R(rs2);                     \
    __asm__("" : "+r"(a), "+r"(b));                      \
    uint32_t slots = stalls_##name(a, b);                \
    count += cost_##name(a, b) + slots, stalls += slots; \
    x[A0] = result_##name(a, b);                         \
  }
#define DIVIDE(name, rs1, rs2, i) \
  {                               \
    LEAVE_IF(R(rs2) == 0, i);     \
    CALL(name, rs1, rs2)          \
  }
#define MULTIPLY() x[A0] *= x[A1];
#define ROUTINE(number, i)                                  \
  {                                                         \
    memcpy(t->x + A0, x + A0, 4 * sizeof x[0]);             \
    int64_t slots = program->routine(machine, t, (number)); \
    LEAVE_IF(slots < 0, i);                                 \
    count += slots;                                         \
    memcpy(x + A0, t->x + A0, 2 * sizeof x[0]);             \
  }
#define ME(rd) x[rd] = tasklet;
#define PUSH(imm, i)                            \
  {                                             \
    uint32_t frame = x[2] + (uint32_t)(imm);    \
    LEAVE_IF((int32_t)(frame - lowest) < 0, i); \
    x[2] = frame;                               \
  }

/* ---- around it ---- */

#define ENTRY(i) \
  case i:        \
    goto at_##i;

/* Executes from entry `at`; returns the op before which the interpreter has to go on. */
#define TRANSLATED_ENTRIES                                                                                       \
  __attribute__((visibility("default"))) uint32_t dpu_translated(struct machine *machine, struct tasklet *t,     \
                                                                 uint32_t at, int64_t *counted, int64_t limit) { \
    const struct program *program = machine->program;                                                            \
    uint8_t *restrict wram = machine->wram;                                                                      \
    const uint32_t wram_bytes = program->wram_bytes, tasklet = (uint32_t)(t - machine->tasklets);                \
    const uint32_t lowest = program->stacks_start + tasklet * program->stack_bytes;                              \
    int64_t count = *counted, stalls = 0, behind = 0;                                                            \
    uint32_t target = 0, x[33];                                                                                  \
    memcpy(x, t->x, sizeof x);                                                                                   \
    (void)lowest, (void)behind, (void)target, (void)wram, (void)wram_bytes;                                      \
    switch (at) {
#define TRANSLATED_CODE \
  }                     \
  goto leave;
#define TRANSLATED_RETURNS \
  jump:                    \
  switch (target) {
#define TRANSLATED_END       \
  }                          \
  leave:                     \
  memcpy(t->x, x, sizeof x); \
  t->stalls += stalls;       \
  *counted = count;          \
  return at;                 \
  }

#endif
