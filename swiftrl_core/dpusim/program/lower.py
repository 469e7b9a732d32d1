"""Turn a decoded and priced program into the arrays that the interpreter executes."""

import functools
from collections.abc import Mapping

import numpy as np

from swiftrl_core.dpusim.program.elf import IRAM_BASE, Program
from swiftrl_core.dpusim.program.flow import A0, A1, SP
from swiftrl_core.dpusim.program.proxy import price
from swiftrl_core.dpusim.program.rv32 import BRANCHES, Op, Routine, decode_all

#: `struct op` of machine.h.
OP_RECORD = np.dtype(
    {
        "names": "code imm rd rs1 rs2 rs3 target jump_cost before cost length".split(),
        "formats": "u8 i4 u1 u1 u1 u1 i4 i4 i4 u2 u2".split(),
    }
)
#: Where the interpreter sends writes to x0.
NOWHERE = 32

#: Calls of routines that are executed in one op, with their argument moves.
_FUSED_CALLS = {
    Routine.mulsi3: Op.CALL_MUL,
    Routine.divsi3: Op.CALL_DIV,
    Routine.udivsi3: Op.CALL_UDIV,
    Routine.umodsi3: Op.CALL_UMOD,
    Routine.addsf3: Op.CALL_ADDF,
    Routine.subsf3: Op.CALL_SUBF,
    Routine.mulsf3: Op.CALL_MULF,
    **dict.fromkeys((Routine.eqsf2, Routine.nesf2, Routine.ltsf2, Routine.lesf2), Op.CALL_LESSF),
    **dict.fromkeys((Routine.gtsf2, Routine.gesf2), Op.CALL_GREATERF),
}
#: Branches over one `addi`, executed without a branch.
_SELECTS = {
    Op.BEQ: Op.SELECT_EQ,
    Op.BNE: Op.SELECT_NE,
    Op.BLT: Op.SELECT_LT,
    Op.BGE: Op.SELECT_GE,
    Op.BLTU: Op.SELECT_LTU,
    Op.BGEU: Op.SELECT_GEU,
}


class Lowering:
    """The program's two arrays of ops while they are made."""

    def __init__(self, program: Program):
        pricing = price(decode_all(program.text, IRAM_BASE), IRAM_BASE, entry_points(program))
        self.code = pricing.code
        self.cost, self.taken, self.flow = pricing.cost, pricing.taken, pricing.flow
        self.known_multiplies = pricing.multiplies
        self.before = np.concatenate([[0], np.cumsum(self.cost)])
        self.plain = np.zeros(len(self.code) + 1, OP_RECORD)
        self._plain()
        self._calls()
        self.fused = self.plain.copy()
        self._jumps_of_fused_code()
        self._fused_calls()
        self._fused_selects()

    def _plain(self) -> None:
        """One op an instruction."""
        for i, (instruction, op) in enumerate(zip(self.code, self.plain[:-1], strict=True)):
            op["code"], op["imm"] = instruction.op, _int32(instruction.imm)
            op["cost"], op["length"] = self.cost[i], 1
            op["rd"] = instruction.writes or NOWHERE
            op["rs1"], op["rs2"], op["rs3"] = instruction.rs1, instruction.rs2, instruction.rd
            if instruction.op is Op.ADDI and instruction.rd == instruction.rs1 == SP and instruction.imm < 0:
                op["code"] = Op.PUSH
            if instruction.op in BRANCHES or instruction.op is Op.JAL:
                self._jump(i, op, instruction.imm, 1)
        self.plain["before"] = self.before
        self.plain[-1]["code"], self.plain[-1]["length"] = Op.ILLEGAL, 1  # running off the end

    def _jump(self, i: int, op: np.void, address: int, length: int) -> None:
        """Fill in a jump: how far, what it adds to the count, and the address behind it as `imm`."""
        target = (address - IRAM_BASE) // 4
        op["imm"] = _int32(IRAM_BASE + 4 * (i + length))
        if not 0 <= target < len(self.code):
            op["code"] = Op.ILLEGAL
            return
        op["target"] = target - i
        op["jump_cost"] = self.taken.get(i, 0)

    def _jumps_of_fused_code(self) -> None:
        """Let taking a jump add the difference between where it is and where it goes."""
        for i in np.flatnonzero(np.isin(self.fused["code"], [*BRANCHES, Op.JAL, Op.CALL])):
            op = self.fused[i]
            op["jump_cost"] += self.before[i + op["length"]] - self.before[i + op["target"]]

    def _calls(self) -> None:
        """Join `auipc, jalr` into one op; a routine is executed in place of its call."""
        for i in range(len(self.code) - 1):
            target = self.flow.callee(i)
            if target is None:
                continue
            op = self.plain[i]
            op["rd"], op["length"] = self.code[i + 1].rd or NOWHERE, 2
            op["cost"] = self.cost[i] + self.cost[i + 1]
            routine = self.flow.routine_called(i)
            if routine is None:
                op["code"] = Op.CALL
                self._jump(i, op, IRAM_BASE + 4 * target, 2)
            else:
                op["code"] = Op.MULTIPLY if i in self.known_multiplies else Op.CALL_ROUTINE
                op["imm"] = routine

    def _fused_calls(self) -> None:
        """Give calls of frequent routines an op of their own, argument moves included."""
        for i, op in enumerate(self.plain[:-1]):
            if op["code"] != Op.CALL_ROUTINE or int(op["imm"]) not in _FUSED_CALLS:
                continue
            first, sources = self._argument_moves(i)
            fused = self.fused[first]
            fused["code"], fused["length"] = _FUSED_CALLS[Routine(int(op["imm"]))], i + 2 - first
            fused["rs1"], fused["rs2"] = sources[A0], sources[A1]

    def _fused_selects(self) -> None:
        """Join a branch over one `addi` with it."""
        for i in range(len(self.code) - 1):
            branch, move = self.code[i], self.code[i + 1]
            skips = branch.op in _SELECTS and self.flow.index(branch.imm) == i + 2
            if skips and move.op is Op.ADDI and move.rd:
                fused = self.fused[i]
                fused["code"], fused["length"] = _SELECTS[branch.op], 2
                fused["rd"], fused["rs3"], fused["imm"] = move.rd, move.rs1, move.imm

    def _argument_moves(self, call: int) -> tuple[int, dict[int, int]]:
        """Return where the moves into a0 and a1 before a call begin, and what they move."""
        sources = {A0: A0, A1: A1}
        first = call
        while first > 0 and self._is_move(first - 1, sources):
            first -= 1
            sources[self.code[first].rd] = self.code[first].rs1
        return first, sources

    def _is_move(self, i: int, sources: Mapping[int, int]) -> bool:
        """Whether instruction `i` moves into an argument that nothing later moves into or from."""
        move = self.code[i]
        free = (
            move.rd in sources
            and sources[move.rd] == move.rd
            and move.rd not in (source for register, source in sources.items() if register != move.rd)
        )
        return move.op is Op.ADDI and move.imm == 0 and move.rs1 != 0 and free


def entry_points(program: Program) -> set[int]:
    """Return where control may arrive by other ways than a visible jump: functions, and text addresses in data."""
    text = range(IRAM_BASE, IRAM_BASE + len(program.text), 4)
    found = {address for address, _ in program.functions.values()}
    for segment in program.segments:
        words = np.frombuffer(segment.data[: len(segment.data) // 4 * 4], "<u4")
        found |= {int(word) for word in words[words >= IRAM_BASE] if int(word) in text}
    return found


def _int32(value: int) -> int:
    """Wrap a 32-bit number to the signed range."""
    return (value + 0x80000000) % 0x100000000 - 0x80000000


@functools.lru_cache(maxsize=64)
def lower(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Return the ops with frequent sequences fused, and the plain ones: one per instruction and one past the end."""
    lowering = Lowering(program)
    return lowering.fused, lowering.plain
