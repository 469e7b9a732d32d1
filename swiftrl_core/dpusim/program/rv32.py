"""Decode RV32I, Zba and the custom instructions of the DPU runtime: 32-bit words to arrays of fields."""

import re
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

_LISTS = (Path(__file__).parent.parent / "machine" / "opcodes.h").read_text()

#: Decoded instructions and runtime routines, numbered as in opcodes.h, the file that machine.c includes.
Op = IntEnum("Op", re.findall(r" (?:OP|FUSED)\((\w+)\)", _LISTS), start=0)
Routine = IntEnum("Routine", re.findall(r" ROUTINE\((\w+)\)", _LISTS), start=0)

BRANCHES = frozenset({Op.BEQ, Op.BNE, Op.BLT, Op.BGE, Op.BLTU, Op.BGEU})
LOADS = frozenset({Op.LB, Op.LH, Op.LW, Op.LBU, Op.LHU})
STORES = frozenset({Op.SB, Op.SH, Op.SW})
IMMEDIATE_ALU = frozenset({Op.ADDI, Op.SLTI, Op.SLTIU, Op.XORI, Op.ORI, Op.ANDI, Op.SLLI, Op.SRLI, Op.SRAI})
REGISTER_ALU = frozenset(
    {Op.ADD, Op.SUB, Op.SLL, Op.SLT, Op.SLTU, Op.XOR, Op.SRL, Op.SRA, Op.OR, Op.AND}
    | {Op.SH1ADD, Op.SH2ADD, Op.SH3ADD}
)

_LOAD = {0: Op.LB, 1: Op.LH, 2: Op.LW, 4: Op.LBU, 5: Op.LHU}
_STORE = {0: Op.SB, 1: Op.SH, 2: Op.SW}
_BRANCH = {0: Op.BEQ, 1: Op.BNE, 4: Op.BLT, 5: Op.BGE, 6: Op.BLTU, 7: Op.BGEU}
_IMMEDIATE = {0: Op.ADDI, 2: Op.SLTI, 3: Op.SLTIU, 4: Op.XORI, 6: Op.ORI, 7: Op.ANDI}
_REGISTER = {
    (0, 0x00): Op.ADD, (0, 0x20): Op.SUB, (1, 0x00): Op.SLL, (2, 0x00): Op.SLT, (3, 0x00): Op.SLTU,
    (4, 0x00): Op.XOR, (5, 0x00): Op.SRL, (5, 0x20): Op.SRA, (6, 0x00): Op.OR, (7, 0x00): Op.AND,
    (2, 0x10): Op.SH1ADD, (4, 0x10): Op.SH2ADD, (6, 0x10): Op.SH3ADD,
}  # fmt: skip
_SYSTEM = (
    Op.ME,
    Op.FAULT,
    Op.PERF_CONFIG,
    Op.PERF_GET,
    Op.SEM_TAKE,
    Op.SEM_GIVE,
    Op.NOTIFY,
    Op.WAIT_FOR,
    Op.LOG,
    Op.EXIT,
)


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction.

    Attributes
    ----------
    op : Op
        What it does.
    rd, rs1, rs2 : int
        Registers written and read; 0 where the instruction has none. A DMA with its size in a register has that
        register in `rd`.
    imm : int
        Immediate; for branches and jumps the target's address, for `LUI` the value loaded.
    """

    op: Op
    rd: int = 0
    rs1: int = 0
    rs2: int = 0
    imm: int = 0

    @property
    def reads(self) -> tuple[int, ...]:
        """Registers the instruction itself reads (those of a routine called come with its call)."""
        if self.op in (Op.DMA_READ_N, Op.DMA_WRITE_N):
            return (self.rs1, self.rs2, self.rd)
        return (self.rs1, self.rs2)

    @property
    def writes(self) -> int:
        """The register written, 0 when there is none."""
        return 0 if self.op in (Op.DMA_READ_N, Op.DMA_WRITE_N) else self.rd


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def decode(word: int, pc: int = 0) -> Instruction:
    """Decode one instruction.

    Parameters
    ----------
    word : int
        The 32 bits.
    pc : int
        Its address, from which the targets of jumps and the value of `auipc` follow.

    Returns
    -------
    Instruction
        With `op` ILLEGAL (and the word as `imm`) where the bits mean nothing here.
    """
    opcode, f3, f7 = word & 0x7F, word >> 12 & 7, word >> 25
    rd, rs1, rs2 = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
    immediate = _signed(word >> 20, 12)
    store_immediate = _signed(f7 << 5 | rd, 12)
    illegal = Instruction(Op.ILLEGAL, imm=_signed(word, 32))
    match opcode:
        case 0x37:
            return Instruction(Op.LUI, rd, imm=_signed(word & 0xFFFFF000, 32))
        case 0x17:
            return Instruction(Op.LUI, rd, imm=_signed((pc + (word & 0xFFFFF000)) & 0xFFFFFFFF, 32))
        case 0x6F:
            offset = (word >> 21 & 0x3FF) << 1 | (word >> 20 & 1) << 11 | (word >> 12 & 0xFF) << 12
            return Instruction(Op.JAL, rd, imm=pc + _signed(offset | (word >> 31) << 20, 21))
        case 0x67 if f3 == 0:
            return Instruction(Op.JALR, rd, rs1, imm=immediate)
        case 0x63 if f3 in _BRANCH:
            offset = (word >> 8 & 0xF) << 1 | (word >> 25 & 0x3F) << 5 | (word >> 7 & 1) << 11
            return Instruction(_BRANCH[f3], 0, rs1, rs2, pc + _signed(offset | (word >> 31) << 12, 13))
        case 0x03 if f3 in _LOAD:
            return Instruction(_LOAD[f3], rd, rs1, imm=immediate)
        case 0x23 if f3 in _STORE:
            return Instruction(_STORE[f3], 0, rs1, rs2, store_immediate)
        case 0x13 if f3 in _IMMEDIATE:
            return Instruction(_IMMEDIATE[f3], rd, rs1, imm=immediate)
        case 0x13 if f3 == 1 and f7 == 0:
            return Instruction(Op.SLLI, rd, rs1, imm=rs2)
        case 0x13 if f3 == 5 and f7 in (0, 0x20):
            return Instruction(Op.SRAI if f7 else Op.SRLI, rd, rs1, imm=rs2)
        case 0x33 if (f3, f7) in _REGISTER:
            return Instruction(_REGISTER[f3, f7], rd, rs1, rs2)
        case 0x0F:
            return Instruction(Op.NOP)  # fence: one WRAM port, nothing to order
        case 0x2B if f3 == 0 and word >> 20 < len(Routine):
            return Instruction(Op.ROUTINE, imm=word >> 20)
        case 0x0B:
            return _decode_dpu(f3, rd, rs1, rs2, word) or illegal
    return illegal


def _decode_dpu(f3: int, rd: int, rs1: int, rs2: int, word: int) -> Instruction | None:
    """Decode opcode custom-0, whose layout include/intrinsics.h, mram.h, mutex.h and barrier.h fix."""
    number = word >> 20
    match f3:
        case 0 if number < len(_SYSTEM):
            return Instruction(_SYSTEM[number], rd, rs1)
        case 1 | 2:
            size = ((word >> 25 << 5 | rd) + 1) * 8
            return Instruction(Op.DMA_READ if f3 == 1 else Op.DMA_WRITE, 0, rs1, rs2, size)
        case 3 | 4:
            return Instruction(Op.DMA_READ_N if f3 == 3 else Op.DMA_WRITE_N, word >> 27, rs1, rs2)
        case 5:
            return Instruction(Op.TRYLOCK if number else Op.LOCK, rd, rs1)
        case 6:
            return Instruction(Op.UNLOCK, 0, rs1)
        case 7:
            return Instruction(Op.BARRIER, 0, rs1)
    return None


def decode_all(text: bytes, base: int) -> list[Instruction]:
    """Decode a text section that starts at address `base`."""
    words = np.frombuffer(text, "<u4")
    return [decode(int(word), base + 4 * i) for i, word in enumerate(words)]
