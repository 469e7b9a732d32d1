"""The package as others get it: dependencies, conda environment, wheel, make targets."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())

CONDA_NAMES = {
    "cupy-cuda13x": "cupy",  # conda chooses the CUDA version by itself
    "nvidia-cuda-nvrtc": "cuda-nvrtc",
    "matplotlib": "matplotlib-base",  # conda-forge's `matplotlib` adds a Qt that no notebook needs
}
"""Where conda-forge calls a PyPI package something else."""

ONLY_CONDA = {"python": PROJECT["requires-python"], "pip": None}
"""What a conda environment must list and a pyproject.toml cannot: the interpreter, and what reads the pip section."""

KERNELS_AND_SIMULATOR = (
    "dpu_src/layout.h",
    "dpu_src/learner.c",
    "dpu_src/td_update.h",
    "swiftrl_core/backends/cpu/engine.c",
    "swiftrl_core/dpusim/machine/costs.h",
    "swiftrl_core/dpusim/program/include/mram.h",
    "swiftrl_core/dpusim/program/link.ld",
    "swiftrl_core/dpusim/machine/machine.c",
    "swiftrl_core/dpusim/program/runtime.S",
    "swiftrl_core/dpusim/program/runtime.c",
)
"""Some of what the package compiles where it runs; the test compares the rest with the tree."""


def project_requirements() -> dict[str, str]:
    """Every requirement of pyproject.toml, extras included: name to sorted version bounds."""
    texts = [
        *PROJECT["dependencies"],
        *(t for extra in PROJECT["optional-dependencies"].values() for t in extra),
    ]
    return {canonicalize_name(r.name): bounds(str(r.specifier)) for r in map(Requirement, texts)}


def conda_specs() -> list[str]:
    return [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)]


def pip_section() -> list[str]:
    (section,) = (entry["pip"] for entry in ENVIRONMENT["dependencies"] if isinstance(entry, dict))
    return section


def environment_requirements() -> dict[str, str]:
    """Every requirement of environment.yml under its PyPI name."""
    pypi_names = {conda: pypi for pypi, conda in CONDA_NAMES.items()}
    found = {}
    for spec in conda_specs():
        name, _, versions = spec.partition(" ")
        found[pypi_names.get(name, name)] = bounds(versions)
    for text in pip_section():
        if text != "-e .":
            requirement = Requirement(text)
            found[canonicalize_name(requirement.name)] = bounds(str(requirement.specifier))
    return found


def bounds(versions: str) -> str:
    return ",".join(sorted(versions.replace(" ", "").split(",")))


def test_conda_environment_and_pyproject_ask_for_the_same_versions():
    found = environment_requirements()
    for name, versions in ONLY_CONDA.items():
        asked = found.pop(name)
        assert versions is None or asked == bounds(versions)
    assert found == project_requirements()


def test_names_in_the_conda_map_are_used_under_their_conda_name_only():
    names = {spec.split()[0] for spec in conda_specs()}
    assert set(CONDA_NAMES.values()) <= names
    assert not set(CONDA_NAMES) & names


def test_conda_environment_installs_the_clone_itself_and_only_from_conda_forge():
    assert pip_section()[-1] == "-e ."
    assert ENVIRONMENT["name"] == PROJECT["name"]
    assert ENVIRONMENT["channels"] == ["conda-forge", "nodefaults"]


@pytest.mark.parametrize("spec", conda_specs())
def test_conda_spec_is_strictly_valid_and_bounded_the_plain_way(spec):
    assert re.fullmatch(r"[a-z0-9-]+ >=\d+(\.\d+)*(,<\d+(\.\d+)*)?", spec), "write `name >=12,<13`"
    rattler = pytest.importorskip(
        "rattler", reason="py-rattler, which reads conda's version specs, is not installed"
    )
    assert str(rattler.MatchSpec(spec, strict=True)) == spec


@pytest.mark.parametrize(("name", "versions"), project_requirements().items())
def test_requirement_has_a_lower_bound_or_a_pin(name, versions):
    assert versions.startswith("==") or ">=" in versions


def test_compiler_is_pinned_to_one_version():
    assert project_requirements()["ziglang"] == "==0.15.2"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(ROOT),
        "--no-deps",
        "--no-build-isolation",
        "--quiet",
    ]
    done = subprocess.run([*command, "--wheel-dir", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("swiftrl-*.whl")
    return built


def test_wheel_carries_every_source_of_the_tree(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert set(KERNELS_AND_SIMULATOR) <= names
    shipped = (ROOT / package for package in ("swiftrl_core", "dpu_src"))
    files = (path for folder in shipped for path in folder.rglob("*") if path.is_file())
    suffixes = {".py", ".c", ".h", ".S", ".ld", ".cu"}
    expected = {path.relative_to(ROOT).as_posix() for path in files if path.suffix in suffixes}
    assert expected <= names


def test_wheel_carries_nothing_else(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"swiftrl_core", "dpu_src"}


def test_unpacked_wheel_trains_on_simulated_dpus_from_its_own_sources(wheel, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    environment = os.environ | {"PYTHONPATH": str(site), "SWIFTRL_CACHE": str(tmp_path / "cache")}

    def python(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=work, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kernels = python("-c", "from swiftrl_core.learner import layout; print(layout.KERNEL_DIRECTORY)").strip()
    assert Path(kernels) == site / "dpu_src"
    cli = ("-m", "swiftrl_core.cli")
    python(*cli, "collect", "--env", "frozenlake", "--transitions", "500", "--out", "lake.parquet")
    schedule = ("--dpus", "2", "--episodes", "2", "--tau", "1")
    python(*cli, "train", "--data", "lake.parquet", "--backend", "pim", *schedule, "--out", "run")
    assert np.load(work / "run" / "q_table.npy").shape == (16, 4)
    bench = [sys.executable, *cli, "bench"]
    done = subprocess.run(bench, capture_output=True, text=True, cwd=work, env=environment)
    assert done.returncode == 1
    assert "run `swiftrl bench` from a clone" in done.stderr
    assert done.stderr.count("\n") == 1


def test_console_script_is_the_command_line():
    from swiftrl_core.cli import main

    (script,) = entry_points(group="console_scripts", name="swiftrl")
    assert script.load() is main


def make(*arguments: str) -> subprocess.CompletedProcess:
    """Run make as a user would, also when make runs these tests and hands down its own flags."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=environment)


def make_targets() -> set[str]:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    return set(phony.split())


def test_make_help_lists_every_target():
    done = make("help")
    assert set(re.findall(r"^  make (\S+)", done.stdout, re.M)) == make_targets()


def test_make_refuses_an_old_python_in_one_sentence(tmp_path):
    old = tmp_path / "python3"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 10, 0); $2"\n')
    old.chmod(0o755)
    done = make("run", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert "swiftrl needs Python >= 3.11" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_readme_names_only_make_targets_that_exist():
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)(?=`|$|\s+#)", text, re.M))
    assert {"run", "test", "lab"} <= named <= make_targets()


def test_ci_runs_the_command_that_the_readme_names():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "make test"
    assert "make test" in (ROOT / "README.md").read_text()


def test_license_is_the_one_the_metadata_names():
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
