"""SwiftRL: tabular reinforcement learning on processing-in-memory hardware, and on its simulator."""

from importlib.metadata import PackageNotFoundError, version

from swiftrl_core.errors import SwiftRLError

try:
    __version__ = version("swiftrl")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["SwiftRLError", "__version__"]
