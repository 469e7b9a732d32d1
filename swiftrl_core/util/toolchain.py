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
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from swiftrl_core.util.errors import CompileError
from swiftrl_core.util.files import atomic_path, sha256_file

POINTER, INT64, INT32, FLOAT64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double
"""Types of C functions' arguments and results."""
HOST_FLAGS = ("-O3", "-std=c11", "-ffp-contract=off", "-fno-sanitize=all", "-fPIC", "-shared", "-Wall")


def cache_directory() -> Path:
    """Return the folder of compiled products: `$SWIFTRL_CACHE`, else the user's cache folder."""
    if named := os.environ.get("SWIFTRL_CACHE"):
        return Path(named)
    parent = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if parent.startswith("~"):
        raise CompileError("this user has no home folder: set SWIFTRL_CACHE to a folder that may be written")
    return Path(parent) / "swiftrl"


def cached(target: Path, make: Callable[[Path], object]) -> Path:
    """Return a file of the cache; where it is absent or damaged, `make` writes it to the path that it is given."""
    record = target.with_name(f"{target.name}.sha256")
    try:
        whole = record.read_text() == sha256_file(target)
    except (OSError, ValueError):
        whole = False
    if not whole:
        with atomic_path(target) as temporary:
            make(temporary)
        with atomic_path(record) as temporary:
            temporary.write_text(sha256_file(target))
    return target


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


def available_threads() -> int:
    """Return how many threads this process may run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_c(arguments: Sequence[str], inputs: Sequence[Path], product: str) -> Path:
    """Run `zig cc` as `build` runs any compiler; `arguments` include the sources, not `-o`."""
    command = [sys.executable, "-m", "ziglang", "cc", *arguments]
    return build(command, inputs, product, version=compiler_version())


def build(command: Sequence[str], inputs: Sequence[Path], product: str, *, version: str) -> Path:
    """Run a compiler once and cache its product.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments, to which `-o` and a path are added.
    inputs : sequence of Path
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
        If a folder's name has a letter that the compiler garbles, or it fails; the text ends with its output.
    """
    digest = hashlib.sha256()
    for text in (cpu_features(), version, *command):
        digest.update(text.encode() + b"\0")
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    target = cache_directory() / digest.hexdigest()[:32] / product
    for path, refused in ((target, '%"\\'), *((path, '"\\') for path in inputs)):
        if found := set(refused) & set(str(path)):
            raise CompileError(
                f"the compiler cannot use {path}, whose name has a {min(found)}: choose another folder"
            )

    def make(path: Path) -> None:
        done = run_compiler([*command, "-o", str(path)])
        if done.returncode != 0:
            raise CompileError(f"{product} does not compile: {done.stderr.strip() or done.stdout.strip()}")

    return cached(target, make)


def run_compiler(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler; `zig` keeps its own cache below ours, which is emptied once if it appears to be damaged."""
    folder = str(cache_directory() / "zig")
    environment = {"ZIG_GLOBAL_CACHE_DIR": folder, "ZIG_LOCAL_CACHE_DIR": folder, **os.environ}
    options = {"capture_output": True, "text": True, "errors": "surrogateescape"}
    for _ in range(2):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, **options)
        damaged = folder in done.stderr or "failed to check cache" in done.stderr
        if done.returncode == 0 or not damaged or "undefined symbol" in done.stderr:
            break
        shutil.rmtree(folder, ignore_errors=True)
    return done


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
    sources, headers : sequence of Path
        C files, and the files that they include; both are part of the cache's key.
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
    """Compile C sources as `compile_shared_library` does, searching the headers' folders, and load the library.

    Parameters
    ----------
    functions : mapping
        Name of each function that will be called, to the types of its result and its arguments.
    """
    folders = sorted({header.parent for header in headers})
    path = compile_shared_library(sources, headers=headers, include_directories=folders, **options)
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
