"""The handle of a record that ``barnabas queue receive`` has acquired: which agent holds it, and which delivery it is.

The agent's name leads any process of the same user to the agent. The delivery count tells a record from the same record
after its lock has expired and it was acquired again.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.cli.arguments.cluster_options import UsageError

__all__ = ["Handle", "parse_handle"]

_HANDLE = re.compile(r"([0-9a-f]{16})\.([0-9]{1,9})\.([0-9]{1,18})\.([0-9]{1,5})", re.ASCII)


class Handle(NamedTuple):
    agent: str
    partition: int
    offset: int
    delivery_count: int

    def __str__(self) -> str:
        return f"{self.agent}.{self.partition}.{self.offset}.{self.delivery_count}"


def parse_handle(text: str) -> Handle:
    """Raise UsageError for a text that is not a handle."""
    match = _HANDLE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text}: not a handle; 'barnabas queue receive' prints one before each record")
    return Handle(match[1], int(match[2]), int(match[3]), int(match[4]))
