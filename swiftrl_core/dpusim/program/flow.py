"""Data-flow analysis of a decoded program: control flow, live registers, constant registers.

Sets of registers are integers with one bit a register. Calls follow the RISC-V convention: arguments in a0 to a7,
s0 to s11 and sp survive, everything else is lost.
"""

from collections.abc import Iterator
from functools import cached_property

from swiftrl_core.dpusim.program.rv32 import BRANCHES, Instruction, Op, Routine

RA, SP, A0, A1 = 1, 2, 10, 11
_ARGUMENTS = sum(1 << r for r in range(10, 18))
_LOST_IN_CALL = sum(1 << r for r in (RA, *range(5, 8), *range(10, 18), *range(28, 32)))
_LIVE_AT_RETURN = sum(1 << r for r in (SP, 8, 9, 10, 11, *range(18, 28)))
#: Argument registers of the routines that do not take two words.
_ONE_WORD = (
    "floatsisf",
    "floatunsisf",
    "floatsidf",
    "floatunsidf",
    "fixsfsi",
    "fixunssfsi",
    "fixsfdi",
    "fixunssfdi",
)
_FOUR_WORDS = ("muldi3", "divdi3", "udivdi3", "moddi3", "umoddi3", "adddf3", "subdf3", "muldf3", "divdf3")
_FOUR_WORDS += ("eqdf2", "nedf2", "ltdf2", "ledf2", "gtdf2", "gedf2", "unorddf2")
_THREE_WORDS = ("ashldi3", "lshrdi3", "ashrdi3", "memcpy", "memmove", "memset")


class Flow:
    """A program's control flow and what follows from it.

    Parameters
    ----------
    code : list of Instruction
    base : int
        Address of the first instruction.
    entries : set of int
        Addresses to which control may come from outside the graph: functions, targets in jump tables.
    """

    def __init__(self, code: list[Instruction], base: int, entries: set[int]):
        self.code = code
        self.base = base
        self.entries = {i for i in map(self.index, entries) if 0 <= i < len(code)}
        self.successors = [self._successors(i) for i in range(len(code))]
        self.leaders = self._leaders()

    def index(self, address: int) -> int:
        """Return the index of the instruction at an address (out of range if there is none)."""
        return (address - self.base) // 4

    # ---- calls ----

    def callee(self, i: int) -> int | None:
        """Return the index that the pair `auipc r; jalr _, r` at `i` jumps to, or None if there is no such pair."""
        high, jump = self.code[i], self.code[i + 1] if i + 1 < len(self.code) else None
        if (
            high.op is not Op.LUI
            or jump is None
            or jump.op is not Op.JALR
            or jump.rs1 != high.rd
            or not high.rd
        ):
            return None
        return self.index((high.imm + jump.imm) & 0xFFFFFFFF)

    def routine_called(self, i: int) -> Routine | None:
        """Return the runtime routine that the pair at `i` calls, or None."""
        target = self.callee(i)
        if target is None or not 0 <= target < len(self.code) or self.code[target].op is not Op.ROUTINE:
            return None
        return Routine(self.code[target].imm) if self.code[i + 1].rd == RA else None

    def is_call(self, i: int) -> bool:
        """Whether instruction `i` calls a function (of a pair, the second)."""
        return self.code[i].op in (Op.JAL, Op.JALR) and self.code[i].rd == RA

    # ---- control flow ----

    def _successors(self, i: int) -> tuple[int, ...]:
        instruction = self.code[i]
        following = (i + 1,) if i + 1 < len(self.code) else ()
        if instruction.op in BRANCHES:
            return (*following, self.index(instruction.imm))
        if instruction.op is Op.JAL and instruction.rd == 0:
            return (self.index(instruction.imm),)
        if instruction.op is Op.JALR and instruction.rd == 0:
            return self._indirect(i)
        if instruction.op in (Op.EXIT, Op.FAULT, Op.ILLEGAL):
            return ()
        return following

    def _indirect(self, i: int) -> tuple[int, ...]:
        """Successors of a jump through a register: none of a return or tail call, else every jump-table target."""
        if self.code[i].rs1 == RA or (i and self.callee(i - 1) is not None):
            return ()
        return tuple(sorted(self.entries))

    def _leaders(self) -> list[bool]:
        leaders = [i in self.entries for i in range(len(self.code) + 1)]
        for i, successors in enumerate(self.successors):
            if successors != (i + 1,):
                leaders[i + 1] = True
                for target in successors:
                    leaders[target] = True
        return leaders

    # ---- liveness ----

    def reads(self, i: int) -> int:
        """Return the set of registers that instruction `i` reads, those of the routine or function called included."""
        mask = 0
        for register in self.code[i].reads:
            mask |= 1 << register
        if self.is_call(i):
            mask |= self._argument_set(i)
        elif self.code[i].op is Op.JALR and self.code[i].rd == 0:
            mask |= _LIVE_AT_RETURN if self.code[i].rs1 == RA else _ARGUMENTS | _LIVE_AT_RETURN
        return mask & ~1

    def _argument_set(self, i: int) -> int:
        routine = self.routine_called(i - 1) if i else None
        if routine is None:
            return _ARGUMENTS
        name = routine.name
        words = 1 if name in _ONE_WORD else 4 if name in _FOUR_WORDS else 3 if name in _THREE_WORDS else 2
        return sum(1 << r for r in range(A0, A0 + words))

    def writes(self, i: int) -> int:
        """Return the set of registers whose value does not survive instruction `i`."""
        if self.is_call(i):
            return _LOST_IN_CALL
        return 1 << self.code[i].writes & ~1

    @cached_property
    def live_after(self) -> list[int]:
        """For each instruction the set of registers that somebody may still read."""
        reads = [self.reads(i) for i in range(len(self.code))]
        writes = [self.writes(i) for i in range(len(self.code))]
        before, after = [0] * len(self.code), [0] * len(self.code)
        changed = True
        while changed:
            changed = False
            for i in reversed(range(len(self.code))):
                live = 0
                for target in self.successors[i]:
                    live |= before[target]
                after[i] = live
                live = live & ~writes[i] | reads[i]
                if live != before[i]:
                    before[i], changed = live, True
        return after

    def dead_after(self, i: int, register: int) -> bool:
        """Whether a register's value is never read after instruction `i`."""
        return not self.live_after[i] >> register & 1

    # ---- definitions and uses ----

    def block_start(self, i: int) -> int:
        """Return the index of the first instruction of the block that holds `i`."""
        while not self.leaders[i] and i > 0:
            i -= 1
        return i

    def block(self, i: int) -> range:
        """Return the indices of the block that holds instruction `i`."""
        end = i + 1
        while end < len(self.code) and not self.leaders[end]:
            end += 1
        return range(self.block_start(i), end)

    def definition(self, i: int, register: int) -> int | None:
        """Return the instruction in the block of `i` that gave a register the value it has before `i`, or None."""
        start = self.block_start(i)
        for at in range(i - 1, start - 1, -1):
            if self.writes(at) >> register & 1:
                return None if self.is_call(at) and register != A0 else at
        return None

    def origin(self, i: int, register: int) -> int | None:
        """Like `definition`, seen through register moves."""
        at = self.definition(i, register)
        while at is not None and is_move(self.code[at]):
            at = self.definition(at, self.code[at].rs1)
        return at

    def uses(self, i: int) -> Iterator[int]:
        """Yield the instructions that may read the value instruction `i` writes."""
        register, seen, todo = self.code[i].writes, set(), list(self.successors[i])
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if self.reads(at) >> register & 1:
                yield at
            if not self.writes(at) >> register & 1:
                todo.extend(self.successors[at])

    # ---- constants ----

    @cached_property
    def constants(self) -> list[dict[int, int]]:
        """For each instruction the registers whose value before it is a known constant.

        Keys below 32 are registers, other keys are `spill_slot` of a place on the stack.
        """
        before: list[dict[int, int] | None] = [None] * len(self.code)
        todo = sorted(self.entries) or [0]
        for i in todo:
            before[i] = {0: 0}
        while todo:
            i = todo.pop()
            after = self._constants_after(i, before[i])
            for target in self.successors[i]:
                merged = _meet(before[target], after)
                if target in self.entries:
                    merged = {0: 0}
                if merged != before[target]:
                    before[target] = merged
                    todo.append(target)
        return [known if known is not None else {0: 0} for known in before]

    def _constants_after(self, i: int, known: dict[int, int]) -> dict[int, int]:
        instruction = self.code[i]
        after = dict(known)
        if self.is_call(i):
            for register in range(32):
                if _LOST_IN_CALL >> register & 1:
                    after.pop(register, None)
            return after
        if instruction.op is Op.SW and instruction.rs1 == SP:
            after.pop(spill_slot(instruction.imm), None)
            if instruction.rs2 in known:
                after[spill_slot(instruction.imm)] = known[instruction.rs2]
        if instruction.writes:
            value = _constant_result(instruction, known)
            after.pop(instruction.writes, None)
            if value is not None:
                after[instruction.writes] = value
            if instruction.writes == SP:
                after = {key: value for key, value in after.items() if key < 32}
        return after


def spill_slot(offset: int) -> int:
    """Return the key under which constants are known at an offset from sp."""
    return 1000000 + offset


def is_move(instruction: Instruction) -> bool:
    """Whether an instruction copies one register to another."""
    return instruction.op is Op.ADDI and instruction.imm == 0 and instruction.rs1 != 0


def _meet(old: dict[int, int] | None, new: dict[int, int]) -> dict[int, int]:
    """Keep what both paths agree on; a path not yet seen agrees with everything."""
    if old is None:
        return new
    return {key: value for key, value in old.items() if new.get(key) == value}


def _constant_result(instruction: Instruction, known: dict[int, int]) -> int | None:
    """Return the value an instruction writes if it is constant: loads of constants, and moves of them."""
    if instruction.op is Op.LUI:
        return instruction.imm & 0xFFFFFFFF
    if instruction.op is Op.LW and instruction.rs1 == SP:
        return known.get(spill_slot(instruction.imm))
    if instruction.rs1 not in known:
        return None
    value = known[instruction.rs1]
    if instruction.op is Op.ADDI:
        return (value + instruction.imm) & 0xFFFFFFFF
    if instruction.op is Op.SLLI:
        return (value << instruction.imm) & 0xFFFFFFFF
    return None
