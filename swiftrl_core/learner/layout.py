"""Constants and structs that host and kernels share, read from `dpu_src/layout.h`, where they are defined."""

import functools
import re
from pathlib import Path

import numpy as np

KERNEL_DIRECTORY = Path(__file__).resolve().parents[2] / "dpu_src"
"""Where the kernels' C sources are."""


def constant(name: str) -> int:
    """Return a `#define` of layout.h, such as `constant("DMA_BLOCK_BYTES")`.

    Raises
    ------
    KeyError
        If layout.h has no such number.
    """
    return _constants()[name]


def struct(name: str, value: np.dtype) -> np.dtype:
    """Return a struct of layout.h as a NumPy dtype.

    Parameters
    ----------
    name : str
        `transition` or `learner_args`.
    value : dtype
        The type of `value_t` in this build: float32 or int32.

    Raises
    ------
    KeyError
        If layout.h has no such struct.
    """
    kinds = {"uint32_t": np.dtype("<u4"), "int32_t": np.dtype("<i4"), "value_t": np.dtype(value)}
    return np.dtype([(member, kinds[kind]) for kind, member in _structs()[name]])


def kernel_headers() -> list[Path]:
    """Return the kernels' headers, which C for the host may include."""
    return sorted(KERNEL_DIRECTORY.glob("*.h"))


@functools.cache
def _text() -> str:
    return (KERNEL_DIRECTORY / "layout.h").read_text()


@functools.cache
def _constants() -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"^#define (\w+) (\d+)$", _text(), re.M)}


@functools.cache
def _structs() -> dict[str, list[tuple[str, str]]]:
    bodies = re.findall(r"^struct (\w+) \{(.*?)^\};", _text(), re.M | re.S)
    return {name: re.findall(r"^\s*(\w+) (\w+);$", body, re.M) for name, body in bodies}
