"""Cuts a version: the changes of ``## [Unreleased]`` become those of the version, and ``__version__`` names it."""

from __future__ import annotations

import re
from datetime import date

__all__ = ["CutError", "changes_of", "cut_changelog", "cut_version", "version_of"]

_UNRELEASED = "## [Unreleased]"
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_RELEASED = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


class CutError(Exception):
    """The version can't be cut. The message says why and what to do."""


def version_of(source: str) -> str:
    """Return ``__version__`` of the text of ``src/barnabas/__init__.py``."""
    found = _VERSION.search(source)
    if found is None:
        raise CutError('src/barnabas/__init__.py: the line __version__ = "..." is missing')
    return found[1]


def cut_version(source: str, version: str) -> str:
    """Return the text of ``src/barnabas/__init__.py`` with the new version. Raise CutError if it is not a later one."""
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise CutError(f"version {version!r}: write three numbers with dots between, for example 0.2.0")
    before = version_of(source)
    if _numbers(version) <= _numbers(before):
        raise CutError(f"version {version}: the source is version {before} already; choose a later one")
    return _VERSION.sub(f'__version__ = "{version}"', source, count=1)


def cut_changelog(text: str, version: str, day: date) -> str:
    """Return the changelog with an empty ``[Unreleased]`` and the former one below the version's heading."""
    if changes_of(text, version) is not None:
        raise CutError(f"CHANGELOG.md: version {version} is there already; choose a later one")
    before, heading, after = text.partition(f"{_UNRELEASED}\n")
    if not heading:
        raise CutError(f"CHANGELOG.md: the heading {_UNRELEASED} is missing")
    if not re.split(r"^## \[", after, maxsplit=1, flags=re.MULTILINE)[0].strip():
        raise CutError(f"CHANGELOG.md: {_UNRELEASED} has no entry; describe what changes for users first")
    return f"{before}{_UNRELEASED}\n\n## [{version}] - {day.isoformat()}\n{after}"


def changes_of(text: str, version: str) -> str | None:
    """Return the entries of a version, or None if the changelog does not have it."""
    found = [match for match in _RELEASED.finditer(text) if match[1] == version]
    if not found:
        return None
    rest = text[found[0].end() :]
    return re.split(r"^## \[", rest, maxsplit=1, flags=re.MULTILINE)[0].strip()


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
