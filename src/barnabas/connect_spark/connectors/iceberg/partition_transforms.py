"""The setting ``partition.by`` of Iceberg tables: ``days(ts), bucket(16, id), country``."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["PartitionTransform", "parse_transforms"]

_KINDS = {
    **{name: name.removesuffix("s") for name in ("years", "months", "days", "hours")},
    **{name: name for name in ("year", "month", "day", "hour", "identity", "bucket", "truncate")},
}
_NUMBERED = ("bucket", "truncate")
_ITEM = re.compile(
    r"\s*(?:(?P<kind>\w+)\s*\(\s*(?:(?P<number>\d+)\s*,)?\s*(?P<of>[^(),]+?)\s*\)|(?P<name>[^(),]+?))\s*"
)


@dataclass(frozen=True, slots=True)
class PartitionTransform:
    kind: str
    """identity, year, month, day, hour, bucket or truncate."""
    column: str
    number: int | None = None
    """The number of buckets, or the width to truncate to."""

    @property
    def label(self) -> str:
        """Return the transform as Iceberg writes it: ``bucket[16]``."""
        return self.kind if self.number is None else f"{self.kind}[{self.number}]"


def parse_transforms(text: str) -> list[PartitionTransform]:
    """Return the transforms. Raise ValueError, which names the part that is wrong and what is allowed."""
    return [_parsed(item.strip()) for item in _items(text)]


def _items(text: str) -> list[str]:
    """Split at the commas outside of parentheses."""
    return [item for item in re.split(r",(?![^(]*\))", text) if item.strip()]


def _parsed(item: str) -> PartitionTransform:
    found = _ITEM.fullmatch(item)
    if found is None:
        raise ValueError(f"{item} is neither a column nor a transform: {_ALLOWED}.")
    if found["name"]:
        return PartitionTransform("identity", found["name"])
    kind, number = _KINDS.get(found["kind"].lower()), found["number"]
    if kind is None:
        raise ValueError(f"{item}: {found['kind']} is not a transform: {_ALLOWED}.")
    if (kind in _NUMBERED) != (number is not None):
        needs = "needs a number first" if kind in _NUMBERED else "takes no number"
        raise ValueError(f"{item}: {kind} {needs}: {_ALLOWED}.")
    if number is not None and int(number) < 1:
        raise ValueError(f"{item}: the number must be at least 1.")
    return PartitionTransform(kind, found["of"], None if number is None else int(number))


_ALLOWED = (
    "write a column, years(column), months(column), days(column), hours(column), bucket(16, column) or "
    "truncate(4, column)"
)
