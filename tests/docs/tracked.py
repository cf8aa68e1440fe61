"""The files of the repository: what git tracks or would track."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

__all__ = ["PROJECT", "markdown_files", "text_files", "tracked_files"]

PROJECT = Path(__file__).resolve().parents[2]
MADE = {".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__"}


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return every file that is committed or not ignored; without git, every file that does not look generated or
    downloaded."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        found = (path for path in PROJECT.rglob("*") if not MADE & set(path.relative_to(PROJECT).parts))
        return tuple(path for path in found if path.is_file())
    return tuple(PROJECT / name for name in listed.split("\0") if name and (PROJECT / name).is_file())


@cache
def text_files() -> tuple[tuple[Path, str], ...]:
    """Yield the path and text of each text file."""
    found = []
    for path in tracked_files():
        raw = path.read_bytes()
        if b"\0" not in raw[:8192]:
            found.append((path.relative_to(PROJECT), raw.decode(errors="replace")))
    return tuple(found)


@cache
def markdown_files() -> tuple[tuple[Path, str], ...]:
    return tuple((path, text) for path, text in text_files() if path.suffix == ".md")
