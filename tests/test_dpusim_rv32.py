"""Decoding: every instruction of RV32I and Zba, encoded here from the manual's field layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.dpusim.program.rv32 import BRANCHES, Instruction, Op, Routine, decode, decode_all

REGISTER = st.integers(0, 31)
IMMEDIATE = st.integers(-2048, 2047)

# op: (funct7, funct3), all with opcode 0x33
REGISTER_OPS = {
    Op.ADD: (0, 0), Op.SUB: (32, 0), Op.SLL: (0, 1), Op.SLT: (0, 2), Op.SLTU: (0, 3), Op.XOR: (0, 4),
    Op.SRL: (0, 5), Op.SRA: (32, 5), Op.OR: (0, 6), Op.AND: (0, 7),
    Op.SH1ADD: (16, 2), Op.SH2ADD: (16, 4), Op.SH3ADD: (16, 6),
}  # fmt: skip
# op: (opcode, funct3) of the I-type
IMMEDIATE_OPS = {
    Op.ADDI: (0x13, 0), Op.SLTI: (0x13, 2), Op.SLTIU: (0x13, 3), Op.XORI: (0x13, 4), Op.ORI: (0x13, 6),
    Op.ANDI: (0x13, 7), Op.LB: (3, 0), Op.LH: (3, 1), Op.LW: (3, 2), Op.LBU: (3, 4), Op.LHU: (3, 5),
    Op.JALR: (0x67, 0),
}  # fmt: skip
BRANCH_OPS = {Op.BEQ: 0, Op.BNE: 1, Op.BLT: 4, Op.BGE: 5, Op.BLTU: 6, Op.BGEU: 7}


def i_type(opcode, f3, rd, rs1, imm):
    return (imm & 0xFFF) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode


def s_type(opcode, f3, rs1, rs2, imm):
    return (imm >> 5 & 127) << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | (imm & 31) << 7 | opcode


@given(st.sampled_from(sorted(REGISTER_OPS)), REGISTER, REGISTER, REGISTER)
def test_register_instructions(op, rd, rs1, rs2):
    f7, f3 = REGISTER_OPS[op]
    word = f7 << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | rd << 7 | 0x33
    assert decode(word) == Instruction(op, rd, rs1, rs2)


@given(st.sampled_from(sorted(IMMEDIATE_OPS)), REGISTER, REGISTER, IMMEDIATE)
def test_immediate_instructions(op, rd, rs1, imm):
    assert decode(i_type(*IMMEDIATE_OPS[op], rd, rs1, imm)) == Instruction(op, rd, rs1, imm=imm)


@given(st.sampled_from([(Op.SLLI, 1, 0), (Op.SRLI, 5, 0), (Op.SRAI, 5, 32)]), REGISTER, REGISTER, REGISTER)
def test_shifts_by_a_constant(shift, rd, rs1, amount):
    op, f3, f7 = shift
    assert decode(i_type(0x13, f3, rd, rs1, f7 << 5 | amount)) == Instruction(op, rd, rs1, imm=amount)


@given(st.sampled_from([(Op.SB, 0), (Op.SH, 1), (Op.SW, 2)]), REGISTER, REGISTER, IMMEDIATE)
def test_stores(store, rs1, rs2, imm):
    op, f3 = store
    assert decode(s_type(0x23, f3, rs1, rs2, imm)) == Instruction(op, 0, rs1, rs2, imm)


@given(st.sampled_from(sorted(BRANCH_OPS)), REGISTER, REGISTER, st.integers(-2048, 2047))
def test_branches_know_their_target(op, rs1, rs2, half):
    offset, pc = 2 * half, 0x80001000
    word = (offset >> 12 & 1) << 31 | (offset >> 5 & 63) << 25 | rs2 << 20 | rs1 << 15 | BRANCH_OPS[op] << 12
    word |= (offset >> 1 & 15) << 8 | (offset >> 11 & 1) << 7 | 0x63
    assert decode(word, pc) == Instruction(op, 0, rs1, rs2, pc + offset)
    assert op in BRANCHES


@given(REGISTER, st.integers(-(2**19), 2**19 - 1))
def test_jumps_know_their_target(rd, half):
    offset, pc = 2 * half, 0x80200000
    word = (offset >> 20 & 1) << 31 | (offset >> 1 & 1023) << 21 | (offset >> 11 & 1) << 20
    word |= (offset >> 12 & 255) << 12 | rd << 7 | 0x6F
    assert decode(word, pc) == Instruction(Op.JAL, rd, imm=pc + offset)


@given(REGISTER, st.integers(0, 2**20 - 1))
def test_upper_immediates(rd, upper):
    value = upper << 12
    assert decode(value | rd << 7 | 0x37).imm & 0xFFFFFFFF == value
    relative = decode(value | rd << 7 | 0x17, 0x80000010)
    assert relative.op is Op.LUI
    assert relative.imm & 0xFFFFFFFF == (value + 0x80000010) & 0xFFFFFFFF


@given(st.integers(1, 256), REGISTER, REGISTER)
def test_a_dma_of_known_size_carries_it(eights, wram, mram):
    word = s_type(0x0B, 1, wram, mram, eights - 1)
    assert decode(word) == Instruction(Op.DMA_READ, 0, wram, mram, 8 * eights)
    assert decode(word | 3 << 12).op is not Op.DMA_READ


def test_a_dma_of_variable_size_reads_three_registers():
    dma = decode(13 << 27 | 11 << 20 | 10 << 15 | 3 << 12 | 0x0B)
    assert dma.op is Op.DMA_READ_N
    assert dma.reads == (10, 11, 13)
    assert dma.writes == 0


@given(st.sampled_from(sorted(Routine)))
def test_routines(routine):
    assert decode(i_type(0x2B, 0, 0, 0, int(routine))) == Instruction(Op.ROUTINE, imm=int(routine))


@pytest.mark.parametrize("word", [0, 0xFFFFFFFF, 0x0000707F, 0x02000033, i_type(0x2B, 0, 0, 0, 2000)])
def test_what_means_nothing_is_illegal(word):
    """All zeros, all ones, an unused opcode, `mul` (a DPU has none), an unknown routine."""
    assert decode(word).op is Op.ILLEGAL


def test_a_section_is_decoded_in_order():
    text = (0x00A00513).to_bytes(4, "little") + (0x0000006F).to_bytes(4, "little")
    assert decode_all(text, 0x80000000) == [
        Instruction(Op.ADDI, 10, 0, imm=10),
        Instruction(Op.JAL, imm=0x80000004),
    ]
