"""The simulator's two runs agree: cycles within 2 %, memory byte for byte. `pytest -s` prints the tables."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim.kernels import compile_agents, compile_learner
from swiftrl_core.data import collect
from swiftrl_core.dpusim.machine import Machine, RunStats, run_counted, run_machines
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import MRAM_BASE, MRAM_HEAP, Program, load_program
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling, random_states
from swiftrl_core.learner.chunks import split

BAR = 2.0  # percent
TASKLETS = (1, 2, 4, 8, 11, 12, 16, 24)
KERNELS = {  # the numbers of agreement.c
    "updates, nothing shared": 0,
    "reduction with barriers": 1,
    "histogram, pool of locks": 2,
    "histogram, one lock": 3,
    "one lock, nothing beside it": 15,
    "one lock, some work beside it": 16,
    "one lock, much work beside it": 17,
    "histogram merged under a lock": 4,
    "unbalanced": 5,
    "stream, reads of 1 KiB": 6,
    "stream, reads and writes of 1 KiB": 7,
    "stream, 512 B, work on each word": 8,
    "stream, 128 B": 9,
    "random reads of 8 B": 10,
    "transfers, work, transfers": 11,
    "some stream, some work": 12,
    "producers and consumers": 13,
    "a chain of handshakes": 14,
}
#: The kernel has 18 builds: REV is SEQ over turned chunks.
LEARNERS = list(itertools.product(Algorithm, (Sampling.SEQ, Sampling.STR, Sampling.RAN), NumberFormat))
WORDS = np.random.default_rng(1).integers(0, 2**32, 16384, dtype=np.uint64).astype(np.uint32)


def start(program: Program, heap: np.ndarray, **variables: np.ndarray) -> Machine:
    machine = Machine(program)
    machine.write_mram(program.symbols[MRAM_HEAP][0] - MRAM_BASE, heap)
    for name, value in variables.items():
        machine.write_wram(program.symbols[name][0], np.ascontiguousarray(value))
    machine.boot()
    return machine


def run_both(*arguments: object, **variables: np.ndarray) -> float:
    """Run both ways, hold the memories equal, return by how many percent the fast run's cycles are off."""
    (fast, quick), (exact, slow) = (run(start(*arguments, **variables), mode) for mode in ("fast", "exact"))
    assert fast.wram == exact.wram
    assert fast.read_mram(0, 1 << 20) == exact.read_mram(0, 1 << 20)
    assert (quick.dma_cycles == slow.dma_cycles).all()
    return 100 * (quick.cycles / slow.cycles - 1)


def run(machine: Machine, mode: str) -> tuple[Machine, RunStats]:
    (stats,) = run_machines([machine], threads=1, mode=mode)
    assert machine.fault is None, str(machine.fault)
    return machine, stats


def check(title: str, rows: dict[str, list[float]], columns: tuple) -> None:
    """Print the deviations and hold them to the bar."""
    lines = [f"\n{title}, cycles of the fast run against the exact one in percent"]
    lines.append(" " * 36 + "".join(f"{column:>12}" for column in columns))
    lines += [f"{name:36}" + "".join(f"{value:12.2f}" for value in row) for name, row in rows.items()]
    print("\n".join(lines))
    beyond = {name: row for name, row in rows.items() if max(map(abs, row)) > BAR}
    assert not beyond


@pytest.fixture(scope="module")
def programs() -> dict[int, Program]:
    source = Path(__file__).with_name("agreement.c")
    return {n: load_program(compile_kernel(source, nr_tasklets=n, stack_size=512)) for n in TASKLETS}


def test_kernels_of_several_tasklets(programs):
    rows = {
        name: [run_both(programs[n], WORDS, kernel=np.uint32(number)) for n in TASKLETS]
        for name, number in KERNELS.items()
    }
    check("Tasklets", rows, TASKLETS)


def learner_deviation(learner: Learner, agents: int | None) -> float:
    """Return the deviation on one DPU with the single-agent kernel, or with so many agents."""
    data = collect("frozenlake", 800, seed=3)
    problem = Problem(learner, data.n_states, data.n_actions)
    shares = split(data, learner, agents or 1)
    args = learner.arguments(shares.lengths, random_states(0, shares.numbers))
    args["episodes"] = 3
    if agents is None:
        program = load_program(compile_learner(problem, for_hardware=False))
        return run_both(program, shares.records, args=args)
    program = load_program(compile_agents(problem, agents, for_hardware=False))
    return run_both(program, shares.records, args=args, first=shares.starts[:-1].astype(np.uint32))


def test_learners():
    rows = {}
    for algorithm, sampling in itertools.product(Algorithm, (Sampling.SEQ, Sampling.STR, Sampling.RAN)):
        rows[f"{algorithm} {sampling}"] = [
            learner_deviation(Learner(algorithm, sampling, number_format), None)
            for number_format in NumberFormat
        ]
    check("Learners, one tasklet", rows, tuple(NumberFormat))


def test_agents():
    rows = {
        f"{sampling} {number_format}": [
            learner_deviation(Learner("q_learning", sampling, number_format), n) for n in (4, 16)
        ]
        for sampling, number_format in (("SEQ", "INT32"), ("RAN", "INT32"), ("SEQ", "FP32"))
    }
    check("Agents, one a tasklet", rows, (4, 16))


def check_counted(name: str, at_once: Machine, single: Machine) -> None:
    """Hold an exact run to one that never does two instructions at once."""
    (stats,), (counted, counts) = run_machines([at_once], mode="exact"), run_counted(single)
    assert at_once.fault is single.fault is None
    assert at_once.wram == single.wram, name
    assert at_once.read_mram(0, 1 << 20) == single.read_mram(0, 1 << 20), name
    for field in dataclasses.fields(RunStats):
        assert np.array_equal(getattr(stats, field.name), getattr(counted, field.name)), (name, field.name)
    assert counts.sum() == stats.instructions.sum(), name


@pytest.mark.parametrize("tasklets", TASKLETS)
def test_steps_taken_at_once_are_the_same_as_one_by_one(programs, tasklets):
    """The exact run executes at once what others cannot notice; the counting run never does."""
    for name, number in KERNELS.items():
        machines = (start(programs[tasklets], WORDS, kernel=np.uint32(number)) for _ in range(2))
        check_counted(name, *machines)


@pytest.mark.parametrize(
    ("sampling", "number_format"),
    [
        ("SEQ", "FP32"),
        ("RAN", "INT32"),
        *(pytest.param("RAN", name, marks=pytest.mark.slow) for name in ("FP32", "INT32_POW2")),
        *(pytest.param("SEQ", name, marks=pytest.mark.slow) for name in ("INT32", "INT32_POW2")),
    ],
)
@pytest.mark.parametrize("tasklets", [1, 9, 11, 12, 23])
def test_agents_steps_taken_at_once_are_the_same_as_one_by_one(tasklets, sampling, number_format):
    data = collect("frozenlake", 800, seed=3)
    learner = Learner("q_learning", sampling, number_format)
    problem = Problem(learner, data.n_states, data.n_actions)
    shares = split(data, learner, tasklets)
    args = learner.arguments(shares.lengths, random_states(0, shares.numbers))
    args["episodes"] = 3
    program = load_program(compile_agents(problem, tasklets, for_hardware=False))
    first = shares.starts[:-1].astype(np.uint32)
    check_counted("agents", *(start(program, shares.records, args=args, first=first) for _ in range(2)))


@pytest.mark.parametrize("tasklets", [1, 8, 16])
def test_a_budget_ends_an_exact_run_at_the_same_instruction(programs, tasklets):
    number = np.uint32(KERNELS["updates, nothing shared"])
    machines = [start(programs[tasklets], WORDS, kernel=number) for _ in range(2)]
    (stats,) = run_machines(machines[:1], mode="exact", instruction_budget=5_000)
    counted, _ = run_counted(machines[1], 5_000)
    assert machines[0].fault.code == machines[1].fault.code == 26
    assert stats.instructions.sum() + stats.stalls.sum() == 5_001
    assert (stats.instructions + stats.stalls == counted.instructions + counted.stalls).all()
    assert stats.cycles == counted.cycles
    assert machines[0].wram == machines[1].wram


LONG_STEPS = """
#include <defs.h>
#include <stdint.h>
#include <string.h>
#include <mram.h>
__host uint32_t n, copied; __host double value[NR_TASKLETS], one[NR_TASKLETS];
__mram_noinit uint8_t data[12 << 20];
volatile uint32_t w[NR_TASKLETS];
#define TEN(x) x x x x x x x x x x
int main(void) {
  uint32_t id = me();
  for (uint32_t i = 0; i < n; i++) w[id] += i;
  if (copied && id == 0) memcpy((void *)(uintptr_t)(data + (6 << 20)), (void *)(uintptr_t)data, copied);
  double x = value[id], y = one[id];
  TEN(TEN(TEN(x = x / y;)))
  value[id] = x;
  return 0;
}
"""


@pytest.mark.parametrize(("tasklets", "n", "copied"), [(24, 250_000, 0), (1, 1000, 5 << 20)])
def test_steps_that_take_long(tmp_path, tasklets, n, copied):
    """Near the end of a stretch of 2^25 cycles: a thousand divisions in a row, a copy of megabytes."""
    source = tmp_path / "kernel.c"
    source.write_text(LONG_STEPS)
    program = load_program(compile_kernel(source, nr_tasklets=tasklets, stack_size=256))
    variables = {"n": np.uint32(n), "copied": np.uint32(copied)}
    variables |= {"value": np.full(tasklets, 3.0), "one": np.ones(tasklets)}
    machines = [start(program, WORDS[:2], **variables) for _ in range(2)]
    check_counted("long steps", *machines)


DIVISION = """
#include <defs.h>
#include <stdint.h>
__host uint32_t a = 7, b, out[NR_TASKLETS];
int main(void) {
  uint32_t x = a + me(), y = b, s = 0;
  for (uint32_t i = 0; i < 5; i++) s += x ^ i;
  s += x;
  uint32_t z = s / y;
  out[me()] = z + s;
  return 0;
}
"""


def test_a_fault_comes_at_the_same_instruction(tmp_path):
    source = tmp_path / "kernel.c"
    source.write_text(DIVISION)
    program = load_program(compile_kernel(source, nr_tasklets=2))
    at_once, single, fast = (start(program, WORDS[:2]) for _ in range(3))
    (stats,), (counted, _) = run_machines([at_once], mode="exact"), run_counted(single)
    run_machines([fast])
    assert at_once.fault == single.fault == fast.fault
    assert at_once.fault.code == 2
    assert stats.cycles == counted.cycles
    assert (stats.instructions == counted.instructions).all()
