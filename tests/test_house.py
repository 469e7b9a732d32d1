"""The plan of the package: few rooms at the top, a core that stays thin, files that can be read in one go."""

from pathlib import Path

import pytest

import swiftrl_core
from swiftrl_core import backend
from swiftrl_core.experiments import backends as figure
from swiftrl_core.util.errors import SwiftRLError

PACKAGE = Path(swiftrl_core.__file__).parent
CORE = ("learner", "data", "training", "backend.py", "util")
"""What trains a table; every other wing can be left closed."""
MOST_CORE_LINES, MOST_LINES, MOST_ENTRIES = 4_000, 450, 12


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def python_files(entry: Path) -> list[Path]:
    return [entry] if entry.suffix == ".py" else sorted(entry.rglob("*.py"))


def test_the_core_is_thin():
    counts = {name: sum(map(lines, python_files(PACKAGE / name))) for name in CORE}
    assert sum(counts.values()) < MOST_CORE_LINES, counts


def test_no_python_file_is_long():
    long = {str(path.relative_to(PACKAGE)): lines(path) for path in python_files(PACKAGE)}
    assert not {name: count for name, count in long.items() if count > MOST_LINES}


def test_the_top_of_the_package_has_few_entries():
    entries = [path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, entries


@pytest.mark.parametrize("name", backend.BACKENDS)
def test_every_backend_has_what_the_registry_says(name):
    entry = backend.BACKENDS[name]
    chosen = backend.module(name)
    assert callable(chosen.open_backend)
    assert (backend.missing(name) or "None").endswith(str(chosen.available()))
    if entry.agents:
        assert callable(backend.module(name, agents=True).train)
    else:
        with pytest.raises(SwiftRLError, match=f"backend is '{name}': choose one of pim, cpu, gpu$"):
            backend.module(name, agents=True)
    assert entry.device in (None, "gpu", "pim")
    assert entry.own_tables or not entry.own_memories


def test_the_figure_of_all_backends_shows_those_of_the_registry():
    assert set(figure.BACKENDS) == set(backend.BACKENDS)
