"""The README, the docs and CITATION.cff: examples print what they say, commands and paths exist."""

import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import yaml

import swiftrl_core
from swiftrl_core.cli import main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
MADE = ("docs/_build", "docs/generated", "docs/notebooks", ".venv", "results/")
"""Where paths may lie that a fresh clone does not have."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE_NAME = re.compile(r"^(?:# |/\* )([\w.]+\.(?:py|c))(?: \*/)?\n")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every fenced block of a page."""
    return BLOCK.findall(page.read_text())


def programs(page: Path) -> Iterator[tuple[str, str]]:
    """Python code and what the page says that it prints; a page's blocks in order."""
    for (language, code), following in pairwise([*blocks(page), ("end", "")]):
        if language == "python" and not FILE_NAME.match(code):
            yield code, following[1] if following[0] == "" else ""


def matches(expected: str, printed: str) -> bool:
    """Whether a text is as expected, where `...` stands for anything."""
    pattern = "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", expected))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in, from which `results/reference` can be read."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "reference").symlink_to(ROOT / "results" / "reference")
    monkeypatch.chdir(tmp_path)
    return tmp_path


WITH_PROGRAMS = [page for page in PAGES if any(programs(page))]


def test_readme_simulator_and_kernel_pages_have_examples():
    named = {name_of(page) for page in WITH_PROGRAMS}
    assert {"README.md", "docs/simulator.md", "docs/your-kernel.md", "docs/your-environment.md"} <= named
    for page in (README, DOCS / "simulator.md"):
        ((code, expected),) = programs(page)
        assert len([line for line in code.splitlines() if line.strip()]) <= 11
        assert expected


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_the_programs_of_a_page_print_what_it_says(page, folder):
    for language, text in blocks(page):
        if (named := FILE_NAME.match(text)) and language in ("python", "c"):
            # A compiled kernel is cached by its text, and has the path of its source in it: so each run has its own.
            own = f"/* {folder} */\n" if language == "c" else ""
            (folder / named[1]).write_text(text + own)
    mark = "=== next ===\n"
    found = list(programs(page))
    code = f"\nprint({mark!r}, end='')\n".join(code for code, _ in found)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for (code, expected), printed in zip(found, done.stdout.split(mark), strict=True):
        assert matches(expected, printed), f"{code}\nprinted\n{printed}"


def sessions(page: Path) -> list[tuple[str, str]]:
    """Commands and their output in a page's `console` blocks, in order."""
    text = "".join(text for language, text in blocks(page) if language == "console")
    return [(entry.partition("\n")[0], entry.partition("\n")[2]) for entry in text.split("$ ")[1:]]


@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=name_of)
def test_console_sessions_print_what_the_page_says(page, folder):
    for command, expected in sessions(page):
        assert command.startswith("swiftrl ")
        arguments = command.split()[1:]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            assert main(arguments) == 0, command
        assert matches(expected.rstrip("\n"), printed.getvalue().rstrip("\n")), printed.getvalue()


def commands(page: Path) -> Iterator[str]:
    """Every `swiftrl ...` command in a page's shell blocks and between backticks, without comments."""
    shell = "".join(text for language, text in blocks(page) if language == "sh").replace("\\\n", " ")
    for line in shell.splitlines():
        if line.startswith("swiftrl "):
            yield line.partition(" #")[0].strip()
    yield from (command for command, _ in sessions(page))
    yield from re.findall(r"`(swiftrl [a-z][^`]*)`", BLOCK.sub("", page.read_text()))


def help_of(words: list[str]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0, f"there is no command swiftrl {' '.join(words)}"
    return printed.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=name_of)
def test_every_option_that_a_page_shows_exists(page):
    for command in commands(page):
        words = command.split()[1:]
        if words == ["COMMAND", "--help"]:
            continue
        known = help_of(words[: 2 if words[0] == "experiment" else 1])
        for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", command):
            assert option == "--help" or re.search(rf"{option}\b", known), f"{option} in: {command}"


# --- links, paths, names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", BLOCK.sub("", page.read_text())):
        if page.parent == DOCS and target.startswith("notebooks/"):  # the site has copies of them
            target = f"../{target}"
        assert "://" in target or (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def prose(page: Path) -> str:
    """The text of a page or a notebook, without its blocks of code."""
    if page.suffix != ".ipynb":
        return BLOCK.sub("", page.read_text())
    cells = json.loads(page.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def paths(page: Path) -> set[str]:
    """Everything between backticks that looks like a path of the repository."""
    found = re.findall(r"`([A-Za-z_.][\w./-]*)`", prose(page))
    tops = {path.name for path in ROOT.iterdir()}
    return {text for text in found if ("/" in text and text.split("/")[0] in tops) or text in tops}


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("page", [page for page in [*PAGES, *NOTEBOOKS] if paths(page)], ids=name_of)
def test_every_path_that_a_page_names_exists(page):
    missing = {
        path
        for path in paths(page)
        if not (ROOT / path).exists() and not any(path.startswith(made) for made in MADE)
    }
    assert not missing, f"{name_of(page)} names {', '.join(sorted(missing))}"


def test_every_module_that_a_page_names_can_be_imported():
    for page in PAGES:
        for name in set(re.findall(r"`(swiftrl_core(?:\.\w+)+)`", page.read_text())):
            module, _, attribute = name.rpartition(".")
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                assert hasattr(importlib.import_module(module), attribute), f"{name_of(page)} names {name}"


def test_every_page_is_in_the_contents():
    text = (DOCS / "index.md").read_text()
    listed = set(re.findall(r"^([a-z-]+)$", text, re.M))
    assert {page.stem for page in DOCS.glob("*.md")} - {"index"} == listed


def test_api_page_has_the_whole_public_face_and_every_wing():
    face, wings = (
        set(re.findall(r"^   (\w+)$", part, re.M))
        for part in (DOCS / "api.md").read_text().split("## All modules")
    )
    assert face == set(swiftrl_core.__all__) - {"__version__"}
    found = {path.stem for path in (ROOT / "swiftrl_core").iterdir() if not path.name.startswith("_")}
    assert wings == found - {"cli"}


def test_readme_is_at_most_120_lines():
    assert len(README.read_text().splitlines()) <= 120


# --- numbers ----------------------------------------------------------------------------------------------


def test_run_times_of_notebooks_are_those_of_the_reference():
    rows = re.findall(r"^\| \[(\w+)\].* \| (\d+) s \|$", (DOCS / "experiments.md").read_text(), re.M)
    assert len(rows) >= 9
    for name, seconds in rows:
        tables = (ROOT / "results" / "reference" / name).rglob("table.parquet")
        took = sum(pd.read_parquet(path, columns=["wall_seconds"])["wall_seconds"].sum() for path in tables)
        assert round(took) == int(seconds), name


# --- CITATION.cff -----------------------------------------------------------------------------------------


def test_citation_has_what_cff_1_2_0_requires_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["authors"] == [{"name": "The SwiftRL contributors"}]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    readme = " ".join(README.read_text().split())
    assert paper["doi"] in readme
    assert paper["title"] in readme
    assert f"{paper['year']}, pp. {paper['start']}-{paper['end']}" in readme
