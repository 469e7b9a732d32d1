"""Translated programs leave behind what interpreted ones do: memory, time, counts, faults, to the last of each."""

import dataclasses
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_dpusim_agreement import KERNELS, WORDS, start
from test_dpusim_machine import FAULTS, PRELUDE, faulty  # noqa: F401 (a fixture)

from swiftrl_core.backend import Problem
from swiftrl_core.backends.pim.kernels import compile_agents, compile_learner
from swiftrl_core.data import collect
from swiftrl_core.dpusim.machine import Machine, RunStats, run_machines, translate
from swiftrl_core.dpusim.machine import prepared as dpu
from swiftrl_core.dpusim.program.compile import compile_kernel
from swiftrl_core.dpusim.program.elf import Program, load_program
from swiftrl_core.dpusim.program.lower import lower
from swiftrl_core.dpusim.program.rv32 import Op
from swiftrl_core.dpusim.program.translate import Translation, compile_translation
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling, random_states
from swiftrl_core.learner.chunks import split
from swiftrl_core.util.errors import CompileError


@pytest.fixture(scope="module")
def translated(tmp_path_factory):
    """Return a function that copies a program and translates the copy; the given one stays interpreted."""

    def translate_copy(program: Program) -> Program:
        copy = load_program(shutil.copy(program.path, tmp_path_factory.mktemp("copy")))
        translate(copy)
        return copy

    return translate_copy


def check(what: object, interpreted: Machine, compiled: Machine, **arguments: int) -> RunStats:
    """Run both and hold them equal."""
    one, two = run_machines([interpreted, compiled], threads=1, **arguments)
    assert interpreted.fault == compiled.fault, what
    for field in dataclasses.fields(RunStats):
        assert np.array_equal(getattr(one, field.name), getattr(two, field.name)), (what, field.name)
    assert interpreted.wram == compiled.wram, what
    assert interpreted.read_mram(0, 1 << 20) == compiled.read_mram(0, 1 << 20), what
    assert interpreted.log_text() == compiled.log_text(), what
    return one


@pytest.mark.parametrize("tasklets", [1, pytest.param(11, marks=pytest.mark.slow), 16])
def test_kernels_of_several_tasklets(translated, tasklets):
    source = Path(__file__).with_name("agreement.c")
    program = load_program(compile_kernel(source, nr_tasklets=tasklets, stack_size=512))
    programs = program, translated(program)
    for name, number in KERNELS.items():
        check(name, *(start(each, WORDS, kernel=np.uint32(number)) for each in programs))


CASES = [
    *((Algorithm.Q_LEARNING, Sampling.SEQ, number_format, None) for number_format in NumberFormat),
    *((Algorithm.SARSA, Sampling.RAN, number_format, None) for number_format in NumberFormat),
    (Algorithm.Q_LEARNING, Sampling.SEQ, NumberFormat.INT32, 16),
    (Algorithm.SARSA, Sampling.RAN, NumberFormat.FP32, 3),
    *(
        pytest.param(*variant, number_format, None, marks=pytest.mark.slow)
        for variant in ((Algorithm.Q_LEARNING, Sampling.RAN), (Algorithm.SARSA, Sampling.SEQ))
        for number_format in NumberFormat
    ),
]


@pytest.mark.parametrize(("algorithm", "sampling", "number_format", "agents"), CASES)
def test_learners(translated, algorithm, sampling, number_format, agents):
    learner = Learner(algorithm, sampling, number_format)
    data = collect("frozenlake", 800, seed=3)
    problem = Problem(learner, data.n_states, data.n_actions)
    shares = split(data, learner, agents or 1)
    args = learner.arguments(shares.lengths, random_states(0, shares.numbers))
    args["episodes"] = 5
    variables = {"args": args}
    path = compile_learner(problem, for_hardware=False)
    if agents:
        path = compile_agents(problem, agents, for_hardware=False)
        variables["first"] = shares.starts[:-1].astype(np.uint32)
    program = load_program(path)
    stats = check(
        learner, *(start(each, shares.records, **variables) for each in (program, translated(program)))
    )
    assert stats.instructions.sum() > 800 * 5 * 20


@pytest.fixture(scope="module")
def faulty_and_translated(faulty, translated) -> tuple[Program, Program]:  # noqa: F811
    program = load_program(faulty)
    return program, translated(program)


@pytest.mark.parametrize("what", FAULTS)
def test_faults(faulty_and_translated, what):
    machines = [Machine(program) for program in faulty_and_translated]
    for machine in machines:
        machine.write_wram(machine.program.symbols["which"][0], np.uint32(list(FAULTS).index(what)))
        machine.boot()
    check(what, *machines, instruction_budget=10**6)
    assert machines[0].fault.code == FAULTS[what][0]


CALLS = """
__host uint32_t n, out[NR_TASKLETS]; __mram_noinit uint32_t far[64];
static __attribute__((noinline)) uint32_t twice(uint32_t x) { return 2 * x + 1; }
static __attribute__((noinline)) uint32_t apart(uint32_t x) { far[x & 63] = x; return far[x & 63] - (int8_t)x; }
static __attribute__((noinline)) uint32_t depth(uint32_t x) { return x ? depth(x / 2) + twice(x % 3) : 5; }
int main(void) {
  uint32_t (*const chosen[])(uint32_t) = {twice, apart, depth};
  uint32_t sum = 0;
  float mean = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum += chosen[i % 3](i) ^ twice(sum) / (i | 1);
    mean += mean < 3.0f ? 0.25f * (float)(i & 7) : -mean * 0.5f;
    if (i % 50 == 0) printf("%u %d\\n", sum, (int)mean);
  }
  out[me()] = sum + (uint32_t)(64 * mean);
  return 0;
}
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory, translated) -> tuple[Program, Program]:
    source = tmp_path_factory.mktemp("calls") / "kernel.c"
    source.write_text(PRELUDE + CALLS)
    program = load_program(compile_kernel(source, nr_tasklets=2))
    return program, translated(program)


@pytest.mark.parametrize("budget", [10**7, 3_001, 1_234])
def test_calls_returns_and_what_is_left_to_the_interpreter(calls, budget):
    machines = [Machine(program) for program in calls]
    for machine in machines:
        machine.write_wram(machine.program.symbols["n"][0], np.uint32(200))
        machine.boot()
    check(budget, *machines, instruction_budget=budget)
    assert (machines[0].fault is None) == (budget == 10**7)


def test_nobody_enters_where_the_interpreter_has_to_work(calls):
    ops, _ = lower(calls[0])
    translation = Translation(ops)
    left = {i for i in range(len(ops)) if f"at_{i}: LEAVE({i});" in translation.source.splitlines()}
    assert {Op(int(ops[i]["code"])) for i in left} >= {Op.EXIT, Op.LOG, Op.ILLEGAL}
    assert translation.entries
    assert not left & set(translation.entries)


def test_a_program_that_runs_for_long_is_translated(calls, tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(
        dpu, "compile_translation", lambda what: compiled.append(what) or compile_translation(what)
    )
    program = load_program(shutil.copy(calls[0].path, tmp_path))

    def once(mode: str = "fast") -> int:
        run_machines([Machine(program)], mode=mode)
        return len(compiled)

    assert once() == 0
    assert dpu.translation_seconds(program) > 0
    monkeypatch.setattr(dpu, "TRANSLATION_S", 0.0)
    assert dpu.translation_seconds(program) == 0
    assert once("exact") == 0
    assert not dpu.is_translated(program)
    assert [once() for _ in range(3)] == [1, 1, 1]
    assert dpu.is_translated(program)


def test_a_translation_that_fails_leaves_the_program_interpreted(calls, tmp_path, monkeypatch):
    def fail(_: Translation) -> Path:
        raise CompileError("translated.so does not compile: no space left")

    monkeypatch.setattr(dpu, "compile_translation", fail)
    monkeypatch.setattr(dpu, "TRANSLATION_S", 0.0)
    program = load_program(shutil.copy(calls[0].path, tmp_path))
    with pytest.warns(RuntimeWarning, match="stays interpreted, which is slower: .* no space left"):
        (stats,) = run_machines([Machine(program)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it does not try again
        (again,) = run_machines([Machine(program)])
    assert stats.cycles == again.cycles > 0
    with pytest.raises(CompileError):
        translate(program)


def test_programs_are_equal_by_name_and_content(calls, tmp_path):
    program, copy = calls[0], load_program(shutil.copy(calls[0].path, tmp_path))
    assert load_program(program.path) == program
    assert hash(load_program(program.path)) == hash(program)
    assert copy != program


NAN = """
__host uint32_t out[4];
static uint32_t bits(float f) { uint32_t b; memcpy(&b, &f, 4); return b; }
int main(void) {
  float inf = __builtin_inff(), zero = 0.0f;
  __asm__ volatile("" : "+r"(inf), "+r"(zero));
  out[0] = bits(inf * zero), out[1] = bits(inf - inf), out[2] = bits(-inf * zero), out[3] = bits(zero * inf + inf);
  for (volatile int i = 0; i < 9; i++) out[3] += bits(inf * zero);
  return 0;
}
"""


def test_a_nan_has_the_bits_that_the_processor_gives_it(tmp_path, translated):
    """The compiler of translated code, were it to see the operands, would make one of its own."""
    (tmp_path / "kernel.c").write_text(PRELUDE + NAN)
    program = load_program(compile_kernel(tmp_path / "kernel.c", nr_tasklets=1))
    check("NaN", *(start(each, WORDS[:2]) for each in (program, translated(program))))
