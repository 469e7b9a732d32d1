"""The rules that price RISC-V code as DPU code, each on the shortest code it is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import IRAM_BASE, load_program
from swiftrl_core.dpusim.program.flow import Flow
from swiftrl_core.dpusim.program.lower import lower
from swiftrl_core.dpusim.program.proxy import price, signed_digits
from swiftrl_core.dpusim.program.rv32 import Instruction, Op, Routine

BASE = IRAM_BASE
ZERO, RA, SP, A0, A1, A2, A3, A4, S0 = 0, 1, 2, 10, 11, 12, 13, 14, 8
RETURN = Instruction(Op.JALR, 0, RA)
GLOBAL = 0x400


def i(op: Op, rd: int = 0, rs1: int = 0, rs2: int = 0, imm: int = 0) -> Instruction:
    return Instruction(op, rd, rs1, rs2, imm)


def at(index: int) -> int:
    return BASE + 4 * index


def costs(*code: Instruction) -> list[int]:
    return price(list(code), BASE, {BASE}).cost.tolist()


def call(index: int, target: int) -> tuple[Instruction, Instruction]:
    """The pair `auipc ra; jalr ra` at an index, to another index."""
    return i(Op.LUI, RA, imm=at(index)), i(Op.JALR, RA, RA, imm=4 * (target - index))


def multiply(*before: Instruction, after: tuple[Instruction, ...] = ()) -> list[int]:
    """Costs of `before`, a call of the multiply routine, and `after`."""
    routine = len(before) + 2 + len(after) + 1
    code = [
        *before,
        *call(len(before), routine),
        *after,
        RETURN,
        i(Op.ROUTINE, imm=int(Routine.mulsi3)),
        RETURN,
    ]
    return price(code, BASE, {BASE, at(routine)}).cost.tolist()[: routine - 1]


def test_plain_instructions_cost_one():
    assert costs(i(Op.ADD, A0, A0, A1), i(Op.XOR, A0, A0, A2), RETURN) == [1, 1, 1]


def test_the_machine_s_own_instructions_cost_as_stated():
    """Printing, semaphores and handshakes are estimates; a DMA of unknown size builds its word in 4 instructions."""
    stated = {Op.LOG: 300, Op.DMA_READ_N: 5, Op.DMA_WRITE_N: 5, Op.BARRIER: 0, Op.EXIT: 0}
    stated |= dict.fromkeys((Op.SEM_TAKE, Op.SEM_GIVE, Op.NOTIFY, Op.WAIT_FOR), 10)
    assert {op: costs(i(op), RETURN)[0] for op in stated} == stated


def test_r1_upper_immediates_are_free_before_their_user():
    load = (i(Op.LUI, A1, imm=0x1000), i(Op.LW, A0, A1, imm=4), RETURN)
    assert costs(*load) == [0, 1, 1]
    assert costs(i(Op.LUI, A1, imm=0x1000), i(Op.OR, A0, A0, A1), RETURN) == [1, 1, 1]


def test_r2_saved_registers_move_in_pairs_neighbouring_variables_do_not():
    save = (i(Op.SW, 0, SP, RA, 12), i(Op.SW, 0, SP, S0, 8), RETURN)
    assert costs(*save) == [1, 0, 1]
    copy = (
        i(Op.LW, A2, A0, imm=0),
        i(Op.LW, A3, A0, imm=4),
        i(Op.SW, 0, A1, A2, 0),
        i(Op.SW, 0, A1, A3, 4),
        RETURN,
    )
    assert costs(*copy) == [1] * 5


def test_r3_a_64_bit_addition_is_two_instructions():
    low = i(Op.ADD, A4, A0, A2)
    code = (
        low,
        i(Op.SLTU, A2, A4, A0),
        i(Op.ADD, A1, A1, A3),
        i(Op.ADD, A1, A1, A2),
        i(Op.ADDI, A0, A4),
        RETURN,
    )
    assert costs(*code)[:4] == [1, 0, 1, 0]


def test_r3_a_64_bit_subtraction_is_two_instructions():
    borrow = i(Op.SLTU, A4, A0, A2)
    code = (borrow, i(Op.SUB, A1, A1, A3), i(Op.SUB, A1, A1, A4), i(Op.SUB, A0, A0, A2), RETURN)
    assert costs(*code)[:4] == [0, 1, 0, 1]


def test_r3_counting_a_comparison_is_no_carry():
    assert costs(i(Op.SLTU, A2, A0, A1), i(Op.ADD, A3, A3, A2), i(Op.ADDI, A0, A3), RETURN)[:2] == [1, 1]


@pytest.mark.parametrize(("constant", "chain"), [(10, 2), (24, 2), (1000, 3), (10000, 4), (-24, 2)])
def test_r4_a_product_with_a_short_constant_is_inline(constant, chain):
    assert multiply(i(Op.ADDI, A1, 0, imm=constant), i(Op.ADDI, A0, S0)) == [0, 0, 0, chain]


def test_r4_a_dense_constant_is_a_call():
    dense = 0b01010101010101 << 4
    assert signed_digits(dense) == 7
    assert multiply(i(Op.LUI, A1, imm=dense & ~0xFFF), i(Op.ADDI, A1, A1, imm=dense & 0xFFF)) == [0, 1, 0, 1]


def test_r4_an_inline_product_goes_where_it_is_wanted():
    move = (i(Op.ADDI, S0, A0), i(Op.ADDI, A0, 0, imm=1))
    assert multiply(i(Op.ADDI, A1, 0, imm=10), after=move)[1:] == [0, 2, 0, 1]


def test_r5_narrow_products_are_inline():
    bytes_ = (i(Op.LBU, A0, A2), i(Op.LBU, A1, A3))
    halves = (i(Op.LHU, A0, A2), i(Op.SRLI, A1, A3, imm=16))
    words = (i(Op.LHU, A0, A2), i(Op.LW, A1, A3))
    assert [multiply(*operands) for operands in (bytes_, halves, words)] == [
        [1, 1, 0, 1],
        [1, 1, 0, 7],
        [1, 1, 0, 1],
    ]


def test_r6_a_select_costs_one_more():
    assert costs(i(Op.BGE, 0, A0, A1, at(2)), i(Op.ADDI, A0, A1), RETURN) == [2, 1, 1]
    test_with_zero = (i(Op.BGE, 0, A0, 0, at(2)), i(Op.ADDI, A0, A1), RETURN)
    assert costs(*test_with_zero) == [1, 1, 1]


M, P = A3, A4  # the largest so far, found by an earlier select, and a new value


@pytest.mark.parametrize(
    ("branch", "move", "turned", "branch_cost", "extra"),
    [
        # the new value's register becomes the largest: the move of m happens where m > p, as on a DPU
        (i(Op.BGE, 0, P, M, at(5)), i(Op.ADDI, P, M), (Op.BGE, P, M), 2, 0),
        (i(Op.BLT, 0, M, P, at(5)), i(Op.ADDI, P, M), (Op.BGE, P, M), 2, 0),
        # m stays where it is: a DPU moves where m > p, where this code skips
        (i(Op.BGE, 0, M, P, at(5)), i(Op.ADDI, M, P), (Op.BLT, P, M), 1, 2),
        (i(Op.BLT, 0, P, M, at(5)), i(Op.ADDI, M, P), (Op.BLT, P, M), 1, 2),
    ],
)
def test_r6_a_maximum_moves_where_the_old_value_is_larger(branch, move, turned, branch_cost, extra):
    earlier = (i(Op.BGE, 0, A0, A1, at(2)), i(Op.ADDI, M, A1))
    code = [*earlier, i(Op.LW, P, A2), branch, move, RETURN]
    pricing = price(code, BASE, {BASE})
    now = pricing.code[3]
    assert (now.op, now.rs1, now.rs2) == turned
    assert (pricing.cost[3], pricing.cost[4], pricing.taken.get(3, 0)) == (branch_cost, 1, extra)


def test_r7_two_selects_on_one_comparison_are_one_branch():
    code = (
        i(Op.BGE, 0, A0, A1, at(2)),
        i(Op.ADDI, A2, A3),
        i(Op.BGE, 0, A0, A1, at(4)),
        i(Op.ADDI, A4, A3),
        RETURN,
    )
    assert costs(*code) == [1, 1, 0, 1, 1]


def test_r8_a_bit_test_is_one_instruction():
    code = (i(Op.ANDI, A2, A0, imm=1), i(Op.BEQ, 0, A2, 0, at(3)), i(Op.XOR, A0, A0, A1), RETURN)
    assert costs(*code) == [0, 1, 1, 1]


def test_r9_an_addition_shifts_by_any_amount_once():
    assert costs(i(Op.SLLI, A2, A1, imm=13), i(Op.ADD, A0, A0, A2), RETURN) == [0, 1, 1]
    assert costs(i(Op.SLLI, A2, A1, imm=13), i(Op.SUB, A0, A0, A2), RETURN) == [0, 1, 1]
    assert costs(i(Op.SLLI, A2, A1, imm=13), i(Op.SUB, A0, A2, A0), RETURN) == [1, 1, 1]
    both = (i(Op.SLLI, A2, A1, imm=13), i(Op.SRLI, A3, A1, imm=2), i(Op.ADD, A0, A2, A3), RETURN)
    assert sum(costs(*both)) == 3


def test_r10_an_extension_is_one_instruction():
    assert costs(i(Op.SLLI, A2, A0, imm=16), i(Op.SRAI, A0, A2, imm=16), RETURN) == [0, 1, 1]


def row(*accesses: Instruction, add: Op = Op.SH2ADD) -> int:
    """Cost of adding an index to the address of a global and using the sum."""
    code = (
        i(Op.LUI, A1, imm=0),
        i(Op.ADDI, A1, A1, imm=GLOBAL),
        i(Op.SRLI, A2, A0, imm=4),
        i(add, A2, A2, A1),
    )
    return costs(*code, *accesses, RETURN)[3]


def test_r11_a_global_row_read_at_several_places_costs_one_more():
    assert row(i(Op.LW, A3, A2, imm=0), i(Op.LW, A0, A2, imm=4)) == 2
    assert row(i(Op.LW, A3, A2, imm=0), i(Op.SW, 0, A2, A3, 0)) == 2
    assert row(i(Op.LW, A0, A2, imm=0)) == 1


def test_r12_a_single_access_takes_the_address_as_its_offset():
    assert row(i(Op.LW, A0, A2, imm=0), add=Op.ADD) == 0


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_digits_are_the_fewest(value):
    digits, rest = 0, abs(value)
    while rest:  # non-adjacent form, digit by digit
        if rest & 1:
            digits += 1
            rest -= 2 - (rest & 3)
        rest >>= 1
    assert signed_digits(value & 0xFFFFFFFF) == digits


def test_liveness_knows_calls_and_loops():
    loop = [
        i(Op.ADDI, A2, 0, imm=3),
        i(Op.ADDI, A2, A2, imm=-1),
        i(Op.BNE, 0, A2, 0, at(1)),
        *call(3, 6),
        RETURN,
        RETURN,
    ]
    flow = Flow(loop, BASE, {BASE, at(6)})
    assert not flow.dead_after(1, A2)
    assert flow.dead_after(4, A2)  # lost in the call
    assert not flow.dead_after(4, S0)  # preserved for the caller
    assert [flow.leaders[n] for n in range(7)] == [True, True, False, True, False, False, True]


def test_constants_survive_in_spill_slots_and_meet_at_joins():
    code = [
        i(Op.ADDI, A0, 0, imm=5),
        i(Op.SW, 0, SP, A0, 8),
        i(Op.BNE, 0, A1, 0, at(4)),
        i(Op.ADDI, A0, 0, imm=6),
        i(Op.LW, A2, SP, imm=8),
        RETURN,
    ]
    known = Flow(code, BASE, {BASE}).constants
    assert A0 not in known[4]
    assert known[5][A2] == 5


def test_straight_code_and_jumps_add_up_in_the_lowered_program(tmp_path):
    """`before` is the running sum of costs, and taking a jump adds what lies between the two."""
    source = tmp_path / "loop.c"
    source.write_text(
        "volatile int v; int main(void) { for (int k = 0; k < 999; k++) v += v * k; return 0; }"
    )
    program = load_program(compile_kernel(source))
    for ops in lower(program):
        jumps = ops[(ops["code"] == Op.BNE) | (ops["code"] == Op.JAL)]
        assert len(jumps) >= 1
    fast, exact = lower(program)
    assert (exact["before"][1:] - exact["before"][:-1] >= 0).all()
    assert (fast["before"] == exact["before"]).all()
    for index, op in enumerate(exact):
        if op["code"] in (Op.BNE, Op.JAL, Op.CALL):
            end = index + int(op["length"])
            assert (
                fast[index]["jump_cost"] == exact["before"][end] - exact["before"][index + int(op["target"])]
            )
