"""One connection to a node: requests are sent immediately, answers arrive in the same order.

Any number of requests may be in flight. A node answers a connection's requests in order, so a missing answer
blocks all others: when one request times out the connection is closed, as in Kafka's clients.
Nothing is retried here; the caller knows whether a repetition is harmless.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast, overload

from barnabas.clients.errors import (
    AuthenticationFailed,
    ClientError,
    Disconnected,
    LoginRequired,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersion,
)
from barnabas.network.framing import FrameReader, InvalidFrameSize
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from barnabas.clients.client_config import Address
    from barnabas.protocol.schema import Message, Request

__all__ = ["NodeConnection", "ResponseReader", "SupportedVersions"]

T = TypeVar("T")
R = TypeVar("R", bound="Message")
ResponseReader: TypeAlias = "Callable[[bytearray, int, int], T]"
"""Decodes an answer from a frame, the version and the start of the body; it may keep the frame."""

_SIZE = Struct(">i")
_RESPONSE_BYTES_MAX = 256 * 1024 * 1024
"""More than any answer has. A TLS record or text that is read as a size has a far larger value."""


class SupportedVersions(NamedTuple):
    min: int
    max: int


class _Expected:
    """An expected answer: its decoder, and its future (cancelled if the caller gave up)."""

    __slots__ = ("api_key", "correlation_id", "future", "read", "version")

    def __init__(
        self,
        correlation_id: int,
        api_key: ApiKey,
        version: int,
        read: ResponseReader[object],
        future: asyncio.Future[Any],
    ) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.version = version
        self.read = read
        self.future = future


class NodeConnection(asyncio.BufferedProtocol):
    """Created by ``clients.network_client``; other callers use ``request``."""

    def __init__(
        self,
        address: Address,
        *,
        client_id: str,
        request_timeout_s: float,
        is_plaintext: bool = True,
        uses_sasl: bool = False,
    ) -> None:
        """The last two describe this side's setup; errors derive from them what the node may expect."""
        self.address = address
        self.versions: Mapping[int, SupportedVersions] = {}
        self.features: Mapping[str, int] = {}
        """The finalized level of each feature when the connection was opened."""
        self.client_id = client_id
        self._is_plaintext = is_plaintext
        self._uses_sasl = uses_sasl
        self._answer_count = 0
        self._log_in_again: Callable[[], Awaitable[None]] | None = None
        self._log_in_at = 0.0
        self._logging_in = asyncio.Lock()
        self._request_timeout_s = request_timeout_s
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(_RESPONSE_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._expected: deque[_Expected] = deque()
        self._correlation_id = 0
        self._ended: ClientError | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._lost = self._loop.create_future()
        self._received_s = 0.0
        self.silence_limit_s: float | None = None
        """Seconds for which the node may be silent while an answer is due; applies to later requests."""

    @property
    def is_open(self) -> bool:
        return self._ended is None and self._transport is not None

    @property
    def in_flight(self) -> int:
        return len(self._expected)

    def version_of(self, api_key: int) -> int:
        """Return the highest version that both sides support. Raise UnsupportedVersion."""
        info = API_TABLE[ApiKey(api_key)]
        offered = self.versions.get(api_key)
        if offered is None:
            raise UnsupportedVersion(f"the node at {self.address} does not offer {info.name}")
        version = min(info.highest, offered.max)
        if version < max(info.lowest, offered.min):
            raise UnsupportedVersion(
                f"the node at {self.address} speaks {info.name} in versions {offered.min} to {offered.max}, "
                f"this client in {info.lowest} to {info.highest}"
            )
        return version

    @overload
    async def request(
        self, message: Request[R], *, version: int | None = None, timeout_s: float | None = None, read: None = None
    ) -> R: ...

    @overload
    async def request(
        self,
        message: Request[Message],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        read: ResponseReader[T],
    ) -> T: ...

    async def request(
        self,
        message: Request[Message],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        read: ResponseReader[object] | None = None,
    ) -> object:
        """Send a request and return its response, whatever its error code is.

        ``version`` is negotiated unless given. ``read`` may defer the decoding of an answer that can be very large.
        Raise a ClientError without a response.
        """
        if self._log_in_again is not None:
            await self._keep_session(self._log_in_again)
        if version is None:
            version = self.version_of(message.API_KEY)
        await self._can_write.wait()
        return await self._start(message, version, timeout_s, read or message.response_type().decode)

    async def exchange(self, message: Request[R], *, version: int | None = None) -> R:
        """Send a request without waiting for a renewed session: for the login itself."""
        if version is None:
            version = self.version_of(message.API_KEY)
        await self._can_write.wait()
        return await self.start(message, version=version)

    async def ready(self) -> None:
        """Wait until ``start`` may be called: the session is fresh, the socket accepts data. Raise a ClientError."""
        if self._log_in_again is not None:
            await self._keep_session(self._log_in_again)
        await self._can_write.wait()

    def start(self, message: Request[R], *, version: int, timeout_s: float | None = None) -> asyncio.Future[R]:
        """Send a request now, so that requests are sent in the order of these calls. Return a future of its response.

        For callers with several requests in flight; others use ``request``. Raise Disconnected.
        """
        return self._start(message, version, timeout_s, message.response_type().decode)

    def _start(
        self, message: Request[Message], version: int, timeout_s: float | None, read: ResponseReader[T]
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        expected = self._expect(message, version, read, future)
        limit = self._request_timeout_s if timeout_s is None else timeout_s
        timer = self._loop.call_later(limit, self._time_out, expected, limit)
        future.add_done_callback(lambda _: timer.cancel())
        if self.silence_limit_s is not None and self.silence_limit_s < limit:
            self._check_silence(expected, self.silence_limit_s, self._loop.time())
        return future

    def _check_silence(self, expected: _Expected, limit_s: float, since_s: float) -> None:
        """End the connection if nothing arrived for so long; ``since_s`` is when the request was sent."""
        if expected.future.done():
            return
        due_s = max(self._received_s, since_s) + limit_s
        if self._loop.time() >= due_s:
            self._end(RequestTimedOut(f"{self.address} sent nothing for {limit_s:g} s"))
            return
        timer = self._loop.call_at(due_s, self._check_silence, expected, limit_s, since_s)
        expected.future.add_done_callback(lambda _: timer.cancel())

    def send_unanswered(self, message: Request[Message], *, version: int) -> None:
        """Send a request that is never answered: Produce with acks=0. Raise Disconnected."""
        self._write(message, version)

    def set_session(self, log_in_again: Callable[[], Awaitable[None]] | None, after_s: float = 0) -> None:
        """Log in again before the first request after so many seconds: otherwise the node would disconnect."""
        self._log_in_again = log_in_again
        self._log_in_at = self._loop.time() + after_s

    async def _keep_session(self, log_in: Callable[[], Awaitable[None]]) -> None:
        """Log in again. New requests wait for it; those in flight are answered before."""
        async with self._logging_in:
            if self._loop.time() >= self._log_in_at:
                try:
                    await log_in()
                except ClientError as error:
                    self._end(error)  # The node would close the connection at the next request.
                    raise

    async def close(self) -> None:
        """Close the connection, and fail waiting requests."""
        if self._transport is not None:
            self._end(Disconnected(f"the connection to {self.address} was closed"))
            await asyncio.wait([self._lost], timeout=1)

    def _expect(
        self, message: Request[Message], version: int, read: ResponseReader[T], future: asyncio.Future[T]
    ) -> _Expected:
        correlation_id = self._write(message, version)
        expected = _Expected(correlation_id, ApiKey(message.API_KEY), version, read, future)
        self._expected.append(expected)
        return expected

    def _write(self, message: Request[Message], version: int) -> int:
        transport = self._transport
        if self._ended is not None or transport is None:
            raise Disconnected(f"the connection to {self.address} is closed") from self._ended
        key = ApiKey(message.API_KEY)
        self._correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self.client_id,
        ).encode(request_header_version(key, version))
        body = message.encode(version)
        transport.write(b"".join((_SIZE.pack(len(header) + len(body)), header, body)))
        return self._correlation_id

    def _time_out(self, expected: _Expected, limit: float) -> None:
        name = API_TABLE[expected.api_key].name
        self._end(RequestTimedOut(f"{self.address} did not answer {name} in {limit:g} s"))

    # --- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(self._lost_because(exc))
        self._transport = None
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.next_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._received_s = self._loop.time()
        try:
            for frame in self._reader.received(nbytes):
                if self._ended is not None:
                    return
                self._receive(frame)
        except InvalidFrameSize as error:
            self._end(_no_kafka(self.address, error.size))
        except DecodeError as error:
            self._end(RemoteProtocolError(f"{self.address} sent an answer that can't be read: {error}"))

    def _receive(self, frame: bytearray) -> None:
        if not self._expected:
            self._end(RemoteProtocolError(f"{self.address} sent an answer without a request"))
            return
        expected = self._expected[0]
        key, version = expected.api_key, expected.version
        header, position = ResponseHeader.read(frame, 0, response_header_version(key, version))
        if header.correlation_id != expected.correlation_id:
            self._end(RemoteProtocolError(f"{self.address} answered another request than the next one"))
            return
        if key is ApiKey.API_VERSIONS and _is_unsupported_version(frame, position):
            version = 0  # A node that does not support our version answers in the oldest one.
        response = expected.read(frame, version, position)
        self._expected.popleft()
        self._answer_count += 1
        if not expected.future.done():
            expected.future.set_result(response)

    def _lost_because(self, exc: Exception | None) -> ClientError:
        reason = getattr(exc, "reason", None) or getattr(exc, "strerror", None)
        text = f"{self.address} closed the connection" + (f" ({reason})" if reason else "")
        if isinstance(exc, ssl.SSLError) and "CERTIFICATE" in str(reason).upper():
            return AuthenticationFailed(f"{text} -> it requires a certificate that it trusts (ssl.keystore.location)")
        if self._answer_count == 0 and self._is_plaintext:
            return Disconnected(
                f"{text} before it sent anything -> if its listener is encrypted, "
                "set security.protocol=SSL, or SASL_SSL if it requires a login"
            )
        if self._answer_count == 1 and not self._uses_sasl:
            protocol = "SASL_PLAINTEXT" if self._is_plaintext else "SASL_SSL"
            return LoginRequired(
                f"{text} after its first answer -> if its listener requires a login, "
                f"set security.protocol={protocol}, sasl.mechanism and sasl.jaas.config"
            )
        return Disconnected(text)

    def _end(self, reason: ClientError) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        self._can_write.set()
        for expected in self._expected:
            if not expected.future.done():
                expected.future.set_exception(reason)
        self._expected.clear()
        if self._transport is not None:
            self._transport.abort()


_UNSUPPORTED_VERSION = (35).to_bytes(2, "big")


def _is_unsupported_version(frame: bytearray, position: int) -> bool:
    return frame[position : position + 2] == _UNSUPPORTED_VERSION


def _no_kafka(address: Address, size: int) -> ClientError:
    start = size.to_bytes(4, "big", signed=True)
    if start[0] in (0x15, 0x16) and start[1] == 3:
        return Disconnected(f"{address} requires TLS -> set security.protocol=SSL, or SASL_SSL if it requires a login")
    if start == b"HTTP":
        return Disconnected(f"{address} is a web server, not a Kafka node")
    return RemoteProtocolError(f"{address} does not speak Kafka's protocol")
