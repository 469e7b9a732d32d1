"""Execution of notebooks with checked parameters, a time limit, and no partial output under the final name.

Papermill executes. Its output of an interrupted run looks like any other, and it leaves the choice of ports to a race;
both are prevented here.
"""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swiftrl_core.experiments.notebooks.parameters import check, literal, parameter_cell, read
from swiftrl_core.util.errors import SwiftRLError

if TYPE_CHECKING:  # takes a second to import, which every command would wait for
    from nbformat import NotebookNode

DIRECTORY = Path(__file__).resolve().parents[3] / "notebooks"
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
class Job:
    """A notebook to run, its output path, and its checked parameters."""

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
    """Return the notebook of an id such as `04_strong_scaling`, or of a prefix of one.

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
        Values by name; NumPy scalars become Python scalars; tuples and paths keep their type.
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
    finished = read(partial)
    finished.metadata.papermill |= {"input_path": source.name, "output_path": output.name}
    nbformat.write(finished, partial)
    os.replace(partial, output)
    return output


def is_done(job: Job) -> bool:
    """Return whether the output exists and is complete, from the current notebook with the same parameters."""
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


def _prepared(source: Path, values: Mapping[str, Any]) -> "NotebookNode":
    """Return the notebook with the values in a cell of their own after the defaults."""
    import nbformat

    notebook = read(source)
    lines = ["# Parameters", *(f"{name} = {literal(value)}" for name, value in values.items())]
    if any("Path(" in line for line in lines):
        lines.insert(1, "from pathlib import Path")
    injected = nbformat.v4.new_code_cell("\n".join(lines), metadata={"tags": ["injected-parameters"]})
    notebook.cells.insert(parameter_cell(notebook, source) + 1, injected)
    notebook.metadata["swiftrl"] = _fingerprint(source, values)
    return notebook


def _fingerprint(source: Path, values: Mapping[str, Any]) -> dict[str, str]:
    """Return what an output depends on: the hash of the source, and the parameters."""
    return {
        "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "parameters": json.dumps({name: literal(value) for name, value in values.items()}, sort_keys=True),
    }


def _run(path: Path, name: str, timeout: float | None, progress_bar: bool) -> None:
    """Execute a prepared notebook in its place; an error is one sentence on what stopped it."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    end = None if timeout is None else time.monotonic() + timeout
    pattern = str(path).replace("{", "{{").replace("}", "}}")  # papermill formats paths
    with _socket_directory() as sockets:
        try:
            papermill.execute_notebook(
                pattern,
                pattern,
                progress_bar=progress_bar,
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/k"}}),
                timeout_func=None if end is None else lambda _: max(end - time.monotonic(), 0.01),
            )
        except PapermillExecutionError as error:
            message = f"{error.ename}: {error.evalue}".splitlines()[0]
            raise NotebookError(
                f"{name} failed in cell {error.cell_index + 1} with {message}", str(error)
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
    cells = read(output).cells
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
