"""Check source positions that are set on request (KIP-875). Reject immediately those that the task can't begin at."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["check_positions"]

Positions = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


def check_positions(offsets: Positions, *, partition: Mapping[str, object], offset: Mapping[str, int]) -> None:
    """Check a position. ``partition`` and ``offset`` are examples: 0 stands for any number from 0 on, "..." for any
    text, and any other text for itself. A null offset is always accepted, so that invalid entries can be removed.

    Raise ValueError.
    """
    for given, position in offsets:
        if position is None:
            continue
        for what, found, example in (("partition", given, partition), ("offset", position, offset)):
            if not _is_like(found, example):
                raise ValueError(f"the {what} of this connector must be like {_shown(example)}, not {_shown(found)}")


def _is_like(found: Mapping[str, object] | None, example: Mapping[str, object]) -> bool:
    if found is None or found.keys() != example.keys():
        return False
    return all(_is_value(found[name], wanted) for name, wanted in example.items())


def _is_value(found: object, wanted: object) -> bool:
    if isinstance(wanted, int):
        return isinstance(found, int) and not isinstance(found, bool) and found >= 0
    return isinstance(found, str) and wanted in ("...", found)


def _shown(value: Mapping[str, object] | None) -> str:
    return json.dumps(None if value is None else dict(value))
