"""Parse the points in time of ``--from``, ``--until`` and ``--timestamp``, and write the times of records."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.time_options import parse_datetime

__all__ = ["parse_point", "time_of"]

_AGO = re.compile(r"-(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (86_400, 3600, 60, 1)
_MILLISECONDS = re.compile(r"\d{1,18}")
_YEAR_DIGITS = 4


def parse_point(text: str, option: str, now_ms: int) -> int:
    """Return milliseconds since 1970 for ``-1h30m`` (ago), ``now``, ISO 8601, or a number. Raise UsageError."""
    if text == "now":
        return now_ms
    if text.startswith("-"):
        ago = _AGO.fullmatch(text)
        parts = ago.groups() if ago is not None else ()
        if not any(parts):
            raise UsageError(f"{option} {text}: write a time ago as in -1h, -30m, -90s or -1d12h")
        ago_s = sum(float(part) * unit for part, unit in zip(parts, _SECONDS, strict=True) if part)
        return max(0, now_ms - int(ago_s * 1000))
    if _MILLISECONDS.fullmatch(text) and len(text) > _YEAR_DIGITS:
        return int(text)
    try:
        return parse_datetime(text, option)
    except UsageError:
        raise UsageError(
            f"{option} {text}: write a time ago as in -1h, a time as in 2026-01-31T12:30:00 (UTC) or "
            "2026-01-31T12:30:00+01:00, or milliseconds since 1970"
        ) from None


def time_of(timestamp_ms: int) -> str:
    """Return the time in ISO 8601 and UTC, or an empty text for a record without one."""
    if timestamp_ms < 0:
        return ""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"
