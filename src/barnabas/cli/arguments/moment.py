"""Parse and format points in time, as options and tables have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["parse_time", "time_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> int:
    """Return milliseconds since 1970. Raises ValueError with the forms that are allowed."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        return since // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text}: write a time as 2026-01-31T12:30:00.000, with +01:00 for a zone, or in milliseconds since 1970"
        ) from None


def time_text(time_ms: int) -> str:
    """``2026-01-31T12:30:00.000Z``; the number itself if the calendar does not have it."""
    try:
        when = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return f"{when:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
