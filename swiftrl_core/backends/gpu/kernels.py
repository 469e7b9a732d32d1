"""Compile the GPU's kernels with NVRTC, which needs neither a GPU nor a driver.

Not through CuPy's `RawModule`: it adds `-ftz=true`, which would flush the subnormal values that decaying Q-values reach
and so lose the bits the other backends keep; and its cache does not see a change in an included header.
"""

import hashlib
from enum import StrEnum
from pathlib import Path

from swiftrl_core.backend import Problem
from swiftrl_core.learner.layout import KERNEL_DIRECTORY
from swiftrl_core.util.errors import CompileError
from swiftrl_core.util.toolchain import cache_directory, cached

FOLDER = Path(__file__).resolve().parent
SOURCE = '#include "learner.cu"\n#include "mean.cu"\n'
IEEE_OPTIONS = ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""One rounding for each operation and subnormals kept: what `dpu_src/td_update.h` asks of a compiler."""

READ_FROM_L2 = "--ptxas-options=--def-load-cache=cg"
"""Where all lanes share one table, they must not read it through a multiprocessor's own cache: L1 does not see what
other multiprocessors write, and a lane would keep learning from the values at the start of the launch."""

LANES = 32
"""Virtual cores in a warp, which is a block: LANES of tile.h."""

SEGMENT_CORES = 256
"""Cores in a segment of the mean: SEGMENT_CORES of mean.cu."""


class Tables(StrEnum):
    """Where a kernel keeps the cores' tables: TABLES of tile.h, in its order."""

    IN_SHARED_MEMORY = "shared memory"
    IN_GLOBAL_MEMORY = "global memory"
    ONE_FOR_ALL = "one for all"


def shared_bytes(problem: Problem) -> int:
    """Return the bytes of a block's tables: one for each of its lanes, and in a frozen bootstrap the states' values."""
    beside = problem.n_states if problem.learner.frozen_bootstrap else 0
    return LANES * (problem.entries + beside) * problem.learner.dtype.itemsize


def placement(problem: Problem, shared_limit: int) -> Tables:
    """Return where each core's own table lives: in shared memory if a block's fit into `shared_limit` bytes."""
    return Tables.IN_SHARED_MEMORY if shared_bytes(problem) <= shared_limit else Tables.IN_GLOBAL_MEMORY


def switches(problem: Problem, tables: Tables) -> list[str]:
    """Return the build switches, as compiler arguments."""
    values = problem.switches | {"TABLES": list(Tables).index(tables)}
    return [f"-D{name}={value}" for name, value in values.items()]


def options(problem: Problem, tables: Tables, target: str) -> list[str]:
    """Return all compiler arguments but the folders of headers."""
    chosen = [*IEEE_OPTIONS, "--std=c++17", f"--gpu-architecture={target}", *switches(problem, tables)]
    return [*chosen, READ_FROM_L2] if tables == Tables.ONE_FOR_ALL else chosen


def headers() -> list[Path]:
    """Return all files that decide a kernel's bytes."""
    return sorted([*KERNEL_DIRECTORY.glob("*.h"), *FOLDER.glob("*.cu"), *FOLDER.glob("**/*.h")])


def nvrtc_reason() -> str | None:
    """Return why NVRTC cannot be used here, or None."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except ImportError:
        return "cuda-bindings is not installed: pip install 'swiftrl[gpu]'"
    except RuntimeError:
        return "cuda-bindings finds no NVRTC: pip install 'swiftrl[gpu]', or install the CUDA toolkit"
    return None


def compile_kernels(problem: Problem, tables: Tables, target: str) -> bytes:
    """Return the kernels' machine code for a GPU.

    Parameters
    ----------
    problem : Problem
    tables : Tables
    target : str
        `sm_90` gives a cubin, `compute_90` PTX, and so on.

    Raises
    ------
    CompileError
        If NVRTC fails; the text ends with its output.
    """
    from cuda.bindings import nvrtc

    folders = [f"-I{folder}" for folder in (KERNEL_DIRECTORY, FOLDER, FOLDER / "nvrtc")]
    encoded = [option.encode() for option in [*options(problem, tables, target), *folders]]
    program = _checked(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"swiftrl.cu", 0, [], []))
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            message = log.rstrip(b"\0").decode().strip() or status.name
            raise CompileError(f"the GPU kernels do not compile for {target}: {message}")
        if target.startswith("compute_"):
            return _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def cubin(problem: Problem, tables: Tables, target: str) -> Path:
    """Return a file with `compile_kernels`' machine code, from the cache of compiled products."""
    from cuda.bindings import nvrtc

    decides = (nvrtc.nvrtcVersion()[1:], SOURCE, options(problem, tables, target))
    digest = hashlib.sha256(repr(decides).encode())
    for path in headers():
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    file = cache_directory() / digest.hexdigest()[:32] / f"learner.{target}.cubin"
    return cached(file, lambda path: path.write_bytes(compile_kernels(problem, tables, target)))


def _checked(answer: tuple):
    status, value = answer
    if status != type(status).NVRTC_SUCCESS:
        raise CompileError(f"NVRTC failed with {status.name}: check the installation of CUDA")
    return value


def _read(size, read, program) -> bytes:
    """Return bytes of NVRTC by its pair of functions, one for their number, one that fills a buffer."""
    buffer = bytearray(_checked(size(program)))
    read(program, buffer)
    return bytes(buffer)
