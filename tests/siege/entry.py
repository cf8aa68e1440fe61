"""One hostile input: the payloads, the listener, the user, and the way of sending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.siege.stage import Scene

__all__ = ["Entry", "Payloads", "Way"]

Payloads = Callable[[Scene, Random], list[bytes]]


class Way(Enum):
    """How a connection sends its payloads, in turn."""

    EXCHANGE = "send one, wait for the answer, send the next"
    PIPELINE = "send one after the other and read the answers"
    NEVER_READ = "send one after the other and never read"
    HOLD = "send one and keep the connection open"
    DRIP = "send one byte at a time"


@dataclass(frozen=True)
class Entry:
    """``user`` None: before a login, or on a listener without logins."""

    name: str
    listener: str
    payloads: Payloads
    user: str | None = None
    way: Way = Way.EXCHANGE
    connections: int = 4
    is_below_tls: bool = False
    """Bytes go to the socket, not through TLS."""
