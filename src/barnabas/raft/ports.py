"""The ports that the raft node uses, as types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["RandomBelow", "RecordSerde"]

RandomBelow = Callable[[int], int]
"""Returns a uniform integer in [0, n); the driver passes real randomness, tests and the simulator a seed."""


class RecordSerde(Protocol):
    """Converts the records of the layer above to the value bytes of the log's data records, and back."""

    def encode(self, record: Any) -> bytes: ...

    def decode(self, value: bytes | memoryview) -> Any: ...
