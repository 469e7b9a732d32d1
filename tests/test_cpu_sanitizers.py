"""The C code of the CPU backends and of the host under sanitizers: undefined behaviour, addresses, data races."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swiftrl_core.backends.cpu.backend import FOLDER
from swiftrl_core.backends.pim import dealing
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.training import aggregation, counting

TESTS = Path(__file__).parent
ENGINE_SOURCES = [
    TESTS / "sanitize_cpu.c",
    FOLDER / "engine.c",
    FOLDER / "scalar.c",
    FOLDER / "shared.c",
]
AGENTS_SOURCES = [TESTS / "sanitize_agents.c", FOLDER / "agents.c"]
HOST_SOURCES = [TESTS / "sanitize_host.c", dealing.SOURCE, counting.SOURCE, aggregation.SOURCE]
ZIG = [sys.executable, "-m", "ziglang", "cc"]
ENGINE = {
    "q_learning-SEQ-INT32-early": dict(ALGORITHM=0, SAMPLING=0, NUMBER_FORMAT=1, EARLY_EXIT=1, N_ACTIONS=6),
    "q_learning-STR-INT32_POW2": dict(ALGORITHM=0, SAMPLING=1, NUMBER_FORMAT=2, EARLY_EXIT=0, N_ACTIONS=4),
    "sarsa-RAN-FP32": dict(ALGORITHM=1, SAMPLING=2, NUMBER_FORMAT=0, EARLY_EXIT=0, N_ACTIONS=11),
    "vr-RAN-INT32": dict(ALGORITHM=0, SAMPLING=2, NUMBER_FORMAT=1, EARLY_EXIT=0, N_ACTIONS=6, UPDATE=1),
    "frozen-vr-SEQ-INT32-early": dict(
        ALGORITHM=0, SAMPLING=0, NUMBER_FORMAT=1, EARLY_EXIT=1, N_ACTIONS=6, UPDATE=1, BOOTSTRAP=1
    ),
    "frozen-SEQ-FP32": dict(ALGORITHM=0, SAMPLING=0, NUMBER_FORMAT=0, EARLY_EXIT=0, N_ACTIONS=4, BOOTSTRAP=1),
    "sarsa-SEQ-INT32": dict(ALGORITHM=1, SAMPLING=0, NUMBER_FORMAT=1, EARLY_EXIT=0, N_ACTIONS=4),
}

AGENTS = {
    "agents-SEQ-FP32": dict(ALGORITHM=0, SAMPLING=0, NUMBER_FORMAT=0, N_ACTIONS=4),
    "agents-STR-INT32": dict(ALGORITHM=0, SAMPLING=1, NUMBER_FORMAT=1, N_ACTIONS=11),
    "agents-SEQ-INT32_POW2": dict(ALGORITHM=0, SAMPLING=0, NUMBER_FORMAT=2, N_ACTIONS=1),
}

HOST = {
    "host-FP32": dict(NUMBER_FORMAT=0, VALUE="float", SUM="double"),
    "host-INT32": dict(NUMBER_FORMAT=1, VALUE="int32_t", SUM="int64_t"),
}

pytestmark = pytest.mark.slow


def of(builds):
    """Each of some builds in turn."""
    return pytest.mark.parametrize("build", builds.values(), ids=builds)


def sources_of(build):
    if build in HOST.values():
        return HOST_SOURCES
    return AGENTS_SOURCES if build in AGENTS.values() else ENGINE_SOURCES


def run(compiler, build, flags, folder):
    """Build and run the harness; skip where this compiler has no such sanitizer."""
    program = folder / "sanitized"
    switches = [f"-D{name}={value}" for name, value in (build | {"N_STATES": 9}).items()]
    command = [*compiler, "-O1", "-g", "-std=c11", "-ffp-contract=off", "-pthread", f"-I{KERNEL_DIRECTORY}"]
    command += [*flags, *switches, *map(str, sources_of(build)), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and ("unsupported" in built.stderr or "cannot find" in built.stderr):
        pytest.skip(f"{compiler[-1]} has no {flags[0]}: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-3000:]}"
    assert done.stderr == ""


@of(ENGINE | AGENTS | HOST)
def test_no_undefined_behaviour(build, tmp_path):
    run(ZIG, build, ["-fsanitize=undefined", "-fsanitize-trap=undefined", "-mcpu=native"], tmp_path)


@of(ENGINE | AGENTS | HOST)
def test_no_address_out_of_bounds(build, tmp_path):
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("AddressSanitizer needs gcc or clang: ziglang comes without its runtime")
    run(
        [compiler],
        build,
        ["-fsanitize=address,undefined", "-fno-sanitize-recover", "-march=native"],
        tmp_path,
    )


@of(ENGINE)
def test_no_data_race(build, tmp_path):
    run(ZIG, build, ["-fsanitize=thread", "-mcpu=native"], tmp_path)
