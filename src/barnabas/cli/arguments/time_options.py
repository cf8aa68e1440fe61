"""Parse points in time and durations of options: in the formats of Kafka's tools, and waiting times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from barnabas.cli.arguments.cluster_options import UsageError

__all__ = ["parse_datetime", "parse_duration", "parse_wait"]

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)

_WAIT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)")
_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_datetime(text: str, option: str = "--to-datetime") -> int:
    """Return milliseconds since 1970. A time without a zone is UTC, as in Kafka's tool. Raise UsageError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: write it as in 2026-01-31T12:30:00.000, with +01:00 for a zone") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration(text: str) -> timedelta:
    """Parse a duration. Raise UsageError."""
    match = _DURATION.fullmatch(text)
    parts = {unit: float(value) for unit, value in match.groupdict().items() if value} if match else {}
    if not parts:
        raise UsageError(f"--by-duration {text}: write it as in P7D, PT12H or P1DT2H30M")
    return timedelta(**parts)


def parse_wait(text: str, option: str) -> float:
    """Return the seconds of a waiting time. Raise UsageError."""
    match = _WAIT.fullmatch(text)
    if match is None:
        raise UsageError(f"{option} {text}: write a number with its unit, as in 500ms, 10s, 5m or 1h")
    return float(match[1]) * _SECONDS_PER_UNIT[match[2]]
