"""The machine that executes a program: an interpreter in C, its replay of what tasklets share, and its sanitizer."""

from swiftrl_core.dpusim.machine.interface import library
from swiftrl_core.dpusim.machine.launch import INSTRUCTION_BUDGET, RunStats, run_counted, run_machines
from swiftrl_core.dpusim.machine.machine import Fault, Machine
from swiftrl_core.dpusim.machine.prepared import is_translated, translate, translation_seconds

__all__ = [
    "INSTRUCTION_BUDGET",
    "Fault",
    "Machine",
    "RunStats",
    "is_translated",
    "library",
    "run_counted",
    "run_machines",
    "translate",
    "translation_seconds",
]
