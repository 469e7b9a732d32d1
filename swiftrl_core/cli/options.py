"""Options that are derived from dataclasses, and the report that every command can print as JSON."""

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import EnumType
from types import MappingProxyType
from typing import Any

METAVARS = MappingProxyType({int: "N", float: "X"})


def add_settings(
    parser: argparse._ActionsContainer, settings: type, flags: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Add an option for each field of a dataclass that carries help (`util.settings.setting`).

    Name, type, choices, default and help are the field's. An option that is not given leaves no attribute, so `given`
    shows which were.

    Parameters
    ----------
    parser : ArgumentParser or one of its groups
    settings : dataclass
    flags : mapping, optional
        Field to flag, where it is not the field's own name, such as `{"cores": "--dpus"}`.
    """
    for entry in fields(settings):
        if "help" not in entry.metadata:
            continue
        if isinstance(entry.type, EnumType):
            kind = {"choices": [str(choice) for choice in entry.type]}
        else:
            kind = {"type": entry.type, "metavar": METAVARS[entry.type]}
        parser.add_argument(
            flags.get(entry.name, flag(entry.name)),
            dest=entry.name,
            default=argparse.SUPPRESS,
            help=f"{entry.metadata['help']} (default: {entry.default})",
            **kind,
        )


def given(options: argparse.Namespace, names: type | Iterable[str]) -> dict[str, Any]:
    """Return the options that were given, of those with some names or of a dataclass's fields."""
    wanted = [entry.name for entry in fields(names)] if isinstance(names, type) else names
    return {name: getattr(options, name) for name in wanted if hasattr(options, name)}


def flag(name: str) -> str:
    """Return the flag of a setting: `--simulated-dpus` of `simulated_dpus`."""
    return "--" + name.replace("_", "-")


def add_json(parser: argparse.ArgumentParser, what: str = "the result") -> None:
    """Add `--json`, which `report` obeys."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def report(options: argparse.Namespace, content: dict, lines: Iterable[str]) -> None:
    """Print lines of text, or with `--json` the content."""
    print(json.dumps(content, indent=2) if options.json else "\n".join(lines))
