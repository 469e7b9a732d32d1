"""The C code of the CPU backends under sanitizers: undefined behaviour, addresses, data races."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swiftrl_core.cpu.backend import FOLDER
from swiftrl_core.layout import KERNEL_DIRECTORY

HARNESS = Path(__file__).parent / "sanitize_cpu.c"
SOURCES = [HARNESS, FOLDER / "engine.c", FOLDER / "scalar.c", FOLDER / "shared.c"]
ZIG = [sys.executable, "-m", "ziglang", "cc"]
BUILDS = {
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

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)]


def run(compiler, build, flags, folder):
    """Build and run the harness; skip where this compiler has no such sanitizer."""
    program = folder / "sanitized"
    switches = [f"-D{name}={value}" for name, value in (build | {"N_STATES": 9}).items()]
    command = [*compiler, "-O1", "-g", "-std=c11", "-ffp-contract=off", "-pthread", f"-I{KERNEL_DIRECTORY}"]
    command += [*flags, *switches, *map(str, SOURCES), "-o", str(program)]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and ("unsupported" in built.stderr or "cannot find" in built.stderr):
        pytest.skip(f"{compiler[-1]} has no {flags[0]}: {built.stderr.strip().splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-3000:]}"
    assert done.stderr == ""


def test_no_undefined_behaviour(build, tmp_path):
    run(ZIG, build, ["-fsanitize=undefined", "-fsanitize-trap=undefined", "-mcpu=native"], tmp_path)


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


def test_no_data_race(build, tmp_path):
    run(ZIG, build, ["-fsanitize=thread", "-mcpu=native"], tmp_path)
