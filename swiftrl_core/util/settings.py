"""Fields of a dataclass that carry their own help, so that options and documentation can be derived from them."""

from dataclasses import field
from typing import Any


def setting(default: Any, help: str, **more: Any) -> Any:
    """Return a dataclass field with a default and one line of help.

    Parameters
    ----------
    default : object
        What the field is when it is not given.
    help : str
        One line for a person on the command line, without a full stop.
    **more
        Further metadata of the field.
    """
    return field(default=default, metadata={"help": help, **more})
