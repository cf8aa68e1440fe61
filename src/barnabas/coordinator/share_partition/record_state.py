"""The delivery states of a record, as the persister stores them.

::

    AVAILABLE -> ACQUIRED -> ACKNOWLEDGED
        ^           |
        |           +------> ARCHIVED
        +-----------+

A member acquires a record, and accepts, releases or rejects it. A record that was delivered as often as allowed is
archived instead of released. Records below the log's start are archived from any state but ACKNOWLEDGED.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["AcknowledgeType", "RecordState"]


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


class AcknowledgeType(IntEnum):
    GAP = 0
    """No record exists at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member keeps the record, and its lock begins again (KIP-1222)."""
