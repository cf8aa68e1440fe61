"""Decide whether a transaction is visible in a snapshot of the database. No I/O.

The text of a snapshot is that of ``pg_current_snapshot()``: ``xmin:xmax:xip,xip``. Its transaction ids have 64 bits,
those in the log the lower 32, so the nearest one to the snapshot is meant.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Snapshot"]

_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class Snapshot:
    xmin: int
    """All transactions before this one have ended."""
    xmax: int
    """No transaction from this one on had begun."""
    in_progress: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Raise ValueError."""
        parts = text.split(":")
        if len(parts) != 3:
            raise ValueError(f"{text!r} is not a snapshot, such as 10:20:10,14")
        return cls(int(parts[0]), int(parts[1]), frozenset(int(xid) for xid in parts[2].split(",") if xid))

    def sees(self, xid: int) -> bool:
        """Return whether a transaction that has committed is visible. ``xid`` has 32 bits."""
        full = self._full(xid)
        return full < self.xmin or (full < self.xmax and full not in self.in_progress)

    def _full(self, xid: int) -> int:
        full = self.xmax // _WRAP * _WRAP + xid
        if full - self.xmax > _WRAP // 2:
            return full - _WRAP
        return full + _WRAP if self.xmax - full > _WRAP // 2 else full
