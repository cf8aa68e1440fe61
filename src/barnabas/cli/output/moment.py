"""Times in tables: UTC, as in 2026-01-31 12:30:00.000Z."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["moment"]


def moment(timestamp_ms: int | None, *, none: str = "-", timespec: str = "milliseconds") -> str:
    """Format milliseconds since 1970. ``none`` stands for a missing time; a time after the year 9999 is a number."""
    if timestamp_ms is None:
        return none
    try:
        time = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return time.replace(tzinfo=None).isoformat(sep=" ", timespec=timespec) + "Z"
