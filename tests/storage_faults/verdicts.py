"""The outcome of a cell: a verdict with the same word for our node and for Kafka's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.storage_faults.probe import Found

__all__ = ["Cell", "is_named", "judge_records", "last_line", "worse", "worst"]

_RANK = {
    "-": -1,
    "kept": 0,
    "refused": 1,
    "lost, named": 2,
    "unnamed": 3,
    "lost, silent": 4,
    "traceback": 4,
    "hang": 4,
    "wrong": 5,
}
_LOUD = re.compile(r"WARN|ERROR|FATAL|CRITICAL|Exception")


class Cell(NamedTuple):
    """``verdict`` is a key of the ranking above; ``-`` where no such file exists or the fault changes nothing."""

    verdict: str
    detail: str = ""


def worse(ours: str, theirs: str) -> bool:
    """Return whether ours is worse. Verdicts of one rank are equally bad; an unnamed refusal still keeps the data on
    disk."""
    return "-" not in (ours, theirs) and _RANK[ours] > _RANK[theirs]


def worst(cells: Iterable[Cell]) -> Cell:
    return max(cells, key=lambda cell: _RANK[cell.verdict])


def is_named(path: Path, printed: str) -> bool:
    """Return whether a warning or error line names the file or its directory."""
    names = (str(path), path.name, f"{path.parent.name}/", f"{path.parent.name} ", path.parent.name)
    return any(_LOUD.search(line) and any(name in line for name in names) for line in printed.splitlines())


def judge_records(found: Found, expected: Mapping[int, bytes], *, is_named: bool) -> Cell:
    if found.wrong:
        return Cell("wrong", f"{found.wrong} batches with a wrong checksum were served")
    wrong = sorted(offset for offset, value in found.values.items() if expected.get(offset, value) != value)
    shown = sorted(offset for offset in found.values if offset not in expected)
    if wrong or shown:
        what = f"wrong values at {wrong[:5]}" if wrong else f"aborted or unknown records were served: {shown[:5]}"
        return Cell("wrong", what)
    missing = [offset for offset in expected if offset not in found.values]
    if not missing:
        return Cell("kept")
    if all(offset in found.errors for offset in missing):
        errors = ", ".join(sorted({found.errors[offset] for offset in missing}))
        return Cell("refused" if is_named else "unnamed", f"{len(missing)} of {len(expected)} records: {errors}")
    return Cell("lost, named" if is_named else "lost, silent", f"{len(missing)} of {len(expected)} records")


def last_line(printed: str) -> str:
    lines = [line for line in printed.splitlines() if re.search(r"ERROR|FATAL|CRITICAL|cannot|can't", line)]
    return (lines or printed.splitlines() or [""])[-1][-300:]
