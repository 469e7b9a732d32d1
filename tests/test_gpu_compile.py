"""The GPU's kernels compile for real GPUs, and the machine code keeps the bits' promise. NVRTC needed, but no GPU."""

import itertools
import re

import pytest

from swiftrl_core.backend import Problem
from swiftrl_core.backends.gpu import kernels
from swiftrl_core.backends.gpu.kernels import Tables
from swiftrl_core.learner import Algorithm, Learner, NumberFormat, Sampling
from swiftrl_core.util.errors import CompileError

pytestmark = pytest.mark.skipif(kernels.nvrtc_reason() is not None, reason=f"{kernels.nvrtc_reason()}")

VARIANTS = list(itertools.product(Algorithm, Sampling, NumberFormat))
GENERATIONS = ["80", "90"]
KERNELS = {"train", "start_tables", "lay_out_records", "gather_tables", "sum_segments", "mean"}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("algorithm", "sampling", "number_format"), VARIANTS)
def test_every_variant_compiles_to_strict_ieee(algorithm, sampling, number_format, generation):
    problem = Problem(Learner(algorithm, sampling, number_format), 16, 4)
    ptx = ptx_of(problem, Tables.IN_SHARED_MEMORY, generation)
    assert f".target sm_{generation}" in ptx
    assert set(re.findall(r"\.entry (\w+)\(", ptx)) >= KERNELS
    assert_strict(ptx)
    assert bool(re.search(r"\bmul\.rn\.f32\b", ptx)) == (number_format == "FP32"), (
        "the update is single precision"
    )


@pytest.mark.parametrize("number_format", NumberFormat)
@pytest.mark.parametrize("bootstrap", ["current", "frozen"])
@pytest.mark.parametrize(
    ("update", "schedule"), [("vr", "constant"), ("vr", "rescaled_linear"), ("td", "rescaled_linear")]
)
def test_choices_beyond_the_paper_compile_to_strict_ieee(number_format, update, schedule, bootstrap):
    learner = Learner(
        number_format=number_format, update=update, alpha_schedule=schedule, bootstrap=bootstrap
    )
    assert_strict(ptx_of(Problem(learner, 16, 4), Tables.IN_GLOBAL_MEMORY, "90"))


@pytest.mark.parametrize("tables", Tables)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_home_of_the_tables_compiles_to_machine_code(tables, generation):
    problem = Problem(Learner("sarsa"), 500, 6)
    assert kernels.compile_kernels(problem, tables, f"sm_{generation}").startswith(b"\x7fELF")
    ptx = ptx_of(problem, tables, generation)
    assert_strict(ptx)
    train = ptx[ptx.index(".entry train(") :].split(".entry", 2)[1]
    assert ("st.shared.f32" in train) == (tables == Tables.IN_SHARED_MEMORY)
    assert ("atom.global.cas" in train) == (tables == Tables.ONE_FOR_ALL)


def test_a_record_is_one_load():
    """Of 8 bytes, through the cache for read-only data."""
    problem = Problem(Learner(), 16, 4)
    train = ptx_of(problem, Tables.IN_SHARED_MEMORY, "90").split(".entry train(")[1].split(".entry")[0]
    assert re.search(r"ld\.global\.nc\.(b64|u64|v2)", train)


def test_strictness_is_seen_where_it_is_missing(monkeypatch):
    """With contraction allowed, the same source does fuse: the assertion above has something to find."""
    monkeypatch.setattr(kernels, "IEEE_OPTIONS", ("--fmad=true", "--ftz=true"))
    with pytest.raises(AssertionError):
        assert_strict(ptx_of(Problem(Learner(), 16, 4), Tables.IN_SHARED_MEMORY, "90"))


def test_numbers_agree_with_the_sources():
    text = (kernels.FOLDER / "tile.h").read_text() + (kernels.FOLDER / "mean.cu").read_text()
    defined = {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)$", text, re.M)}
    assert defined["LANES"] == kernels.LANES
    assert defined["SEGMENT_CORES"] == kernels.SEGMENT_CORES
    names = ["TABLES_IN_SHARED_MEMORY", "TABLES_IN_GLOBAL_MEMORY", "TABLES_ONE_FOR_ALL"]
    assert [defined[name] for name in names] == [0, 1, 2]
    assert [tables.name for tables in Tables] == [name.removeprefix("TABLES_") for name in names]


def test_a_failure_carries_the_compilers_words(monkeypatch):
    monkeypatch.setattr(kernels, "SOURCE", '#include "absent.cu"\n')
    with pytest.raises(CompileError, match=r"do not compile for sm_90: .*absent\.cu"):
        kernels.compile_kernels(Problem(Learner(), 16, 4), Tables.ONE_FOR_ALL, "sm_90")


def test_machine_code_is_cached_under_all_that_decides_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SWIFTRL_CACHE", str(tmp_path))
    small, large = Problem(Learner(), 16, 4), Problem(Learner(), 64, 4)
    first = kernels.cubin(small, Tables.ONE_FOR_ALL, "sm_90")
    monkeypatch.setattr(kernels, "compile_kernels", lambda *_: b"another")
    assert kernels.cubin(small, Tables.ONE_FOR_ALL, "sm_90") == first
    assert first.read_bytes().startswith(b"\x7fELF")
    others = [(large, Tables.ONE_FOR_ALL, "sm_90"), (small, Tables.IN_GLOBAL_MEMORY, "sm_90")]
    assert all(kernels.cubin(*other).read_bytes() == b"another" for other in others)


def ptx_of(problem, tables, generation):
    return kernels.compile_kernels(problem, tables, f"compute_{generation}").decode()


def assert_strict(ptx):
    """Fused or flushing arithmetic, or arithmetic that the driver's assembler may fuse, which is any without `.rn`."""
    assert not re.findall(r"\bfma\.\S+", ptx)
    assert ".ftz" not in ptx
    assert not re.findall(r"^\s*(?:@!?%\w+\s+)?(?:add|sub|mul)\.f(?:32|64)\b", ptx, re.M)
    assert ".approx" not in ptx
