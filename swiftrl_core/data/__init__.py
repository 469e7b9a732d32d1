"""Environments, the experience logged in them, and the quality of tables."""

from swiftrl_core.data.collection import collect
from swiftrl_core.data.files import load, open_data, save
from swiftrl_core.data.text_format import read_text, write_text
from swiftrl_core.data.transitions import Dataset

__all__ = ["Dataset", "collect", "load", "open_data", "read_text", "save", "write_text"]
