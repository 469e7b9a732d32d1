"""Notebooks as functions: checked parameters, a time limit, and an output only if every cell ran."""

from swiftrl_core.experiments.notebooks.execution import (
    DIRECTORY,
    Job,
    NotebookError,
    all_notebooks,
    execute,
    execute_all,
    find,
    is_done,
    show,
    without_colours,
)
from swiftrl_core.experiments.notebooks.parameters import Parameter, check, check_texts, read_parameters

__all__ = [
    "DIRECTORY",
    "Job",
    "NotebookError",
    "Parameter",
    "all_notebooks",
    "check",
    "check_texts",
    "execute",
    "execute_all",
    "find",
    "is_done",
    "read_parameters",
    "show",
    "without_colours",
]
