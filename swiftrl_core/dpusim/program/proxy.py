"""The price of each RISC-V instruction on a DPU: rules over the decoded program, applied once at load.

A DPU instruction set differs from RV32I in what one instruction can do. The rules below turn the compiler's RISC-V
output into the number of instructions the DPU's own compiler needs for the same code. They were found by comparing 35
small kernels (71 combinations of kernel and constants at -O2) with the same kernels compiled for a DPU and counted on
the vendor's functional simulator. Mean absolute error in percent, over 22 learning loops and 49 other kernels, with
the rules added one after the other, and with each left out of the full set:

=========================================  ==============  ==============
rule                                       added, so far   left out
=========================================  ==============  ==============
none: an instruction is an instruction     7.1    13.9
R1 immediates                              5.4    12.7     2.8     3.0
R2 register pairs                          5.4    12.1     0.9     3.4
R3 carries                                 5.4    11.0     0.9     3.7
R4 multiplication by a constant            3.8    11.0     6.0     2.6
R6, R7 selects                             1.8    10.7     2.8     3.0
R5 narrow multiplication                   1.8     4.4     0.9     8.9
R8 bit tests                               1.8     3.9     0.9     3.2
R11, R12 tables in global variables        1.5     2.4     2.3     4.1
R10 extensions                             1.5     2.3     0.9     2.6
R9 additions with any shift                0.9     2.6     1.5     2.3
=========================================  ==============  ==============

The rules were chosen in sight of these kernels, so the last line is not a blind test. Not covered: address
arithmetic that the DPU's compiler repeats inside a loop (a row size that is no power of two), and its spills in float
loops (eight registers survive a call there, twelve here). The rules depend on the shape of this compiler's output;
tests hold them to the measurements.
"""

from dataclasses import replace

import numpy as np

from swiftrl_core.dpusim.program.flow import A0, A1, SP, Flow, is_move
from swiftrl_core.dpusim.program.rv32 import (
    BRANCHES,
    IMMEDIATE_ALU,
    LOADS,
    REGISTER_ALU,
    STORES,
    Instruction,
    Op,
    Routine,
)

#: Longest chain of shifts and adds that the DPU's compiler prefers to a call of the multiply routine.
MULTIPLY_CHAIN = 6
#: Instructions of a product whose operands are known to have 8, or 16, bits.
MULTIPLY_8, MULTIPLY_16 = 1, 7

#: The machine charges barriers, routines and the end itself. A DMA of a size that only the program knows has four
#: more instructions to build its word. Semaphores, handshakes and printing are estimates from what they must do.
_MACHINE_COSTS = {
    **dict.fromkeys((Op.BARRIER, Op.ROUTINE, Op.EXIT), 0),
    **dict.fromkeys((Op.DMA_READ_N, Op.DMA_WRITE_N), 5),
    **dict.fromkeys((Op.SEM_TAKE, Op.SEM_GIVE, Op.NOTIFY, Op.WAIT_FOR), 10),
    Op.LOG: 300,
}

_64_BIT_ROUTINES = {Routine[name] for name in ("muldi3", "divdi3", "udivdi3", "moddi3", "umoddi3")} | {
    routine for routine in Routine if "df" in routine.name
}
_ALU = IMMEDIATE_ALU | REGISTER_ALU
_MOVES = {Op.ADD, Op.SH1ADD, Op.SH2ADD, Op.SH3ADD}


class Pricing:
    """The cost of every instruction of a program while the rules are applied.

    Attributes
    ----------
    code : list of Instruction
        The program, with some selects turned round (same result, the DPU's cost).
    cost : int32 array (instructions,)
        DPU instructions, routines called and waiting excluded.
    taken : dict of int to int
        What a branch costs more when it is taken.
    multiplies : set of int
        Calls of the multiply routine whose whole cost is in `cost`.
    """

    def __init__(self, flow: Flow):
        self.flow = flow
        self.code = list(flow.code)
        self.cost = np.ones(len(flow.code), np.int32)
        self.multiplies: set[int] = set()
        self.paired: set[int] = set()
        self.shifting: set[int] = set()
        self.taken: dict[int, int] = {}

    def apply(self) -> None:
        """Apply every rule, in an order in which none undoes another."""
        for i in range(len(self.code)):
            self.machine_instruction(i)
            self.high_immediate(i)
        for start, end in self._functions():
            self.register_pairs(start, end)
        for i in range(len(self.code)):
            self.carry(i)
            self.constant_multiply(i)
            self.narrow_multiply(i)
            self.bit_test(i)
            self.any_shift(i)
            self.extension(i)
            self.global_row(i)
        self.selects()

    def _functions(self) -> list[tuple[int, int]]:
        starts = sorted(self.flow.entries) or [0]
        return list(zip(starts, [*starts[1:], len(self.code)], strict=True))

    def machine_instruction(self, i: int) -> None:
        """Price the DPU's own instructions; a routine's return is part of its cost."""
        after_routine = i > 0 and self.code[i - 1].op is Op.ROUTINE
        self.cost[i] = 0 if after_routine else _MACHINE_COSTS.get(self.code[i].op, 1)

    def high_immediate(self, i: int) -> None:
        """R1: a DPU instruction holds 32 immediate bits, so `lui` before the user of its value is free."""
        if self.code[i].op is not Op.LUI:
            return
        for at in range(i + 1, len(self.code)):
            if self.code[i].rd in self.code[at].reads:
                user = self.code[at]
                base = user.rs1 == self.code[i].rd and user.op in (*LOADS, *STORES, Op.ADDI, Op.JALR)
                self.cost[i] = 0 if base else 1
                return
            if self.flow.leaders[at] or self.flow.writes(at) >> self.code[i].rd & 1:
                return

    def register_pairs(self, start: int, end: int) -> None:
        """R2: `ld` and `sd` move two registers; the DPU's compiler uses them for 64-bit types and to save registers.

        Neighbouring 32-bit variables do not become one access.
        """
        wide = any(
            self._is_carry(i) is not None or self.flow.routine_called(i) in _64_BIT_ROUTINES
            for i in range(start, end)
        )
        for i in range(start, end - 1):
            one, two = self.code[i], self.code[i + 1]
            if one.op is not two.op or one.op not in (Op.LW, Op.SW) or one.rs1 != two.rs1 or i in self.paired:
                continue
            if (
                abs(one.imm - two.imm) != 4
                or self.flow.leaders[i + 1]
                or (one.op is Op.LW and one.rd == two.rs1)
            ):
                continue
            if one.rs1 == SP or (wide and min(one.imm, two.imm) % 8 == 0):
                self.cost[i + 1] = 0
                self.paired.add(i + 1)

    def _is_carry(self, i: int) -> int | None:
        """Return the add or sub that takes in the carry or borrow computed by the `sltu` at `i`, or None."""
        compare = self.code[i]
        if compare.op is not Op.SLTU or not compare.rd:
            return None
        users = list(self.flow.uses(i))
        if len(users) != 1 or self.code[users[0]].op not in (Op.ADD, Op.SUB):
            return None
        user = self.code[users[0]]
        if user.op is Op.ADD:
            at = self.flow.definition(i, compare.rs1)
            low = self.code[at] if at is not None else None
            carries = low is not None and low.op in (Op.ADD, Op.ADDI) and compare.rs2 in (low.rs1, low.rs2)
            return users[0] if carries else None
        return users[0] if user.rs2 == compare.rd and self._subtracts_near(i, compare) else None

    def _subtracts_near(self, i: int, compare: Instruction) -> bool:
        """Tell whether the block of `i` holds the low half of the subtraction whose borrow a comparison finds."""
        operands = (compare.rs1, compare.rs2)
        return any(
            self.code[at].op is Op.SUB and (self.code[at].rs1, self.code[at].rs2) == operands
            for at in self.flow.block(i)
        )

    def carry(self, i: int) -> None:
        """R3: 64-bit additions are `add, addc`: the comparison that finds the carry and the addition of it are free."""
        user = self._is_carry(i)
        if user is not None:
            self.cost[i] = self.cost[user] = 0

    def constant_multiply(self, i: int) -> None:
        """R4: a product with a constant of few signed binary digits is a chain of shift-and-add, one a digit."""
        if self.flow.routine_called(i) is not Routine.mulsi3:
            return
        known = self.flow.constants[i]
        chains = [signed_digits(known[register]) for register in (A0, A1) if register in known]
        if chains and min(chains) <= MULTIPLY_CHAIN:
            self._inline_multiply(i, min(chains))

    def narrow_multiply(self, i: int) -> None:
        """R5: the hardware multiplies 8 by 8 bits; a product of operands seen to be that narrow is inline."""
        if self.flow.routine_called(i) is not Routine.mulsi3 or i in self.multiplies:
            return
        width = max(self._width(i, A0), self._width(i, A1))
        if width <= 16:
            self._inline_multiply(i, MULTIPLY_8 if width <= 8 else MULTIPLY_16)

    def _width(self, i: int, register: int) -> int:
        """Return how many bits an operand visibly has in its block: 8, 16 or 32."""
        at = self.flow.origin(i, register)
        if at is None:
            return 32
        value = self.code[at]
        if value.op in (Op.LBU, Op.LB):
            return 8
        if value.op in (Op.LHU, Op.LH):
            return 16
        bits = 32
        if value.op is Op.ANDI and value.imm > 0:
            bits = value.imm.bit_length()
        elif value.op in (Op.SRLI, Op.SRAI):
            bits = 32 - value.imm
        return 8 if bits <= 8 else 16 if bits <= 16 else 32

    def _inline_multiply(self, i: int, instructions: int) -> None:
        """Charge a product without a call: nothing for the call, nothing to bring arguments into place."""
        self.multiplies.add(i)
        self.cost[i], self.cost[i + 1] = 0, instructions
        for register in (A0, A1):
            at = self.flow.definition(i, register)
            while (
                at is not None
                and self._only_for(at, i + 1)
                and (is_move(self.code[at]) or self._is_constant(at))
            ):
                self.cost[at] = 0
                at = None if is_move(self.code[at]) else self.flow.definition(at, self.code[at].rs1)

        self._free_result_move(i + 1)

    def _free_result_move(self, call: int) -> None:
        """Free the one move that takes an inline product away from a0: it is made where it is wanted."""
        for at in range(call + 1, len(self.code)):
            if self.flow.leaders[at] or self.flow.writes(at) >> A0 & 1:
                return
            if self.flow.reads(at) >> A0 & 1:
                if is_move(self.code[at]) and self.flow.dead_after(at, A0):
                    self.cost[at] = 0
                return

    def _is_constant(self, i: int) -> bool:
        return self.code[i].op is Op.LUI or (
            self.code[i].op is Op.ADDI and self.code[i].rs1 in self.flow.constants[i]
        )

    def _only_for(self, i: int, user: int) -> bool:
        return all(at in (user, i + 1) for at in self.flow.uses(i))

    def bit_test(self, i: int) -> None:
        """R8: a DPU instruction may jump on its own result, so testing a bit to skip one instruction costs one."""
        branch = self.code[i]
        if not self._skips_one(i) or branch.op not in (Op.BEQ, Op.BNE) or branch.rs2 != 0:
            return
        at = self.flow.definition(i, branch.rs1)
        if at is None or self.code[at].op not in (*IMMEDIATE_ALU, *REGISTER_ALU):
            return
        if list(self.flow.uses(at)) == [i]:
            self.cost[at] = 0

    def _skips_one(self, i: int) -> bool:
        return self.code[i].op in BRANCHES and self.flow.index(self.code[i].imm) == i + 2

    def any_shift(self, i: int) -> None:
        """R9: `lsl_add`, `lsr_add` and `lsl_sub` shift by any amount; RISC-V's shift-and-add by 1 to 3 only."""
        shift = self.code[i]
        if shift.op not in (Op.SLLI, Op.SRLI) or not self.cost[i]:
            return
        users = list(self.flow.uses(i))
        if len(users) != 1 or users[0] < i or self.flow.block_start(users[0]) != self.flow.block_start(i):
            return
        user = self.code[users[0]]
        adds = user.op is Op.ADD and user.rs1 != user.rs2
        subtracts = (
            user.op is Op.SUB and user.rs2 == shift.rd and user.rs1 != shift.rd and shift.op is Op.SLLI
        )
        if (adds or subtracts) and self.cost[users[0]] and users[0] not in self.shifting:
            self.cost[i] = 0
            self.shifting.add(users[0])  # an instruction takes in one shift

    def extension(self, i: int) -> None:
        """R10: extending a byte or halfword is one instruction, here two shifts."""
        one, two = self.code[i], self.code[i + 1] if i + 1 < len(self.code) else None
        if one.op is not Op.SLLI or one.imm not in (16, 24) or two is None:
            return
        for at in self.flow.uses(i):
            two = self.code[at]
            if two.op in (Op.SRLI, Op.SRAI) and two.imm == one.imm and list(self.flow.uses(i)) == [at]:
                self.cost[i] = 0

    def global_row(self, i: int) -> None:
        """R11, R12: addresses of globals are immediates that the DPU's compiler does not keep in registers.

        A row that serves several offsets costs one more instruction, to bring the address in. A single access takes
        the address as its own offset, so the addition is free, unless the index is a loop counter, which the compiler
        would have turned into a pointer.
        """
        add = self.code[i]
        if add.op not in _MOVES or not add.rd or not self.cost[i]:
            return
        known = self.flow.constants[i]
        bases = [register for register in (add.rs1, add.rs2) if register and register in known]
        if len(bases) != 1 or not self.is_global(known[bases[0]]):
            return
        users = list(self.flow.uses(i))
        accesses = [
            at for at in users if self.code[at].op in (*LOADS, *STORES) and self.code[at].rs1 == add.rd
        ]
        if len(accesses) != len(users) or not accesses:
            return
        accesses = [at for at in accesses if at not in self.paired]
        offsets = {self.code[at].imm for at in accesses}
        index = add.rs1 if add.rs2 == bases[0] else add.rs2
        if len(offsets) > 1 or (len(accesses) > 1 and add.op is not Op.ADD):
            self.cost[i] += 1
        elif add.op is Op.ADD and not self._is_counter(i, index):
            self.cost[i] = 0

    def is_global(self, value: int) -> bool:
        """Whether a constant may be the address of a variable."""
        return 0 < value < 0x10000

    def _is_counter(self, i: int, register: int) -> bool:
        """Whether a register is stepped by a constant somewhere in the loop around `i`."""
        at = self.flow.definition(i, register)
        if at is not None:
            step = self.code[at]
            return step.op is Op.ADDI and step.rd == step.rs1
        return True

    def selects(self) -> None:
        """R6, R7: `x = a > b ? c : d` is a subtraction with a condition, an `or` with it, and a move.

        So a branch on two registers over exactly one instruction costs one more than here. Two selects on one
        comparison become one branch: the second costs nothing, and neither is charged more.
        """
        chained = set()
        for i in range(len(self.code) - 1):
            if not self._skips_one(i) or i + 2 >= len(self.code) - 1:
                continue
            if self._is_select(i + 2) and self._same_test(i, i + 2):
                chained |= {i, i + 2}
                self.cost[i + 2] = 0
        for i in range(len(self.code) - 1):
            if self._is_select(i) and i not in chained:
                self._charge_select(i)

    def _charge_select(self, i: int) -> None:
        """Charge a select two instructions, and the move.

        Of a maximum or minimum the compiler makes `m > p ? m : p` (or `<`), with `m` what was found so far and `p` the
        new value, and the DPU moves where the strict condition holds, so not on a tie. Where the code here moves
        on a tie, or moves `p` and not `m`, the branch is turned round: both ways leave the same value.
        """
        branch, move = self.code[i], self.code[i + 1]
        new = self._newer(i) if is_move(move) and {branch.rs1, branch.rs2} == {move.rd, move.rs1} else None
        if new == move.rd:
            self.code[i] = _other_on_tie(branch, skip=True)
        elif new == move.rs1:
            self.code[i] = _other_on_tie(branch, skip=False)
            self.taken[i] = 2
            return
        self.cost[i] += 1

    def _newer(self, i: int) -> int | None:
        """Return which register compared at `i` holds the newer value: not what an earlier select chose."""
        one, two = (self._writer(i, register) for register in (self.code[i].rs1, self.code[i].rs2))
        if one is None or two is None:
            return None
        chosen = [at > 0 and self._is_select(at - 1) for at in (one, two)]
        if chosen[0] != chosen[1]:
            return self.code[i].rs2 if chosen[0] else self.code[i].rs1
        return self.code[i].rs1 if one > two else self.code[i].rs2

    def _writer(self, i: int, register: int) -> int | None:
        """Return the nearest instruction of the function, in the order of the code, that writes a register."""
        for at in range(i - 1, -1, -1):
            if self.flow.writes(at) >> register & 1:
                return at
            if at in self.flow.entries:
                return None
        return None

    def _is_select(self, i: int) -> bool:
        branch, move = self.code[i], self.code[i + 1]
        return self._skips_one(i) and branch.rs1 != 0 and branch.rs2 != 0 and move.op in _ALU

    def _same_test(self, i: int, j: int) -> bool:
        one, two = self.code[i], self.code[j]
        unchanged = self.code[i + 1].rd not in (two.rs1, two.rs2)
        return {one.rs1, one.rs2} == {two.rs1, two.rs2} and unchanged


_STRICT = {Op.BLT: Op.BGE, Op.BLTU: Op.BGEU}
_WEAK = {weak: strict for strict, weak in _STRICT.items()}


def _other_on_tie(branch: Instruction, skip: bool) -> Instruction:
    """Return the branch on the same order that is taken on a tie (`skip`), or not."""
    turned = (_STRICT if skip else _WEAK).get(branch.op)
    return branch if turned is None else replace(branch, op=turned, rs1=branch.rs2, rs2=branch.rs1)


def signed_digits(value: int) -> int:
    """Return how many non-zero digits a 32-bit number has when digits may be -1, 0 and 1 (the fewest possible)."""
    value = value - (1 << 32) if value >> 31 else value
    value = abs(value)
    return ((value * 3) ^ value).bit_count()


def price(code: list[Instruction], base: int, entries: set[int]) -> Pricing:
    """Apply the rules to a program.

    Parameters
    ----------
    code : list of Instruction
    base : int
        Address of the first instruction.
    entries : set of int
        Addresses of functions and jump-table targets.
    """
    pricing = Pricing(Flow(code, base, entries))
    pricing.apply()
    return pricing
