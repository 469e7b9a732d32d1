"""Tables of measurements that are no runs, such as a roofline: Parquet, with a manifest that says where they come from.

Rows of runs have columns of their own and live in `results`; here a table has the columns that its maker gives it.
"""

import json
import os
from pathlib import Path

import pandas as pd

from swiftrl_core import results
from swiftrl_core.errors import SwiftRLError
from swiftrl_core.files import atomic_path, sha256_file


def write(path: str | os.PathLike, table: pd.DataFrame) -> Path:
    """Write a table as Parquet, then its manifest beside it under the suffix `.json`; return the manifest's path.

    Raises
    ------
    SwiftRLError
        If the folder cannot be written.
    """
    path = Path(path)
    manifest = path.with_suffix(".json")
    manifest.unlink(missing_ok=True)
    with atomic_path(path) as temporary:
        table.to_parquet(temporary, index=False, compression="zstd")
    origin = results.provenance()
    about = {name: origin[name] for name in ("created", "host", "git_commit")} | {
        "versions": json.loads(origin["versions"]),
        "evidence": sorted(set(table["evidence"])) if "evidence" in table else [],
        "rows": len(table),
        "files": {path.name: sha256_file(path)},
    }
    with atomic_path(manifest) as temporary:
        temporary.write_text(json.dumps(about, indent=2) + "\n")
    return manifest


def read(path: str | os.PathLike) -> pd.DataFrame:
    """Read a table that `write` wrote.

    Raises
    ------
    SwiftRLError
        If the table or its manifest is absent or damaged.
    """
    path = Path(path)
    try:
        expected = json.loads(path.with_suffix(".json").read_text())["files"][path.name]
        whole = expected == sha256_file(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SwiftRLError(
            f"{path} is not a finished table with its manifest ({type(error).__name__}: {error}); measure again"
        ) from error
    if not whole:
        raise SwiftRLError(f"{path} does not match the checksum in its manifest; measure again")
    return pd.read_parquet(path)
