"""Run notebooks as strictly as functions: checked parameters, a time limit, no half results under a finished name.

Papermill executes; what it lets through is caught here. It only warns of an unknown parameter, turns NumPy scalars,
tuples and paths into text, lets a killed run's output look like any other, and leaves the choice of ports to a race.

A notebook's parameters stand in one cell tagged `parameters`, one a line: ``name: type = value  # help``.
"""

import ast
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from swiftrl_core.util.errors import SwiftRLError

if TYPE_CHECKING:  # a second and more to import: every command would wait for it
    from nbformat import NotebookNode

DIRECTORY = Path(__file__).resolve().parents[2] / "notebooks"
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
_PLAIN = (bool, int, float, str, None, Path, list, tuple, dict)
_SOCKET_PATH_BYTES = 80  # a kernel's sockets append to it, and the system allows 107


class NotebookError(SwiftRLError):
    """A cell failed, or the notebook took too long.

    Attributes
    ----------
    details : str
        The cell and its traceback, with the terminal colours of IPython.
    """

    def __init__(self, sentence: str, details: str = "") -> None:
        super().__init__(sentence, details)
        self.details = details

    def __str__(self) -> str:
        return self.args[0]


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's cell of parameters.

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
        """Return a value as the plain Python object of the parameter's type.

        Raises
        ------
        SwiftRLError
            If the value is of another type.
        """
        try:
            return _convert(value, self.type)
        except _Misfit:
            raise SwiftRLError(
                f"parameter {self.name} is {value!r} ({type(value).__name__}): give {_say(self.type)}"
            ) from None

    def read(self, text: str) -> Any:
        """Return the value that a text from the command line stands for.

        Raises
        ------
        SwiftRLError
            If the text does not stand for a value of the parameter's type.
        """
        for value in _readings(text, self.type):
            try:
                return _convert(value, self.type)
            except _Misfit:
                continue
        raise SwiftRLError(f"parameter {self.name} is {text!r}: give {_say(self.type)}")


@dataclass(frozen=True)
class Job:
    """A notebook to run, where its output goes, and its parameters, checked."""

    source: Path
    output: Path
    parameters: dict[str, Any]


def all_notebooks() -> list[Path]:
    """Return the notebooks of the clone this package runs from, in order.

    Raises
    ------
    SwiftRLError
        If there are none: the installed package does not carry them.
    """
    found = sorted(DIRECTORY.glob("[0-9]*.ipynb"))
    if not found:
        raise SwiftRLError(f"there are no notebooks in {DIRECTORY}: run from a clone of the repository")
    return found


def find(name: str) -> Path:
    """Return the notebook of an id such as `04_strong_scaling`, or of the start of one.

    Raises
    ------
    SwiftRLError
        If none or several fit.
    """
    found = all_notebooks()
    fitting = [path for path in found if path.stem == name] or [
        path for path in found if path.stem.startswith(name)
    ]
    if len(fitting) != 1:
        raise SwiftRLError(f"notebook {name!r}: choose one of {', '.join(path.stem for path in found)}")
    return fitting[0]


def read_parameters(source: str | os.PathLike) -> dict[str, Parameter]:
    """Return a notebook's parameters by name, in order.

    Raises
    ------
    SwiftRLError
        If the file is no notebook, has not one cell tagged `parameters`, or a line of that cell is no parameter.
    """
    notebook = _read(Path(source))
    cell = notebook.cells[_parameter_cell(notebook, source)].source
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


def execute(
    source: str | os.PathLike,
    output: str | os.PathLike,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    progress_bar: bool = False,
) -> Path:
    """Run a notebook in a fresh kernel; return the path of the executed copy, which exists only if every cell ran.

    While it runs, the copy is OUTPUT.partial.ipynb; when a cell fails, it stays as OUTPUT.failed.ipynb.

    Parameters
    ----------
    source, output : path
    parameters : mapping, optional
        Values by name; NumPy scalars become Python's own, tuples stay tuples and paths stay paths.
    timeout : float, optional
        Seconds for the whole notebook.
    progress_bar : bool

    Raises
    ------
    SwiftRLError
        Before a kernel starts, if a parameter is unknown or of the wrong type, or the output cannot be written.
    NotebookError
        If a cell fails, the kernel dies, or the time is up.
    """
    import nbformat

    source, output = Path(source), Path(output)
    values = check(source, parameters or {})
    prepared = _prepared(source, values)
    partial, failed = (output.with_suffix(f".{what}.ipynb") for what in ("partial", "failed"))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        for old in (output, failed, partial):
            old.unlink(missing_ok=True)
        nbformat.write(prepared, partial)
    except OSError as error:
        raise SwiftRLError(
            f"cannot write {output}: {error.strerror or error}; choose another folder"
        ) from error
    try:
        _run(partial, source.name, timeout, progress_bar)
    except BaseException:
        os.replace(partial, failed)
        raise
    finished = _read(partial)
    finished.metadata.papermill |= {"input_path": source.name, "output_path": output.name}
    nbformat.write(finished, partial)
    os.replace(partial, output)
    return output


def is_done(job: Job) -> bool:
    """Return whether the output is there: complete, of this very notebook, with these parameters."""
    import nbformat

    try:
        notebook = nbformat.read(job.output, as_version=4)
    except (OSError, ValueError):
        return False
    run = notebook.metadata.get("papermill", {})
    ends = [cell.metadata.get("papermill", {}).get("end_time") for cell in notebook.cells]
    complete = run.get("end_time") and not run.get("exception") and all(ends)
    return bool(complete) and notebook.metadata.get("swiftrl") == _fingerprint(job.source, job.parameters)


def execute_all(
    jobs: Sequence[Job], *, workers: int = 1, timeout: float | None = None
) -> dict[Path, SwiftRLError]:
    """Run several notebooks, some at a time; return the errors of those that failed, by source.

    Parameters
    ----------
    jobs : sequence of Job
    workers : int
        Notebooks at a time, each with a process and a kernel of its own.
    timeout : float, optional
        Seconds for each.
    """
    context = multiprocessing.get_context("spawn")
    errors = {}
    with concurrent.futures.ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
        running = {
            pool.submit(execute, job.source, job.output, job.parameters, timeout=timeout): job for job in jobs
        }
        for future in concurrent.futures.as_completed(running):
            try:
                future.result()
            except SwiftRLError as error:
                errors[running[future].source] = error
    return errors


# --- parameters -------------------------------------------------------------------------------------------


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
    """Yield what a text may stand for; where a text is wanted, the text alone."""
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


def _say(kind: Any) -> str:
    """Return a type as a user may write it."""
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


# --- execution --------------------------------------------------------------------------------------------


def _read(source: Path) -> "NotebookNode":
    import nbformat

    try:
        return nbformat.read(source, as_version=4)
    except (OSError, ValueError) as error:
        raise SwiftRLError(f"{source} is not a readable notebook ({error}): name an .ipynb file") from error


def _parameter_cell(notebook: "NotebookNode", source: str | os.PathLike) -> int:
    tagged = [
        index for index, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", [])
    ]
    if len(tagged) != 1:
        raise SwiftRLError(f"{source} has {len(tagged)} cells tagged `parameters`: it needs exactly one")
    return tagged[0]


def _prepared(source: Path, values: Mapping[str, Any]) -> "NotebookNode":
    """Return the notebook with the values in a cell of their own after the defaults."""
    import nbformat

    notebook = _read(source)
    lines = ["# Parameters", *(f"{name} = {_literal(value)}" for name, value in values.items())]
    if any("Path(" in line for line in lines):
        lines.insert(1, "from pathlib import Path")
    injected = nbformat.v4.new_code_cell("\n".join(lines), metadata={"tags": ["injected-parameters"]})
    notebook.cells.insert(_parameter_cell(notebook, source) + 1, injected)
    notebook.metadata["swiftrl"] = _fingerprint(source, values)
    return notebook


def _literal(value: Any) -> str:
    """Return Python source of a checked value."""
    if isinstance(value, Path):
        return f"Path({str(value)!r})"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(f'{_literal(entry)}, ' for entry in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(key)}: {_literal(entry)}' for key, entry in value.items())}}}"
    return repr(value)


def _fingerprint(source: Path, values: Mapping[str, Any]) -> dict[str, str]:
    """Return what an output is an output of."""
    return {
        "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "parameters": json.dumps({name: _literal(value) for name, value in values.items()}, sort_keys=True),
    }


def _run(path: Path, name: str, timeout: float | None, progress_bar: bool) -> None:
    """Execute a prepared notebook in its place, and tell in a sentence what stopped it."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    end = None if timeout is None else time.monotonic() + timeout
    literal = str(path).replace("{", "{{").replace("}", "}}")  # papermill formats paths
    with _socket_directory() as sockets:
        try:
            papermill.execute_notebook(
                literal,
                literal,
                progress_bar=progress_bar,
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/k"}}),
                timeout_func=None if end is None else lambda _: max(end - time.monotonic(), 0.01),
            )
        except PapermillExecutionError as error:
            said = f"{error.ename}: {error.evalue}".splitlines()[0]
            raise NotebookError(
                f"{name} failed in cell {error.cell_index + 1} with {said}", str(error)
            ) from error
        except CellTimeoutError as error:
            raise NotebookError(
                f"{name} did not end within {timeout:g} s, and was stopped in cell {_stopped_in(path)}: "
                "give it more time, or a smaller size"
            ) from error
        except DeadKernelError as error:
            raise NotebookError(
                f"{name} lost its kernel in cell {_stopped_in(path)}: it was killed, or ran out of memory"
            ) from error


def _stopped_in(output: Path) -> int:
    """Return the number of the last cell that started."""
    cells = _read(output).cells
    return sum(cell.metadata.get("papermill", {}).get("start_time") is not None for cell in cells)


def _end_with_parent() -> None:
    """End this process when the one that started it dies; its kernel then ends by itself."""

    def wait() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _socket_directory() -> Iterator[str]:
    """Yield a new folder for one kernel's sockets, whose path is short enough for the system."""
    base = tempfile.gettempdir()
    directory = tempfile.mkdtemp(
        prefix="swiftrl-", dir=base if len(base) < _SOCKET_PATH_BYTES - 20 else "/tmp"
    )
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def without_colours(text: str) -> str:
    """Return a text without the terminal's colour codes."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def show(error: SwiftRLError) -> None:
    """Print the cell and the traceback of a notebook's error, in colour where the terminal can."""
    if isinstance(error, NotebookError) and error.details:
        print(error.details if sys.stderr.isatty() else without_colours(error.details), file=sys.stderr)
