"""Specifications of sweeps, YAML files that are read, checked and expanded before anything runs.

An example::

    name: lake              # optional: names the folder of results
    base: {episodes: 200, tau: 10, backend: cpu}    # settings of all runs
    grid:                   # all combinations; or a list of such grids
      environment: [frozenlake, taxi]
      cores: [125, 250]
      seed: [0, 1, 2]
    runs:                   # and, or instead, single runs
      - {environment: cliffwalking, cores: 8}

The settings are those of `Run`. An error names its line.
"""

import contextlib
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from swiftrl_core.sweeps.grid import combine, unique
from swiftrl_core.sweeps.run import Run, check_name, check_value
from swiftrl_core.util.errors import SwiftRLError
from swiftrl_core.util.files import opened

MAXIMUM_RUNS = 1_000_000


@dataclass(frozen=True)
class Spec:
    """The content of a file.

    Attributes
    ----------
    name : str
        The file's `name`, else its name without suffix.
    runs : list of Run
        Each once, grids first, in the order of the file.
    """

    name: str
    runs: list[Run]


def read(path: str | os.PathLike) -> Spec:
    """Read a specification; data files it names are relative to its own folder.

    Raises
    ------
    SwiftRLError
        Naming file and line, if it cannot be read, is not YAML, has an unknown key, a value of the wrong type, an empty
        grid, or settings that do not fit together.
    """
    path = Path(path)
    reader = _Reader(path)
    top = reader.mapping(reader.root(), "the file")
    reader.refuse_others(top, ("name", "base", "grid", "runs"))
    name = reader.folder_name(top["name"][1]) if "name" in top else path.stem
    base = reader.settings(top["base"][1], axes=False) if "base" in top else {}
    runs = []
    for grid in reader.items(top["grid"][1]) if "grid" in top else []:
        runs += reader.expand(grid, base, axes=True)
    for entry in reader.items(top["runs"][1]) if "runs" in top else []:
        runs += reader.expand(entry, base, axes=False)
    if not runs:
        raise SwiftRLError(f"{path}: there is nothing to run; give a grid, or runs")
    return Spec(name, unique(runs))


class _Loader(yaml.SafeLoader):
    """Reads values; refuses numbers in YAML's octal and base-60 forms, which are seldom meant."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        _require_decimal(node, r"[-+]?0[0-9_]|.*:")
        return super().construct_yaml_int(node)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        _require_decimal(node, ".*:")
        return super().construct_yaml_float(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def _require_decimal(node: yaml.ScalarNode, others: str) -> None:
    if re.match(others, node.value):
        problem = f"{node.value} is octal or base 60 in YAML: write a decimal number, without leading zeros"
        raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


class _Reader:
    """Reads the nodes of one YAML file, which carry their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loader = _Loader("")

    def root(self) -> yaml.Node:
        try:
            with opened(self._path) as stream:
                node = yaml.compose(stream.read().decode(), Loader=_Loader)
        except RecursionError as error:
            raise SwiftRLError(f"{self._path}: the lists are nested too deeply; correct it") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark else ""
            problem = getattr(error, "problem", None) or error
            raise SwiftRLError(f"{self._path}{line}: this is not YAML ({problem}); correct it") from error
        if node is None:
            raise SwiftRLError(f"{self._path}: the file is empty; give a grid, or runs")
        return node

    def mapping(self, node: yaml.Node, what: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return a mapping's key and value nodes by key, each key once."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, f"{what} must be `key: value` lines")
        found = {}
        for key, value in node.value:
            name = self.text(key)
            if name in found:
                raise self.error(key, f"{name} is given twice; keep one")
            found[name] = key, value
        return found

    def items(self, node: yaml.Node) -> list[yaml.Node]:
        """Return the mappings of a list, or a single mapping in place of a list."""
        entries = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not entries:
            raise self.error(node, "the list is empty; give at least one entry, or leave the key out")
        return entries

    def text(self, node: yaml.Node) -> str:
        value = self._value(node)
        if not isinstance(value, str) or not value:
            raise self.error(node, f"{value!r} is not a name; write a word")
        return value

    def folder_name(self, node: yaml.Node) -> str:
        name = self.text(node)
        if name in (".", "..") or {"/", "\0"} & set(name):
            raise self.error(node, f"name is {name!r}: write a plain folder name, without /")
        return name

    def refuse_others(self, found: dict[str, tuple[yaml.Node, yaml.Node]], known: tuple[str, ...]) -> None:
        for name, (key, _) in found.items():
            if name not in known:
                raise self.error(key, f"{name} is not a key here: choose from {', '.join(known)}")

    def settings(self, node: yaml.Node, *, axes: bool) -> dict[str, Any]:
        """Return settings by name, each a checked value, or a list of them where axes are allowed."""
        settings = {}
        for name, (key, value) in self.mapping(node, "settings").items():
            with self._at(key):
                check_name(name)
            if axes and isinstance(value, yaml.SequenceNode):
                if not value.value:
                    raise self.error(value, f"{name} has no values, so the grid is empty: give at least one")
                settings[name] = [self._setting(name, entry) for entry in value.value]
            else:
                settings[name] = self._setting(name, value)
        return settings

    def expand(self, node: yaml.Node, base: dict[str, Any], *, axes: bool) -> list[Run]:
        """Return the runs of a grid, or of one entry of the list."""
        grid = base | self.settings(node, axes=axes)
        size = math.prod(len(value) for value in grid.values() if isinstance(value, list))
        if size > MAXIMUM_RUNS:
            raise self.error(node, f"the grid has {size:,} runs, more than {MAXIMUM_RUNS:,}: make it smaller")
        with self._at(node):
            return combine(grid)

    def error(self, node: yaml.Node, problem: str) -> SwiftRLError:
        return SwiftRLError(f"{self._path}, line {node.start_mark.line + 1}: {problem}")

    def _setting(self, name: str, node: yaml.Node) -> Any:
        content = self._value(node)
        with self._at(node):
            value = check_value(name, content)
            return str((self._path.parent / value).resolve()) if name == "data" else value

    def _value(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_document(node)
        except yaml.YAMLError as error:
            raise self.error(
                node, f"this is not a YAML value ({getattr(error, 'problem', error)})"
            ) from error

    @contextlib.contextmanager
    def _at(self, node: yaml.Node) -> Iterator[None]:
        """Add the file and the node's line to an error."""
        try:
            yield
        except SwiftRLError as error:
            raise self.error(node, str(error)) from error
