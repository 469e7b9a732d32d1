"""Parameters of notebooks: read from the cell tagged `parameters`, checked, and written as Python.

The cell has one parameter a line: ``name: type = value  # help``. Papermill only warns of an unknown parameter, and
turns NumPy scalars, tuples and paths into text; here an unknown parameter or a value of another type is an error.
"""

import ast
import os
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from swiftrl_core.experiments.experiment import SIZES
from swiftrl_core.sweeps.settings import LEARNER
from swiftrl_core.util.errors import SwiftRLError

if TYPE_CHECKING:  # takes a second to import, which every command would wait for
    from nbformat import NotebookNode

_TYPES = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "None": None,
    "Path": Path,
    "Literal": Literal,
}
WORDS = MappingProxyType(
    {name: tuple(kind) for name, kind in LEARNER.items() if issubclass(kind, StrEnum)} | {"size": SIZES}
)
"""Name of a parameter to the words that it may be."""
_PLAIN = (bool, int, float, str, None, Path, list, tuple, dict)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a notebook: one line of its parameters cell.

    Attributes
    ----------
    name : str
    type : object
        The annotation; that of the default where there is none.
    default : object
    help : str
        The comment.
    """

    name: str
    type: Any
    default: Any
    help: str

    def check(self, value: Any) -> Any:
        """Return a value as a plain Python object of the parameter's type.

        Raises
        ------
        SwiftRLError
            If the value is of another type, or not one of the parameter's words.
        """
        try:
            return self._known(_convert(value, self.type))
        except _Misfit:
            raise SwiftRLError(
                f"parameter {self.name} is {value!r} ({type(value).__name__}): give {_type_text(self.type)}"
            ) from None

    def read(self, text: str) -> Any:
        """Return the value of a text from the command line.

        Raises
        ------
        SwiftRLError
            If the text has no reading as the parameter's type.
        """
        for value in _readings(text, self.type):
            try:
                return self._known(_convert(value, self.type))
            except _Misfit:
                continue
        raise SwiftRLError(f"parameter {self.name} is {text!r}: give {_type_text(self.type)}")

    def _known(self, value: Any) -> Any:
        """Return a value; where the default is one of the words that such a parameter may be, require one of them."""
        words = WORDS.get(self.name, ())
        if self.default in words and value not in words:
            raise SwiftRLError(f"parameter {self.name} is {value!r}: choose one of {', '.join(words)}")
        return value


def read_parameters(source: str | os.PathLike) -> dict[str, Parameter]:
    """Return a notebook's parameters by name, in order.

    Raises
    ------
    SwiftRLError
        If the file is no notebook, has not one cell tagged `parameters`, or a line of that cell is no parameter.
    """
    notebook = read(Path(source))
    cell = notebook.cells[parameter_cell(notebook, source)].source
    lines = cell.splitlines()
    found = {}
    try:
        statements = ast.parse(cell).body
    except SyntaxError as error:
        raise SwiftRLError(f"{source}: the cell of parameters is not Python ({error}); correct it") from error
    for statement in statements:
        try:
            name, annotation, value = _parts(statement)
            default = _evaluate(value)
            kind = type(default) if annotation is None else _evaluate(annotation)
        except (ValueError, NameError, TypeError, SyntaxError) as error:
            raise SwiftRLError(
                f"{source}: {lines[statement.lineno - 1]!r} is not a parameter ({error}); "
                "write `name: type = value`, with plain types and values"
            ) from error
        comment = lines[statement.end_lineno - 1].partition("#")[2].strip()
        found[name] = Parameter(name, kind, default, comment)
        found[name].check(default)
    return found


def check(source: str | os.PathLike, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given parameters in plain form.

    Raises
    ------
    SwiftRLError
        If the notebook has no such parameter, or a value is not of its type.
    """
    known = read_parameters(source)
    _refuse_unknown(source, known, given)
    return {name: known[name].check(value) for name, value in given.items()}


def check_texts(source: str | os.PathLike, given: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters from the command line, read as the types that the notebook gives them; errors as `check`."""
    known = read_parameters(source)
    _refuse_unknown(source, known, given)
    return {name: known[name].read(text) for name, text in given.items()}


def read(source: Path) -> "NotebookNode":
    """Return a notebook.

    Raises
    ------
    SwiftRLError
        If it cannot be read.
    """
    import nbformat

    try:
        return nbformat.read(source, as_version=4)
    except (OSError, ValueError, RecursionError) as error:
        raise SwiftRLError(f"{source} is not a readable notebook ({error}): name an .ipynb file") from error


def parameter_cell(notebook: "NotebookNode", source: str | os.PathLike) -> int:
    """Return the index of the cell tagged `parameters`.

    Raises
    ------
    SwiftRLError
        If there is not exactly one.
    """
    tagged = [
        index for index, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])
    ]
    if len(tagged) != 1:
        raise SwiftRLError(f"{source} has {len(tagged)} cells tagged `parameters`: it needs exactly one")
    return tagged[0]


def literal(value: Any) -> str:
    """Return Python source of a checked value."""
    if isinstance(value, Path):
        return f"Path({str(value)!r})"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(f'{literal(entry)}, ' for entry in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(entry)}' for key, entry in value.items())}}}"
    return repr(value)


class _Misfit(Exception):
    """A value is not of a type."""


def _parts(statement: ast.stmt) -> tuple[str, ast.expr | None, ast.expr]:
    """Return name, annotation and value of an assignment."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        return statement.target.id, statement.annotation, statement.value
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return target.id, None, statement.value
    raise ValueError("no assignment of a value to a name")


def _evaluate(node: ast.expr) -> Any:
    """Return the value of a literal, a path, or an annotation; nothing else has a name here."""
    return eval(compile(ast.Expression(node), "<parameters>", "eval"), {"__builtins__": {}} | _TYPES)


def _convert(value: Any, kind: Any) -> Any:
    """Return a value as a plain object of a type, or raise `_Misfit`."""
    if isinstance(value, np.generic):
        value = value.item()
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _first_that_fits(value, arguments)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        raise _Misfit
    if kind is Any:
        return _first_that_fits(value, _PLAIN)
    if kind in (None, types.NoneType):
        return _require(value, value is None)
    if kind is float:
        return float(_require(value, isinstance(value, int | float) and not isinstance(value, bool)))
    if kind is int:
        return _require(value, isinstance(value, int) and not isinstance(value, bool))
    if kind is Path:
        return Path(_require(value, isinstance(value, Path)))
    return _convert_container(value, origin or kind, arguments)


def _convert_container(value: Any, kind: Any, arguments: tuple) -> Any:
    _require(value, isinstance(value, kind))
    if kind is dict:
        of_key, of_value = arguments or (Any, Any)
        return {_convert(key, of_key): _convert(entry, of_value) for key, entry in value.items()}
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        _require(value, len(value) == len(arguments))
        return tuple(_convert(entry, of) for entry, of in zip(value, arguments, strict=True))
    if kind in (list, tuple):
        of = arguments[0] if arguments else Any
        return kind(_convert(entry, of) for entry in value)
    return value


def _first_that_fits(value: Any, kinds: Sequence[Any]) -> Any:
    exact = [kind for kind in kinds if kind is type(value)]  # 1 stays an int in `float | int`
    for kind in (*exact, *kinds):
        try:
            return _convert(value, kind)
        except _Misfit:
            continue
    raise _Misfit


def _require(value: Any, fits: bool) -> Any:
    if not fits:
        raise _Misfit
    return value


def _readings(text: str, kind: Any) -> Iterator[Any]:
    """Yield the values that a text may mean; if a text is expected, only the text itself."""
    if kind is str:
        yield text
        return
    yield from {"true": [True], "false": [False]}.get(text.lower(), [])
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    else:
        yield value
        if isinstance(value, list):
            yield tuple(value)
    yield text
    yield Path(text)


def _type_text(kind: Any) -> str:
    """Format a type for an error message."""
    if kind in (None, types.NoneType):
        return "None"
    name = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    return name.replace("typing.", "").replace("pathlib.", "")


def _refuse_unknown(
    source: str | os.PathLike, known: Mapping[str, Parameter], given: Mapping[str, Any]
) -> None:
    for name in given:
        if name not in known:
            raise SwiftRLError(f"{source} has no parameter {name!r}: choose from {', '.join(known)}")
