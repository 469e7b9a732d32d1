"""Files: written whole or not at all, opened, hashed."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from swiftrl_core.util.errors import SwiftRLError


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it onto the target if the block succeeds.

    A reader sees the old file or the whole new one, never a part: the rename is atomic within a folder. A link is
    followed: what it points at is replaced, the link stays.

    Parameters
    ----------
    target : path
        The file to create or replace. Its folder is made when absent.

    Raises
    ------
    SwiftRLError
        If the target is a folder or a device, or writing fails: no permission, no room.
    """
    if not os.fspath(target):
        raise SwiftRLError("the name of the file to write is empty; give it one")
    temporary = None
    try:
        target = Path(target).resolve()
        if target.exists() and not target.is_file():
            raise SwiftRLError(f"{target} is no ordinary file, so it will not be replaced; name another file")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(new_file_mode())
        os.replace(temporary, target)
    except OSError as error:
        raise SwiftRLError(
            f"cannot write {target}: {error.strerror or error}; choose a folder with room that you may write to"
        ) from error
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)


def opened(path: Path) -> BinaryIO:
    """Return a file opened for reading bytes; raise `SwiftRLError` if it is unreadable or no ordinary file."""
    try:
        if path.exists() and not path.is_file():
            raise SwiftRLError(f"cannot read {path}: it is no ordinary file; name another")
        return path.open("rb")
    except OSError as error:
        raise SwiftRLError(f"cannot read {path}: {error.strerror or error}") from error


def sha256_file(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def new_file_mode() -> int:
    """Return the mode of a new file under the process's umask, which can be read only by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask
