"""What the tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# Runs are the same everywhere: a slow machine fails no deadline, and examples do not change from run to run.
settings.register_profile("swiftrl", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("swiftrl")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the SwiftRL authors' sample files, which lies beside a checkout and is not part of it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the authors' sample files are not in {folder}")
    return folder
