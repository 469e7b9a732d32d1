"""Tools: `swiftrl doctor`, `swiftrl figures`, `swiftrl validate` and `swiftrl bench`."""

import argparse
import json
from pathlib import Path

from swiftrl_core import backend as backends
from swiftrl_core.backends.pim.binding import hardware_reason
from swiftrl_core.cli import benches
from swiftrl_core.cli.options import add_json, flag, given, report
from swiftrl_core.dpusim import MODEL_VERSION, validation
from swiftrl_core.util.errors import SwiftRLError


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl doctor`."""
    parser.set_defaults(command=doctor)
    add_json(parser, "the list")


def doctor(options: argparse.Namespace) -> None:
    """List which backends work on this machine, and why the rest do not."""
    reasons = {name: backends.module(name).available() for name in backends.BACKENDS}
    hardware = hardware_reason()
    runs_on = "the DPU simulator" if hardware else "UPMEM hardware"
    content = {
        "backends": {
            name: {"available": reason is None, "reason": reason} for name, reason in reasons.items()
        },
        "pim_runs_on": runs_on,
        "hardware": {"available": hardware is None, "reason": hardware},
    }
    lines = [f"{name:11} {'yes' if reason is None else 'no: ' + reason}" for name, reason in reasons.items()]
    lines.append(f"{'':11} pim runs on {runs_on}" + (f" ({hardware})" if hardware else ""))
    report(options, content, lines)


def add_figures(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl figures`."""
    parser.set_defaults(command=figures)
    parser.add_argument(
        "folders",
        nargs="*",
        default=["results"],
        metavar="DIR",
        help="folder of results, searched with all its subfolders (default: results)",
    )


def figures(options: argparse.Namespace) -> None:
    """Redraw every figure whose data lie in the given folders, each in its place."""
    from swiftrl_core.experiments import regenerate  # matplotlib and all experiments

    problems = []
    for folder in options.folders:
        written, unreadable = regenerate.regenerate(Path(folder))
        for path in written:
            print(path)
        problems += unreadable
        if not written and not unreadable:
            problems.append(f"there are no results in {folder}: run an experiment or a notebook first")
    if problems:
        raise SwiftRLError("; ".join(problems))


def add_validate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl validate`."""
    parser.description += " Prints predicted and published values with the error; fails when a bar is missed."
    parser.set_defaults(command=validate)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=validation.SECTIONS,
        metavar="SECTION",
        help=f"run only these sections: {', '.join(validation.SECTIONS)}",
    )
    parser.add_argument(
        "--calibration",
        metavar="DIR",
        help="kernels counted by the vendor's tools: a folder with counts.json and kernels/",
    )
    parser.add_argument("--hardware-rows", metavar="FILE.json", help="times measured on a UPMEM server")
    parser.add_argument(
        "--write-golden",
        action="store_true",
        help="store the present instruction counts of the project's kernels as golden counts",
    )
    add_json(parser)


def validate(options: argparse.Namespace) -> None:
    """Validate the DPU simulator against published hardware numbers; fails when a bar is missed."""
    if options.write_golden:
        validation.counts.write_golden()
        print(f"{validation.counts.GOLDEN}: golden counts of {len(validation.counts.CASES)} kernels")
        return
    show = None if options.json else lambda section: print(section, end="\n\n", flush=True)
    sections, absent = validation.validate(
        options.only, options.calibration, options.hardware_rows, on_section=show
    )
    missed = [bar for section in sections for bar in section.bars if not bar.holds]
    content = {
        "model_version": MODEL_VERSION,
        "holds": not missed,
        "sections": {section.name: section.to_json() for section in sections},
        "left_out": absent,
    }
    bars = sum(len(section.bars) for section in sections)
    lines = [f"left out: {name} ({reason})" for name, reason in absent.items()]
    report(options, content, [*lines, f"{bars - len(missed)} of {bars} bars hold"])
    if missed:
        raise SwiftRLError(f"missed {len(missed)} of {bars} bars: {'; '.join(bar.name for bar in missed)}")


def add_bench(parser: argparse.ArgumentParser) -> None:
    """Add the options of `swiftrl bench`."""
    parser.set_defaults(command=bench)
    parser.add_argument(
        "--only",
        choices=benches.NAMES + benches.ON_REQUEST,
        help=f"one benchmark; {' and '.join(benches.ON_REQUEST)} run only when named here (default: all others)",
    )
    for name, what in (("seeds", "data sets"), ("cores", "PIM cores")):
        parser.add_argument(
            flag(name),
            type=int,
            default=argparse.SUPPRESS,
            metavar="N",
            help=f"fewer-updates: number of {what}",
        )
    add_json(parser, "all rows")


def bench(options: argparse.Namespace) -> None:
    """Measure how fast this machine simulates and learns; fails when a benchmark has bars and misses one."""
    settings = given(options, ("seeds", "cores"))
    if settings and options.only != "fewer-updates":
        raise SwiftRLError(
            f"{flag(next(iter(settings)))} applies to one benchmark: drop it, or use --only fewer-updates"
        )
    host, measured, missed = benches.load("engine").machine(), [], []
    heading = ", ".join(f"{key} {value}" for key, value in host.items()) + "\n"
    for name in [options.only] if options.only else benches.NAMES:
        section = benches.load(name)
        rows = section.rows(**settings)
        measured += rows
        missed += section.missed(rows) if hasattr(section, "missed") else []
        if not options.json:
            print(f"{heading}\n{name}\n{section.table(rows)}", flush=True)
            heading = ""
    if options.json:
        print(json.dumps({"machine": host, "rows": measured}, indent=2))
    if missed:
        raise SwiftRLError(f"missed bars: {'; '.join(missed)}")
