"""Turn a program's fused ops into C for the fast run (translated.h explains why)."""

import hashlib
from pathlib import Path

import numpy as np

from swiftrl_core.dpusim.program.lower import NOWHERE
from swiftrl_core.dpusim.program.rv32 import BRANCHES, IMMEDIATE_ALU, LOADS, REGISTER_ALU, STORES, Op, Routine
from swiftrl_core.util import toolchain

MACHINE = Path(__file__).parent.parent / "machine"
#: Simple ops that must follow for an entry to pay: a tasklet's registers go in and out of local variables there.
WORTH_ENTERING = 8
_CALLS = frozenset({Op.CALL_MUL, Op.CALL_ADDF, Op.CALL_SUBF, Op.CALL_MULF, Op.CALL_LESSF, Op.CALL_GREATERF})
_DIVISIONS = frozenset({Op.CALL_DIV, Op.CALL_UDIV, Op.CALL_UMOD})
_SELECTS = frozenset(op for op in Op if op.name.startswith("SELECT_"))
_JUMPS = frozenset({Op.JAL, Op.CALL})


class Translation:
    """A program's C source, and the ops from which it may be entered.

    Parameters
    ----------
    ops : OP_RECORD array (instructions + 1,)
        Fused, as `lower` returns them.

    Attributes
    ----------
    entries : list of int
        Heads of loops, and what follows ops that are left to the interpreter.
    source : str
        A file for the compiler.
    """

    def __init__(self, ops: np.ndarray):
        self._ops = ops
        self._codes = [Op(int(code)) for code in ops["code"]]
        lines = [self._line(i) for i in range(len(ops))]
        self.entries = sorted(self._loop_heads(lines) | self._resumptions(lines))
        self.source = self._file(lines)

    def _line(self, i: int) -> str:
        """Return op `i` as a macro of translated.h; nothing for one that the interpreter executes."""
        op, code = {name: int(self._ops[i][name]) for name in self._ops.dtype.names}, self._codes[i]
        rd, rs1, rs2, imm = op["rd"], op["rs1"], op["rs2"], op["imm"]
        back = "_BACK" if op["target"] <= 0 else ""
        if code is Op.LUI or code in IMMEDIATE_ALU or code in REGISTER_ALU:
            return f"COMPUTE({code.name}, {rd}, {rs1}, {rs2}, {imm})"
        if code in LOADS:
            return f"LOAD({code.name}, {rd}, {rs1}, {imm}, {i})"
        if code in STORES:
            return f"STORE({code.name}, {rs1}, {rs2}, {imm}, {i})"
        if code in BRANCHES:
            return f"BRANCH{back}({code.name[1:]}, {rs1}, {rs2}, {op['jump_cost']}, {i + op['target']})"
        if code in _JUMPS:
            return f"JUMP{back}({rd}, {imm}, {op['jump_cost']}, {i + op['target']})"
        if code in _SELECTS:
            suffix = code.name.removeprefix("SELECT_")
            return f"SELECT({suffix}, {rd}, {rs1}, {rs2}, {op['rs3']}, {imm}, {op['jump_cost']})"
        if code in _CALLS:
            return f"CALL({code.name}, {rs1}, {rs2})"
        if code in _DIVISIONS:
            return f"DIVIDE({code.name}, {rs1}, {rs2}, {i})"
        if code is Op.JALR and rd == NOWHERE:
            return f"RETURN({rs1}, {imm}, {op['before'] + op['cost']}, {i})"
        if code is Op.CALL_ROUTINE and imm < Routine.memcpy:
            return f"ROUTINE({imm}, {i})"
        others = {Op.NOP: ";", Op.MULTIPLY: "MULTIPLY()", Op.ME: f"ME({rd})", Op.PUSH: f"PUSH({imm}, {i})"}
        return others.get(code, "")

    def _next(self, i: int) -> int:
        return i + int(self._ops[i]["length"])

    def _loop_heads(self, lines: list[str]) -> set[int]:
        """Return where jumps backward lead, if whole loops, or enough of them, are simple."""
        jumps = [i for i, code in enumerate(self._codes) if code in BRANCHES or code in _JUMPS]
        loops = [(i + int(self._ops[i]["target"]), i + 1) for i in jumps if self._ops[i]["target"] <= 0]
        return {head for head, end in loops if all(lines[head : min(end, head + WORTH_ENTERING)])}

    def _resumptions(self, lines: list[str]) -> set[int]:
        """Return the ops that follow one of the interpreter's, where enough compiled ones come next."""
        behind = {self._next(i) for i, line in enumerate(lines[:-1]) if not line}
        return {i for i in behind if all(lines[i : i + WORTH_ENTERING])}

    def _file(self, lines: list[str]) -> str:
        code = []
        for i, line in enumerate(lines):
            code.append(f"at_{i}: {line or f'LEAVE({i});'}")
            if line and self._next(i) != i + 1:
                code.append(f"GO({self._next(i)});")
        calls = [i for i, op in enumerate(self._codes) if op is Op.CALL]
        returns = {self._next(i) for i in calls}
        before = {i: int(self._ops[i]["before"]) for i in returns}
        return "\n".join(
            [
                '#include "translated.h"',
                "TRANSLATED_ENTRIES",
                *(f"ENTRY({i})" for i in self.entries),
                "TRANSLATED_CODE",
                *code,
                "TRANSLATED_RETURNS",
                *(f"RETURN_TO({i}, {before[i]})" for i in sorted(returns)),
                "TRANSLATED_END\n",
            ]
        )


def compile_translation(translation: Translation) -> Path:
    """Compile (once) a translated program into a shared library whose one function is `dpu_translated`."""
    name = hashlib.sha256(translation.source.encode()).hexdigest()[:32]
    source = toolchain.cache_directory() / name / "translated.c"
    toolchain.cached(source, lambda path: path.write_text(translation.source))
    return toolchain.compile_shared_library(
        [source], headers=sorted(MACHINE.glob("*.h")), include_directories=[MACHINE], product="translated.so"
    )
