"""Compile C, for this machine and for the simulated DPU, with the compiler that pip installs.

`ziglang` is a C compiler in a wheel, so no system compiler is needed. Every product lies in a cache under a name made
from all that decides its bytes: the sources, the arguments, the compiler's version, this CPU's features.
"""

import ctypes
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from swiftrl_core.util.errors import CompileError
from swiftrl_core.util.files import atomic_path

POINTER, INT64, INT32, FLOAT64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double
"""Types of C functions' arguments and results."""
HOST_FLAGS = ("-O3", "-std=c11", "-ffp-contract=off", "-fno-sanitize=all", "-fPIC", "-shared", "-Wall")


def cache_directory() -> Path:
    """Return the folder of compiled products: `$SWIFTRL_CACHE`, else the user's cache folder."""
    named = os.environ.get("SWIFTRL_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swiftrl"


@functools.cache
def compiler_version() -> str:
    """Return the version of the installed `ziglang` wheel."""
    return importlib.metadata.version("ziglang")


@functools.cache
def cpu_features() -> str:
    """Return a text that changes when `-mcpu=native` would produce other code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    keep = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(keep)}))


def compile_c(arguments: Sequence[str], inputs: Iterable[Path], product: str) -> Path:
    """Run `zig cc` as `build` runs any compiler; `arguments` include the sources, not `-o`."""
    command = [sys.executable, "-m", "ziglang", "cc", *arguments]
    return build(command, inputs, product, version=compiler_version())


def build(command: Sequence[str], inputs: Iterable[Path], product: str, *, version: str) -> Path:
    """Run a compiler once and cache its product.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, to which `-o` and a path are added.
    inputs : iterable of Path
        Every file whose bytes decide the product: sources, headers, linker scripts.
    product : str
        File name of the product, such as `engine.so`.
    version : str
        Differs from one release of the compiler to another.

    Returns
    -------
    Path
        The product, in the cache.

    Raises
    ------
    CompileError
        If the compiler fails; the text ends with its output.
    """
    target = cache_directory() / _key([version, *command], inputs) / product
    if target.exists():
        return target
    with atomic_path(target) as temporary:
        done = subprocess.run(
            [*command, "-o", str(temporary)], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise CompileError(f"{product} does not compile: {done.stderr.strip() or done.stdout.strip()}")
    return target


def compile_shared_library(
    sources: Sequence[Path],
    *,
    headers: Sequence[Path] = (),
    include_directories: Iterable[Path] = (),
    defines: Mapping[str, object] = MappingProxyType({}),
    flags: Sequence[str] = (),
    product: str | None = None,
) -> Path:
    """Compile C sources into a shared library for this machine, tuned to its CPU and strict about IEEE floats.

    Parameters
    ----------
    sources : sequence of Path
        C files.
    headers : iterable of Path
        Files the sources include; part of the cache's key.
    include_directories : iterable of Path
        Searched for headers.
    defines : mapping
        Macros, name to value.
    flags : sequence of str
        More compiler flags.
    product : str, optional
        File name; by default the first source's, ending in `.so`.
    """
    arguments = [*HOST_FLAGS, "-mcpu=native", *(f"-I{folder}" for folder in include_directories)]
    arguments += [*(f"-D{name}={value}" for name, value in defines.items()), *flags, *map(str, sources)]
    return compile_c(arguments, [*sources, *headers], product or f"{sources[0].stem}.so")


def load_library(
    sources: Sequence[Path],
    functions: Mapping[str, tuple[type | None, Sequence[type]]],
    headers: Sequence[Path] = (),
    **options,
) -> ctypes.CDLL:
    """Compile C sources into a shared library and load it.

    Parameters
    ----------
    sources : sequence of Path
    functions : mapping
        Name of each function that will be called, to the types of its result and its arguments.
    headers : sequence of Path
        Files the sources include, whose folders are searched.
    **options
        `defines`, `flags`: see `compile_shared_library`.

    Raises
    ------
    CompileError
        If the compiler fails.
    """
    folders = sorted({header.parent for header in headers})
    path = compile_shared_library(sources, headers=headers, include_directories=folders, **options)
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _key(command: Sequence[str], inputs: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for text in (cpu_features(), *command):
        digest.update(text.encode() + b"\0")
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
