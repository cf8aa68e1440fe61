"""Read files of a command line. ``-`` means the standard input."""

from __future__ import annotations

import sys

__all__ = ["STANDARD_INPUT", "read_file"]

STANDARD_INPUT = "/dev/stdin"
"""The path that replaces ``-`` on a command line, where ``-`` would look like an option."""


def read_file(path: str) -> str:
    """Read a file, or the standard input. Raise OSError or UnicodeDecodeError."""
    if path in ("-", STANDARD_INPUT):
        return sys.stdin.read()
    with open(path, encoding="utf-8") as file:
        return file.read()
