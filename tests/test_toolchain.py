"""The compiler's cache: where it lies, and that damage to it is mended. Stand-ins take the compiler's place."""

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from swiftrl_core.dpusim.machine import launch
from swiftrl_core.dpusim.program.compile import _dependencies
from swiftrl_core.sweeps.executors import processes
from swiftrl_core.util import toolchain
from swiftrl_core.util.errors import CompileError

COMPILER = """
import os, sys
keys = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
open(sys.argv[-1], "w").write(" ".join(os.environ[key] for key in keys))
open("calls", "a").write("x")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SWIFTRL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def build(inputs=()) -> Path:
    return toolchain.build([sys.executable, "-c", COMPILER], inputs, "product.so", version="1")


def test_the_compiler_keeps_its_own_cache_below_ours(folder):
    assert build().read_text() == f"{folder / 'cache/zig'} {folder / 'cache/zig'}"


@pytest.mark.parametrize("content", [b"", b"half"])
@pytest.mark.parametrize("name", ["product.so", "product.so.sha256"])
def test_a_damaged_product_is_built_again(folder, name, content):
    product = build()
    before = product.read_bytes()
    assert build() == product
    assert (folder / "calls").read_text() == "x"
    product.with_name(name).write_bytes(content)
    assert build().read_bytes() == before
    assert build() == product
    assert (folder / "calls").read_text() == "xx"


def test_a_damaged_cache_of_the_compiler_is_emptied_once(folder):
    zig = folder / "cache/zig"
    zig.mkdir(parents=True)
    fails = "import os, sys; open('calls', 'a').write('x'); sys.exit(os.environ['ZIG_LOCAL_CACHE_DIR'] + ' is bad')"
    heals = f"import os\nif os.path.exists({str(zig)!r}): {fails}\nopen(sys.argv[-1], 'w')"
    assert toolchain.build([sys.executable, "-c", f"import sys\n{heals}"], (), "a.so", version="1").is_file()
    with pytest.raises(CompileError, match="is bad"):
        toolchain.build([sys.executable, "-c", fails], (), "b.so", version="1")
    assert (folder / "calls").read_text() == "xxx"


def test_without_a_home_folder_the_variable_is_named(monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("SWIFTRL_CACHE")
    with pytest.raises(CompileError, match=r"no home folder: set SWIFTRL_CACHE"):
        toolchain.cache_directory()


@pytest.mark.parametrize("letter", '%"\\')
def test_a_letter_that_the_compiler_garbles_is_named(folder, monkeypatch, letter):
    monkeypatch.setenv("SWIFTRL_CACHE", str(folder / f"a{letter}b"))
    with pytest.raises(CompileError) as caught:
        build()
    assert f"whose name has a {letter}: choose another folder" in str(caught.value)


def test_headers_are_found_in_a_folder_of_any_name(folder):
    odd = folder / "a b's é $x,(1) #&;*%p"
    odd.mkdir()
    header, source = odd / "it's.h", odd / "kernel.c"
    header.write_text("")
    source.write_bytes(b'#include "it\'s.h"\nchar *latin = "\xe9";\n')
    assert set(_dependencies(source, [])) == {header, source}


def test_threads_are_those_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 5, 8})
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert toolchain.available_threads() == 3
    assert processes.Processes().workers == 3
    with (
        patch.object(launch, "ThreadPoolExecutor", side_effect=InterruptedError) as pool,
        pytest.raises(InterruptedError),
    ):
        launch.run_machines([SimpleNamespace(sanitize=False)] * 9)
    assert pool.call_args.args == (3,)
