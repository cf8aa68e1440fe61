"""The body of a request: read once, within limits of size, time and memory, and available to a mounted application.

An unauthenticated sender may send little. A signed request may be as large as a member of the group needs it,
but the signature can be verified only with the whole body: until then it counts as unproven. All bodies in memory share
one limit. The unproven ones may use half of it, and one address at most one body of the largest size, so that unknown
clients can't block members and users. Bodies up to ``SMALL_BYTES`` are always accepted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.types import Message, Receive

from barnabas.connect.errors import ConnectError
from barnabas.connect.rest.responses import Refused

__all__ = ["SMALL_BYTES", "BodyLimits", "BodyMemory", "RequestBody", "Sender"]

SMALL_BYTES = 64 * 1024
_TIMEOUT_S = 30.0
_MIB = 1024 * 1024


class _Incomplete(ConnectError):
    http_status = 408


class _NoRoom(ConnectError):
    http_status = 503


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """``bytes_max``: for a request of a known user, or a signed one. ``anonymous_bytes_max``: for any other.
    ``memory_bytes_max``: for all bodies that are in memory at a time."""

    bytes_max: int = 16 * _MIB
    anonymous_bytes_max: int = _MIB
    memory_bytes_max: int = 64 * _MIB


@dataclass(frozen=True, slots=True)
class Sender:
    address: str
    is_proven: bool
    """Whether the sender is authenticated."""


class BodyMemory:
    """The memory used for bodies, by all requests of a worker."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._taken = 0
        self._unproven = 0
        self._by_address: dict[str, int] = {}

    def take(self, count: int, sender: Sender) -> bool:
        """Reserve ``count`` more bytes. Return False without room for them."""
        limits, of_address = self._limits, self._by_address.get(sender.address, 0)
        if self._taken + count > limits.memory_bytes_max:
            return False
        if not sender.is_proven:
            if self._unproven + count > limits.memory_bytes_max // 2 or of_address + count > limits.bytes_max:
                return False
            self._unproven += count
            self._by_address[sender.address] = of_address + count
        self._taken += count
        return True

    def give_back(self, count: int, sender: Sender) -> None:
        self._taken -= count
        if sender.is_proven:
            return
        self._unproven -= count
        self._by_address[sender.address] -= count
        if not self._by_address[sender.address]:
            del self._by_address[sender.address]

    @property
    def taken(self) -> int:
        return self._taken


class RequestBody:
    """``content_length`` is the header's value, so that a body that is too long is not read at all."""

    def __init__(self, receive: Receive, memory: BodyMemory, content_length: str | None = None) -> None:
        self._receive = receive
        self._memory = memory
        is_number = content_length is not None and content_length.isascii() and content_length.isdigit()
        self._length = int((content_length or "0")[:20]) if is_number else 0
        self._body: bytes | None = None
        self._is_replayed = False
        self._taken: tuple[int, Sender] | None = None

    async def read(self, bytes_max: int, sender: Sender) -> bytes:
        """Read the body. Raise Refused if it is too long, and a ConnectError if it does not arrive, or has no room."""
        if self._body is None:
            if self._length > bytes_max:
                raise Refused(413)
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    self._body = await self._read(bytes_max, sender)
            except TimeoutError:
                raise _Incomplete(f"The body of the request was not complete within {_TIMEOUT_S:g} s.") from None
        return self._body

    def release(self) -> None:
        """Free the memory after the request is answered."""
        if self._taken is not None:
            self._memory.give_back(*self._taken)
            self._taken = None

    async def _read(self, bytes_max: int, sender: Sender) -> bytes:
        pieces: list[bytes] = []
        length = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise _Incomplete("The connection ended before the body of the request.")
            piece = message.get("body", b"")
            length += len(piece)
            if length > bytes_max:
                raise Refused(413)
            if length > SMALL_BYTES:
                self._take(length, sender)
            if piece:
                pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take(self, length: int, sender: Sender) -> None:
        before = 0 if self._taken is None else self._taken[0]
        if not self._memory.take(length - before, sender):
            raise _NoRoom(
                "The worker's memory for request bodies is full "
                "(barnabas.connect.request.memory.max.bytes). Send the request again later."
            )
        self._taken = (length, sender)

    async def receive(self) -> Message:
        """Read the body from its beginning."""
        if self._body is None or self._is_replayed:
            return await self._receive()
        self._is_replayed = True
        return {"type": "http.request", "body": self._body, "more_body": False}
