"""What an HTTP answer means for a request, and how long to wait before the next attempt. Pure: no socket, no clock.

A 2xx accepts the request. A status to retry, and a connection that failed, lead to another attempt with the same
idempotency key. A status of refused data is about the records in the request: it is divided until the refused records
are known. Any other answer, a redirect included, is about the settings, so it fails the task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum

from barnabas.common.config_value import ConfigException

__all__ = ["Backoff", "Meaning", "StatusCodes", "StatusCodesValidator", "meaning_of", "retry_after_s"]

_CODES = re.compile(r"([1-9]\d\d)(?:-([1-9]\d\d))?")
_RETRY_AFTER_MAX_S = 3600
"""The longest pause that a server may ask for. It has to end one day even if the server's clock is wrong."""


class Meaning(Enum):
    ACCEPTED = "accepted"
    RETRY = "retry"
    REFUSED = "refused"
    TOO_LARGE = "too large"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StatusCodes:
    """Status codes and ranges of them, such as ``429,500-599``."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, items: Sequence[object]) -> StatusCodes:
        """Parse the items. Raise ValueError."""
        ranges = []
        for item in items:
            found = _CODES.fullmatch(str(item).strip())
            if found is None or int(found[2] or found[1]) < int(found[1]):
                raise ValueError(f"{item} is not a status code such as 429, or a range such as 500-599")
            ranges.append((int(found[1]), int(found[2] or found[1])))
        return cls(tuple(ranges))

    def __contains__(self, status: int) -> bool:
        return any(first <= status <= last for first, last in self.ranges)


class StatusCodesValidator:
    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        try:
            StatusCodes.of(value if isinstance(value, list) else [])
        except ValueError as error:
            raise ConfigException(name, value, str(error)) from None

    def __str__(self) -> str:
        return "status codes such as 429, or ranges such as 500-599"


def meaning_of(status: int, retried: StatusCodes, refused: StatusCodes) -> Meaning:
    if 200 <= status < 300:
        return Meaning.ACCEPTED
    if status in retried:
        return Meaning.RETRY
    if status in refused:
        return Meaning.TOO_LARGE if status == 413 else Meaning.REFUSED
    return Meaning.FAILED


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the pause that ``Retry-After`` asks for, in seconds or as a date (RFC 9110, 10.2.3); None without one."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return float(min(int(text[:10]), _RETRY_AFTER_MAX_S))
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), _RETRY_AFTER_MAX_S)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double, up to a limit."""

    first_ms: int
    max_ms: int

    def pause_s(self, attempt: int, asked_s: float | None, random: float) -> float:
        """Return the pause before the next attempt. ``random`` is in [0, 1): a fifth of the pause varies, so that
        tasks which failed together do not return together. A server's own wish is the least that is waited."""
        pause_ms = min(self.first_ms << min(attempt, 30), self.max_ms) * (0.8 + 0.2 * random)
        return max(pause_ms / 1000, asked_s or 0.0)
