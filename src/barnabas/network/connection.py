"""One client connection: frames in, responses out in request order.

Requests of a connection are handled one after the other, as in Kafka: while one waits (a long poll, a join), the next
ones stay queued and the socket is not read. Handlers run inline; only a handler that waits becomes a task. Requests
whose answers are promised (``promised_answer``) are handled together, and answered in order. If a client
does not read its responses, its requests are not read either. The unread part of a large response stays where it is (in
a mapped segment) instead of being copied.

On a listener with SASL ``network.authentication`` receives the frames first; nothing is served before authentication.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, cast

from barnabas.network.close_connection import CloseConnection
from barnabas.network.framing import FrameReader, InvalidFrameSize
from barnabas.network.later_answer import LaterAnswer
from barnabas.network.loop_scheduler import TURN_S
from barnabas.network.promised_answer import PromisedAnswer, PromisedAnswers
from barnabas.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from barnabas.network.authentication import Authentication, ConnectionSecurity
    from barnabas.network.loop_scheduler import LoopShare
    from barnabas.network.request_limits import RequestLimits
    from barnabas.security.sasl.sasl_listener import SaslListener

__all__ = ["Answer", "Connection", "ConnectionOwner", "RequestProcessor"]

log = logging.getLogger(__name__)

_SIZE = Struct(">i")
_QUEUED_FRAMES_MAX = 8
_QUEUED_BYTES_MAX = 1024 * 1024
"""Frames that may wait while a request is answered; reading stops at this limit."""
_WRITE_BUFFER_HIGH = 4 * 1024 * 1024
_WRITE_BUFFER_BEFORE_LOGIN = 64 * 1024
_GOODBYE_S = 5.0
_WRITE_PIECE = 1024 * 1024

Answer = list[bytes | memoryview] | None
"""Header and body of a response in pieces, or None when the request has no answer (acks=0)."""


class RequestProcessor(Protocol):
    def process(self, connection: Connection, frame: bytearray) -> Answer | PromisedAnswer[Any] | Awaitable[Answer]:
        """Answer one request; raises CloseConnection if it cannot be answered."""
        ...


class ConnectionOwner(Protocol):
    """The owner of a connection, which is notified when it opens and ends."""

    name: str
    request_limits: RequestLimits
    loop_share: LoopShare
    processor: RequestProcessor
    security: ConnectionSecurity | None
    """None where all clients are anonymous."""

    def opened(self, connection: Connection) -> bool:
        """False refuses the connection."""
        ...

    def closed(self, connection: Connection) -> None: ...

    def login_failed(self, connection: Connection, reason: str) -> None:
        """Called for a failed SASL login. ``reason`` reveals no secret, and not whether the user exists."""
        ...

    def broke_protocol(self, connection: Connection, reason: str) -> None:
        """Called when a connection closes because a request of it can't be answered."""
        ...


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_account",
        "_authentication",
        "_awaited",
        "_busy",
        "_caller",
        "_close_listeners",
        "_closing",
        "_corked",
        "_frames",
        "_is_in_rotation",
        "_is_keeping_promises",
        "_loop",
        "_owner",
        "_processor",
        "_promised",
        "_reader",
        "_reading_paused",
        "_resting",
        "_transport",
        "_unsent",
        "_writing_paused",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "last_active",
        "mechanism",
        "peer_certificate_der",
        "peer_host",
        "peer_port",
        "principal",
    )

    def __init__(self, owner: ConnectionOwner, loop: asyncio.AbstractEventLoop, connection_id: str) -> None:
        self._owner = owner
        self._processor = owner.processor
        self._authentication: Authentication | None = None
        self._loop = loop
        self._reader = FrameReader(owner.request_limits.frames)
        self._frames: deque[bytearray] = deque()
        self._busy: asyncio.Task[None] | bool = False
        self._awaited: Awaitable[Answer] | None = None
        """What the task will await that was created and has not begun."""
        self._caller: Hashable = self
        self._close_listeners: list[Callable[[], None]] | None = None
        self._account = owner.loop_share.account(None)
        self._is_in_rotation = False
        self._promised: PromisedAnswers | None = None
        """Answers that are promised, and those behind them."""
        self._is_keeping_promises = False
        self._closing = False
        self._corked: list[bytes] | None = None
        self._reading_paused = False
        self._resting: asyncio.TimerHandle | None = None
        self._writing_paused = False
        self._unsent: deque[bytes | memoryview] = deque()
        self._transport: asyncio.Transport | None = None
        self.connection_id = connection_id
        self.principal: Principal = ANONYMOUS
        self.mechanism: str | None = None
        self.peer_certificate_der: bytes | None = None
        self.peer_host = ""
        self.peer_port = 0
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"
        self.last_active = loop.time()

    @property
    def listener_name(self) -> str:
        return self._owner.name

    @property
    def peer(self) -> str:
        return f"{self.peer_host}:{self.peer_port}"

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_waiting(self) -> bool:
        """True while a request is being answered."""
        return bool(self._busy) or bool(self._promised)

    # --- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        if address:
            self.peer_host, self.peer_port = address[0], address[1]
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_HIGH)
        self._account = self._owner.loop_share.account(self.peer_host)
        if not self._owner.opened(self):
            self.abort()
        elif self._owner.security is not None and self._owner.security.sasl is not None:
            self._begin_authentication(self._owner.security, self._owner.security.sasl)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._frames.clear()
        self._unsent.clear()
        self._promised = None
        if isinstance(self._busy, asyncio.Task):
            self._busy.cancel()
        if isinstance(self._awaited, Coroutine | LaterAnswer):
            self._awaited.close()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        self._transport = None
        if self._authentication is not None:
            self._authentication.closed()
            self._authentication = None
            self._processor = self._owner.processor
        self._owner.closed(self)
        listeners, self._close_listeners = self._close_listeners, None
        for listener in listeners or ():
            listener()

    def add_close_listener(self, listener: Callable[[], None]) -> None:
        """Call the listener once when the connection is lost; soon if it was already."""
        if self._transport is None:
            self._loop.call_soon(listener)
        elif self._close_listeners is None:
            self._close_listeners = [listener]
        else:
            self._close_listeners.append(listener)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.next_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        started = self.last_active = self._loop.time()
        account = self._account
        is_waiting = self._is_in_rotation or account.is_overdrawn(started)
        end_of_turn = started + TURN_S
        is_first = True
        # Pipelined requests that arrived together are answered in one write: a system call costs more than a request.
        self._corked = []
        try:
            for frame in self._reader.received(nbytes):
                if self._closing:
                    break
                if self._frames or self._must_wait(frame):
                    self._frames.append(frame)
                elif not is_waiting and (is_first or self._loop.time() < end_of_turn):
                    is_first = False
                    self._handle(frame)
                else:
                    self._frames.append(frame)
                    self._wait_for_turn()
        except InvalidFrameSize as error:
            if self._authentication is not None and self._authentication.is_pending:
                self._authentication.refuse(str(error))
            else:
                self._refuse(str(error))
        finally:
            self._uncork()
            account.charge(self._loop.time() - started)
        if not self._reading_paused and self._has_enough_frames() and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._write_unsent()
        if not self._unsent:
            if self._closing and self._transport is not None:
                self._transport.close()
            self._continue()

    # --- authentication

    def _begin_authentication(self, security: ConnectionSecurity, sasl: SaslListener) -> None:
        from barnabas.network.authentication import Authentication  # Only a listener with SASL needs it.

        self._reader.set_limits(self._owner.request_limits.before_login(sasl.receive_bytes_max))
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BEFORE_LOGIN)
        self._authentication = Authentication(self, self._owner, security, sasl, self._loop)
        self._processor = self._authentication

    def expect_raw_tokens(self, bytes_max: int) -> None:
        """Frames have no headers until the login is complete."""
        self._reader.set_limits(self._owner.request_limits.raw_tokens(bytes_max))

    def authenticated(self, principal: Principal, mechanism: str, *, is_for_good: bool) -> None:
        """Set the principal of the connection; ``is_for_good`` ends the inspection of its requests."""
        self.principal = principal
        self.mechanism = mechanism
        self._caller = principal
        self._account = self._owner.loop_share.account(principal)
        if is_for_good:
            self._processor = self._owner.processor
        self._reader.set_limits(self._owner.request_limits.frames)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_HIGH)

    def end_after(self, delay_s: float, answer: bytes | None) -> None:
        """Stop reading; after the delay send the answer, if any, and close.

        A client that does not read the answer within some seconds is cut off: a graceful close waits for the peer.
        """
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        self._busy = True
        self._frames.clear()
        if self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
        self._loop.call_later(delay_s, self._end, answer)

    def _end(self, answer: bytes | None) -> None:
        if answer is not None:
            self.send([answer])
        self.close()
        if self._transport is not None:
            self._loop.call_later(_GOODBYE_S, self.abort)

    # --- requests

    def _handle(self, frame: bytearray) -> None:
        try:
            answer = self._processor.process(self, frame)
        except CloseConnection as error:
            self._refuse_in_turn(str(error))
        except Exception:
            log.exception("request from %s failed unexpectedly; closing the connection", self.peer)
            self.abort()
        else:
            if type(answer) is list:
                self._send_in_turn(answer)
            elif type(answer) is PromisedAnswer:
                self._promise(answer, frame)
            elif isinstance(answer, Awaitable):
                self._awaited = answer
                self._busy = self._loop.create_task(self._wait_for(answer))

    async def _wait_for(self, awaitable: Awaitable[Answer]) -> None:
        self._awaited = None
        try:
            answer = await awaitable
        except asyncio.CancelledError:
            return
        except CloseConnection as error:
            self._refuse_in_turn(str(error))
            return
        except Exception:
            log.exception("request from %s failed unexpectedly; closing the connection", self.peer)
            self.abort()
            return
        self._busy = self._resting is not None
        self.last_active = self._loop.time()
        if answer is not None:
            self._send_in_turn(answer)
        self._continue()

    # --- promised answers

    def _must_wait(self, frame: bytearray) -> bool:
        """Return whether a request must wait for earlier ones."""
        if self._busy or self._writing_paused:
            return True
        return self._promised is not None and self._promised.delay(frame)

    def _promise(self, answer: PromisedAnswer[Any], frame: bytearray) -> None:
        if self._promised is None:
            self._promised = PromisedAnswers(frame)
        self._promised.add(answer)
        answer.when_given(self._promise_kept)

    def _promise_kept(self) -> None:
        """Send all answers in one write when the last one is given, which is usually the case at the same time."""
        if self._promised is None or self._is_keeping_promises:
            return
        if self._promised.are_all_given() and not self._frames:
            self._send_promised()
        else:
            self._is_keeping_promises = True
            self._loop.call_soon(self._keep_promises)

    def _keep_promises(self) -> None:
        self._is_keeping_promises = False
        self._send_promised()
        self._continue()

    def _send_promised(self) -> None:
        started = self.last_active = self._loop.time()
        outer, self._corked = self._corked, []
        try:
            self._send_given()
        finally:
            self._uncork()
            self._corked = outer
            self._account.charge(self._loop.time() - started)

    def _send_given(self) -> None:
        while self._promised is not None and (given := self._promised.pop_given()) is not None:
            if not self._promised:
                self._promised = None
            try:
                answer = given.take()
            except CloseConnection as error:
                self._refuse(str(error))
            except Exception:
                log.exception("the answer to %s failed unexpectedly; closing the connection", self.peer)
                self.abort()
            else:
                if answer is not None:
                    self.send(answer)

    def _send_in_turn(self, answer: Sequence[bytes | memoryview]) -> None:
        """Send an answer after the promised ones of earlier requests."""
        if self._promised is None:
            self.send(answer)
        else:
            self._promised.add_given(lambda _: answer)

    def _refuse_in_turn(self, reason: str) -> None:
        """Close the connection for a request, after the promised answers to earlier ones."""
        if self._promised is None:
            self._refuse(reason)
            return

        def refuse(_: object) -> Answer:
            raise CloseConnection(reason)

        self._busy = True
        self._frames.clear()
        self._promised.add_given(refuse)

    # --- turns

    def _wait_for_turn(self) -> None:
        if not self._is_in_rotation:
            self._is_in_rotation = True
            self._owner.loop_share.wait(self._caller, self)

    def take_turn(self) -> bool:
        """Part of ``loop_share.Waiting``."""
        self._is_in_rotation = False
        started = self._loop.time()
        self._corked = []
        try:
            self._handle_some(started + TURN_S)
        finally:
            self._uncork()
            self._account.charge(self._loop.time() - started)
        if self._has_work():
            self._is_in_rotation = True
        else:
            self._maybe_resume_reading()
        return self._is_in_rotation

    def _handle_some(self, end_of_turn: float) -> None:
        while self._has_work():
            self._handle(self._frames.popleft())
            if self._loop.time() >= end_of_turn:
                return

    def _continue(self) -> None:
        """Continue with the requests that arrived meanwhile: immediately, or in the rotation if they are too many."""
        if self._is_in_rotation:
            return
        if self._frames and not self._account.is_overdrawn(started := self._loop.time()):
            self._handle_some(started + TURN_S)
            self._account.charge(self._loop.time() - started)
        if self._has_work():
            self._wait_for_turn()
        else:
            self._maybe_resume_reading()

    def _has_work(self) -> bool:
        """Return whether the next request can be handled now."""
        return bool(self._frames) and not self._closing and not self._must_wait(self._frames[0])

    def _has_enough_frames(self) -> bool:
        frames = self._frames
        return len(frames) >= _QUEUED_FRAMES_MAX or (len(frames) > 0 and sum(map(len, frames)) >= _QUEUED_BYTES_MAX)

    def _maybe_resume_reading(self) -> None:
        if self._transport is None or self._busy:
            return
        if self._reading_paused and not self._has_enough_frames():
            self._reading_paused = False
            self._transport.resume_reading()

    def rest(self, seconds: float) -> None:
        """Mute the connection for so long after the current request; meanwhile it is not read either."""
        if self._transport is None or self._closing:
            return
        if self._resting is not None:
            self._resting.cancel()
        self._resting = self._loop.call_later(seconds, self._rested)
        if not self._busy:
            self._busy = True
        if not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def wake(self) -> None:
        """End the mute time."""
        if self._resting is not None:
            self._resting.cancel()
            self._rested()

    def _rested(self) -> None:
        self._resting = None
        self._busy = False
        self.last_active = self._loop.time()
        self._continue()

    def send(self, parts: Sequence[bytes | memoryview]) -> None:
        """Write one frame; large parts are passed to the transport without a copy."""
        transport = self._transport
        if transport is None or self._closing:
            return
        if len(parts) == 1:
            data = _SIZE.pack(len(parts[0])) + parts[0]
            if self._unsent:
                self._unsent.append(data)
            elif self._corked is None:
                transport.write(data)
            else:
                self._corked.append(data)
            return
        if self._corked:
            self._unsent.append(b"".join(self._corked))
            self._corked = []
        total = sum(map(len, parts))
        small: list[bytes | memoryview] = [_SIZE.pack(total)]
        for part in parts:
            if len(part) < 65536:
                small.append(part)
            else:
                if small:
                    self._unsent.append(b"".join(small))
                    small = []
                self._unsent.append(part)
        if small:
            self._unsent.append(b"".join(small))
        self._write_unsent()

    def _write_unsent(self) -> None:
        """Write as much as the transport accepts; the rest follows when the client has read."""
        unsent, transport = self._unsent, self._transport
        while unsent and not self._writing_paused and transport is not None:
            part = unsent.popleft()
            if len(part) > _WRITE_PIECE:
                view = memoryview(part)
                unsent.appendleft(view[_WRITE_PIECE:])
                part = view[:_WRITE_PIECE]
            transport.write(part)

    def _uncork(self) -> None:
        corked, self._corked = self._corked, None
        if corked and self._transport is not None:
            self._transport.write(corked[0] if len(corked) == 1 else b"".join(corked))

    # --- closing

    def _refuse(self, reason: str) -> None:
        """Close the connection because of a request that cannot be answered."""
        self._owner.broke_protocol(self, reason)
        self.close()

    def close(self) -> None:
        """Close after all written responses have been sent."""
        self._uncork()
        self._closing = True
        if self._transport is not None and not self._unsent:
            self._transport.close()

    def abort(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()
