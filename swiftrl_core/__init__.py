"""SwiftRL: tabular reinforcement learning on processing-in-memory hardware, and on its simulator."""

import importlib

_FACE = {
    "Dataset": "swiftrl_core.data.transitions",
    "DpuSet": "swiftrl_core.dpusim",
    "Learner": "swiftrl_core.learner",
    "Schedule": "swiftrl_core.training.loop",
    "SwiftRLError": "swiftrl_core.util.errors",
    "collect": "swiftrl_core.data.collection",
    "compile_kernel": "swiftrl_core.dpusim",
    "exact_return": "swiftrl_core.data.evaluation",
    "load": "swiftrl_core.data.files",
    "save": "swiftrl_core.data.files",
    "train": "swiftrl_core.training.loop",
    "train_agents": "swiftrl_core.training.agents",
}
"""Each public name and the module that defines it, which is imported when the name is first used."""

__all__ = [*_FACE, "__version__"]


def __getattr__(name: str):
    if name == "__version__":
        return _version()
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_FACE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import (
        PackageNotFoundError,
        version,
    )  # as slow as all else that `swiftrl --help` needs

    try:
        return version("swiftrl")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
