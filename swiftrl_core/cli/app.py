"""The `swiftrl` command: its parser, its errors and its exit codes.

The module of a command is imported when that command is used, so that `swiftrl --help` is quick.
"""

import argparse
import errno
import os
import pkgutil
import sys
from types import MappingProxyType

from swiftrl_core.util.errors import SwiftRLError

COMMANDS = MappingProxyType(
    {
        "doctor": ("tools:add_doctor", "list which backends work on this machine, and why the rest do not"),
        "collect": ("data:add_collect", "log transitions of a uniform random policy to a Parquet file"),
        "convert": (
            "data:add_convert",
            "convert a data set between Parquet, the authors' text format and Minari",
        ),
        "train": ("train:add_train", "train a Q-table on a data set and write it with a manifest"),
        "evaluate": ("data:add_evaluate", "compute the return of the greedy policy of a Q-table"),
        "sweep": ("sweep:add_sweep", "execute the runs of a specification file that have no result row yet"),
        "experiment": ("experiment:add_experiment", "list, execute and render the experiments"),
        "figures": ("tools:add_figures", "redraw the figures of stored results without running anything"),
        "validate": ("tools:add_validate", "validate the DPU simulator against published hardware numbers"),
        "bench": ("tools:add_bench", "measure how fast this machine simulates and learns"),
    }
)
"""Command to the function that adds its options, in a module of this package, and its one-line description."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        """Exit with one sentence in place of a page of usage."""
        self.exit(2, f"swiftrl: {message}; see `{self.prog} --help`\n")


def main(arguments: list[str] | None = None) -> int:
    """Execute one command.

    Returns
    -------
    int
        0; 1 after a failure, with one sentence on standard error; or 130 after Ctrl-C. Options that do not parse exit
        with 2.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        parser = make_parser(only=arguments[0] if arguments else "")
        for argument in arguments:
            if argument.startswith("--") and argument.endswith("=--"):  # argparse would pass on an empty list
                parser.error(f"{argument.removesuffix('=--')} has no value: write one after the =")
        options = parser.parse_args(arguments)
        options.command(options)
        sys.stdout.flush()
    except SwiftRLError as error:
        return _failed(str(error))
    except BrokenPipeError:  # the reader of our output has gone; Python must not flush to it again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _failed("too many files are open: use fewer workers, or raise the limit of `ulimit -n`")
        return _failed(f"{error.filename or 'output'}: {error.strerror or error}")
    except MemoryError as error:
        return _failed(f"this machine does not have enough memory ({error}): use less data or fewer cores")
    except KeyboardInterrupt as interruption:
        print(f"swiftrl: {str(interruption) or 'interrupted'}", file=sys.stderr)
        return 130
    return 0


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser.

    Parameters
    ----------
    only : str, optional
        Add the options of this command alone; the others have just their description. By default all commands are
        complete.
    """
    parser = _Parser(
        prog="swiftrl",
        description="Tabular reinforcement learning on processing-in-memory hardware, and on a simulator of it.",
        epilog="`swiftrl COMMAND --help` lists the options of a command.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, (add_options, description) in COMMANDS.items():
        sentence = f"{description[0].upper()}{description[1:]}."
        sub = commands.add_parser(name, help=description, description=sentence)
        if only in (None, name):
            pkgutil.resolve_name(f"{__package__}.{add_options}")(sub)
    return parser


def _failed(sentence: str) -> int:
    print(f"swiftrl: {' '.join(sentence.split())}", file=sys.stderr)
    return 1
