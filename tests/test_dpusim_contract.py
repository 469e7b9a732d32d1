"""The DPU's contract, rule by rule: where each is tested, and tests of those that have no better place.

The rules are those of the vendor's documentation, binding and runtime library that a kernel or a host program can meet.
"""

import ast
import io
from pathlib import Path

import numpy as np
import pytest

from swiftrl_core.dpusim import HARDWARE_PROFILES, DpuError, DpuSet, compile_kernel
from swiftrl_core.util.errors import CompileError

HERE = Path(__file__).parent
TASKLETS = 6

#: Rule to the tests that hold the simulator to it: file without `test_dpusim_` and `.py`, and the test's name.
INDEX = {
    # memories
    "a DMA moves 8 to 2,048 bytes, a multiple of 8, between multiples of 8": (
        "machine::test_faults_say_what_and_where",
        "compile::test_a_dma_of_an_impossible_constant_size_does_not_compile",
        "sanitize::test_each_kind_of_bug_is_found",
    ),
    "accesses and transfers stay within WRAM and MRAM": (
        "machine::test_faults_say_what_and_where",
        "machine::test_accesses_outside_a_memory_are_refused",
    ),
    "a stack is as large as compiled, a heap as what is left": (
        "machine::test_faults_say_what_and_where",
        "compile::test_a_program_knows_its_memories_and_names",
        "contract::test_kernels_keep_the_rules",
    ),
    "code fits IRAM, data WRAM and MRAM, locks their 56 bits": ("compile::test_what_does_not_fit_is_named",),
    "v1A and v1B differ in IRAM, WRAM, tasklets and clock": (
        "compile::test_arguments_out_of_range",
        "compile::test_the_dpus_macros_are_defined",
        "dpu_set::test_a_program_for_another_chip_is_refused",
        "contract::test_a_v1b_chip_is_smaller_and_faster",
    ),
    "fresh memory is not zero": ("machine::test_memory_is_fresh_not_zero_but_globals_are_as_written",),
    "memory persists between launches, load writes initialised data only": (
        "machine::test_memory_persists_between_launches_and_load_writes_initialised_data_only",
        "dpu_set::test_a_second_load_writes_initialised_data_and_keeps_the_rest",
    ),
    "WRAM and MRAM pointers do not mix; scalars in MRAM cost a DMA": (
        "compile::test_wram_and_mram_pointers_do_not_mix",
        "machine::test_scalars_in_mram_cost_a_dma_each",
        "contract::test_kernels_keep_the_rules",
    ),
    "the host sees host variables, MRAM and functions, no others": (
        "compile::test_the_host_sees_what_the_sdks_loader_shows",
        "dpu_set::test_sizes_places_and_names_are_checked",
    ),
    # tasklets
    "mutexes exclude, semaphores count, handshakes meet, barriers are used again": (
        "contract::test_kernels_keep_the_rules",
        "machine::test_tasklets_meet_lock_and_wait_alike_in_both_runs",
    ),
    "a lock left taken is free at the next launch": ("contract::test_a_launch_finds_every_lock_free",),
    "numbers of locks and meeting tasklets are checked": ("contract::test_declarations_are_checked",),
    "a barrier nobody made and a deadlock are named": ("machine::test_faults_say_what_and_where",),
    "a hang ends with a named error": ("contract::test_a_hang_ends_with_a_named_error",),
    "main's result is dropped, exit ends one tasklet": ("contract::test_exit_ends_one_tasklet",),
    # library
    "mem_alloc, fsb, buddy": (
        "machine::test_fixed_blocks_and_buddies",
        "contract::test_kernels_keep_the_rules",
    ),
    "seqread": (
        "machine::test_a_sequential_reader_sees_every_item",
        "contract::test_kernels_keep_the_rules",
    ),
    "the counter counts in sixteens, at the profile's clock": (
        "machine::test_the_counter_counts_in_units_of_16",
        "dpu_set::test_the_program_learns_the_clock",
        "contract::test_kernels_keep_the_rules",
    ),
    "printf, its conversions, its buffer": (
        "machine::test_printf_is_formatted_from_the_dpus_memory",
        "contract::test_a_full_print_buffer_is_told",
    ),
    "division by zero, a failed assertion, halt": (
        "machine::test_faults_say_what_and_where",
        "costs::test_division_by_zero_is_told",
    ),
    "floats are IEEE, divisions flush subnormal results": (
        "costs::test_float_arithmetic_is_ieee",
        "costs::test_a_float_division_flushes_subnormal_results",
    ),
    # host
    "which DPUs an allocation takes": (
        "dpu_set::test_dpus_are_balanced_over_ranks_as_seen_on_the_vendors_library",
    ),
    "one of many DPUs in fault: all finish, it stays in fault": (
        "dpu_set::test_a_fault_is_told_after_all_have_finished_and_stays",
    ),
    "exec on the set, a rank or one DPU": ("contract::test_exec_runs_the_part_it_is_asked_to",),
    "asynchronous work waits for sync, errors stay": (
        "dpu_set::test_queued_work_is_done_in_order_at_sync",
        "dpu_set::test_asynchronous_errors_come_at_sync_and_stay",
        "dpu_set::test_an_asynchronous_fault_names_the_launch",
    ),
    "symbols are attributes": ("dpu_set::test_symbols_are_attributes",),
    "None entries skip their DPU": ("dpu_set::test_size_moves_a_prefix_and_none_skips_a_dpu",),
    "copies: sizes, alignment, places, names, sides": (
        "dpu_set::test_sizes_places_and_names_are_checked",
        "dpu_set::test_host_sides_are_checked",
        "dpu_set::test_what_the_vendor_leaves_undefined_is_said",
    ),
    "logs": ("dpu_set::test_logs_have_a_header_for_each_dpu", "dpu_set::test_wrong_logs_are_refused"),
    "use after free": ("dpu_set::test_use_after_free_and_freeing_a_part_are_refused",),
}


def test_every_rule_has_its_tests():
    there = {}
    for path in HERE.glob("test_dpusim_*.py"):
        body = ast.parse(path.read_text()).body
        module = path.stem.removeprefix("test_dpusim_")
        there |= {f"{module}::{node.name}": node for node in body if isinstance(node, ast.FunctionDef)}
    assert [name for names in INDEX.values() for name in names if name not in there] == []


@pytest.fixture(scope="module")
def binary() -> str:
    return str(compile_kernel(HERE / "contract.c", nr_tasklets=TASKLETS, stack_size=2048))


def word(number: int) -> bytearray:
    return bytearray(np.uint32(number).tobytes())


RULES = {
    "data model": (0, 4),
    "scalars in MRAM": (1, 2),
    "heap": (2, TASKLETS),
    "mutexes": (3, 3),
    "virtual mutexes": (4, 3),
    "semaphores": (5, 1),
    "handshakes": (6, 1),
    "sequential reader": (7, 5),
    "unaligned MRAM": (8, 5),
    "stacks": (9, 2),
    "counter": (10, 5),
    "library": (11, 11),
}


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("rule", RULES)
def test_kernels_keep_the_rules(binary, rule, mode):
    number, checks = RULES[rule]
    with DpuSet(nr_dpus=1, binary=binary, mode=mode, instruction_budget=10**7) as dpu:
        dpu.rule = word(number)
        for _ in range(2):  # memory persists: the second launch finds what the first left
            dpu.exec()
            assert (dpu.held.uint32(), dpu.expected.uint32()) == (checks * TASKLETS,) * 2


def test_a_launch_finds_every_lock_free(binary):
    with DpuSet(nr_dpus=1, binary=binary) as dpu:
        dpu.rule = word(12)
        for _ in range(3):
            dpu.exec()


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_a_hang_ends_with_a_named_error(binary, mode):
    with DpuSet(nr_dpus=2, binary=binary, mode=mode, instruction_budget=100_000) as dpus:
        dpus.rule = [word(14), word(0)]
        with pytest.raises(DpuError, match="instruction budget is used up; does the kernel loop for ever"):
            dpus.exec()
        assert dpus.dpus()[1].held.uint32() == 4 * TASKLETS
    with pytest.raises(DpuError, match="instruction_budget is 1 or more"):
        DpuSet(nr_dpus=1, instruction_budget=0)


def test_exit_ends_one_tasklet(binary):
    with DpuSet(nr_dpus=1, binary=binary) as dpu:
        dpu.rule = word(15)
        dpu.exec()
        assert list(dpu.order.uint32()) == list(range(TASKLETS))


def test_a_full_print_buffer_is_told(binary):
    text = io.StringIO()
    with DpuSet(nr_dpus=1, binary=binary) as dpu:
        dpu.rule = word(13)
        with pytest.raises(DpuError, match="^logging buffer too small"):
            dpu.exec(log=text)
    assert text.getvalue().endswith("x\n")
    assert len(text.getvalue()) == pytest.approx(1 << 20, abs=100)


def test_exec_runs_the_part_it_is_asked_to(binary):
    with DpuSet(nr_dpus=65, binary=binary) as dpus:
        dpus.rule = word(12)
        first, second = dpus.ranks()
        first.exec()
        second.dpus()[3].exec()
        ran = [value > 0 for value in dpus.expected.uint32()]
        assert ran == [True] * len(first) + [index == 3 for index in range(len(second))]
        assert dpus.simulated.launches == 2
        assert [run is not None for run in dpus.last_run] == ran


def test_a_v1b_chip_is_smaller_and_faster():
    kernel = str(compile_kernel(HERE / "contract.c", nr_tasklets=TASKLETS, stack_size=2048, chip="v1B"))
    with DpuSet(nr_dpus=1, binary=kernel, hardware="upmem-v1b") as dpu:
        dpu.exec()
        assert dpu.held.uint32() == 4 * TASKLETS
        assert int(np.frombuffer(dpu.CLOCKS_PER_SEC.data(), np.uint32)[0]) == 400_000_000
    assert HARDWARE_PROFILES["upmem-v1b"].chip == "v1B"


@pytest.mark.parametrize(
    ("declaration", "sentence"),
    [
        ("MUTEX_POOL_INIT(pool, 3);", "power of two"),
        ("BARRIER_INIT(meet, 128)", "counts 1 to 127"),
        ("VMUTEX_INIT(many, 12, 2);", "multiples of 8"),
        ("#define SEQREAD_CACHE_SIZE 2048\n#include <seqread.h>", "32 to 1024"),
    ],
)
def test_declarations_are_checked(tmp_path, declaration, sentence):
    source = tmp_path / "kernel.c"
    headers = "".join(f"#include <{name}.h>\n" for name in ("barrier", "mutex_pool", "vmutex"))
    source.write_text(f"{headers}{declaration}\nint main(void) {{ return 0; }}\n")
    with pytest.raises(CompileError, match=sentence):
        compile_kernel(source)
