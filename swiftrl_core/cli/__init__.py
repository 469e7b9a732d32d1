"""The `swiftrl` command."""

from swiftrl_core.cli.app import main

__all__ = ["main"]
