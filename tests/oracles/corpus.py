"""Find the oracle corpora and return their lines.

A corpus is every file ``<corpus>-<anything>.jsonl.gz`` (``wire-public``, ``wire-mutated-public``, ...) anywhere below
the folder that ``BARNABAS_ORACLES`` names; by default the copies next to this module. Each line is a recorded answer of
a real Kafka 4.3.1, and every line is checked.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "CORPORA",
    "Line",
    "check_all",
    "checked_lines",
    "grouped",
    "read_lines",
    "root",
]

CORPORA = (
    "wire",
    "headers",
    "wire-mutated",
    "envelope",
    "records",
    "batches",
    "vectors",
    "acl-validation",
    "authorizer",
    "connect",
)
"""The corpora that tests of this folder read."""

_FAILURES_SHOWN = 5
_NAMING_KEYS = ("family", "type", "api", "kind", "version", "variant", "name", "how")


class Line(NamedTuple):
    """One answer of Kafka and its place in the corpus."""

    file: str
    number: int
    data: dict[str, Any]

    def __str__(self) -> str:
        named = {key: self.data[key] for key in _NAMING_KEYS if key in self.data}
        return f"{self.file}:{self.number} {named}"


def root() -> Path:
    """Return the folder that is searched for corpora."""
    return Path(os.environ.get("BARNABAS_ORACLES") or Path(__file__).parent / "data")


@cache
def checked_lines(corpus: str) -> tuple[Line, ...]:
    return tuple(read_lines(corpus))


def grouped(corpus: str, key: Callable[[dict[str, Any]], str]) -> dict[str, list[Line]]:
    """Return the lines of a corpus by name, so that a failing test names its subject."""
    groups: dict[str, list[Line]] = {}
    for line in checked_lines(corpus):
        groups.setdefault(key(line.data), []).append(line)
    return groups


def check_all(lines: Iterable[Line], check: Callable[[dict[str, Any]], None]) -> None:
    """Run a check on every line, and fail with the first few failing lines and their total number."""
    failures: list[str] = []
    total = 0
    for line in lines:
        total += 1
        try:
            check(line.data)
        except Exception as error:
            failures.append(f"{line}\n      {type(error).__name__}: {str(error)[:600]}")
    if failures:
        shown = "\n  ".join(failures[:_FAILURES_SHOWN])
        raise AssertionError(f"{len(failures)} of {total} lines differ from Kafka:\n  {shown}")


def read_lines(corpus: str) -> list[Line]:
    """Return every line of a corpus, from all of its files below ``root()``."""
    lines: list[Line] = []
    for path in sorted(root().rglob("*.jsonl.gz")):
        if _corpus_of(path.name) == corpus:
            with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
                texts = [(number, text) for number, text in enumerate(file, 1) if text.strip()]
            lines += (Line(path.name, number, json.loads(text)) for number, text in texts)
    return lines


def _corpus_of(file_name: str) -> str | None:
    stem = file_name.removesuffix(".jsonl.gz")
    matches = [corpus for corpus in CORPORA if stem == corpus or stem.startswith(f"{corpus}-")]
    return max(matches, key=len, default=None)
