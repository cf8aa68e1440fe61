"""SASL on a connection, with a clock that the test advances: deadlines, delays, limits, sessions that expire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.network.connection import Answer, Connection
from barnabas.network.loop_scheduler import LoopShare
from barnabas.network.request_limits import RequestLimits
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas.security.principal import Principal
from barnabas.security.principal_builder import DefaultPrincipalBuilder
from barnabas.security.sasl.plain import PlainServer
from barnabas.security.sasl.sasl_listener import SaslListener, SaslMechanism
from tests.unit.network.test_connection import FakeTransport, answers, receive
from tests.unit.security.sasl.test_sasl_authenticator import (
    GOOD,
    METADATA,
    OTHER,
    WRONG,
    Clock,
    authenticate,
    handshake,
    versions,
)

ALICE = Principal("User", "alice")
_FRAMES = [
    len(frame).to_bytes(4, "big") + frame
    for frame in (
        versions(),
        handshake(),
        handshake(version=0),
        authenticate(GOOD),
        authenticate(WRONG),
        GOOD,
        METADATA,
    )
]


class Timer:
    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """The event loop methods that a connection uses; time does not pass until ``advance``."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(self.now + delay, lambda: callback(*args))
        self.timers.append(timer)
        return timer

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer:
        return self.call_later(0, callback, *args)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end and not timer.is_cancelled]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.callback()
        self.now = end


class Owner:
    """A listener with SASL; authenticated clients receive an echo."""

    name = "EXTERNAL"
    request_limits = RequestLimits(bytes_max=100_000)
    protocol = "SASL_PLAINTEXT"
    principal_builder = DefaultPrincipalBuilder()
    tls = None

    def __init__(self, reauthentication_ms_max: int = 0) -> None:
        self.loop_share = LoopShare()
        self.security = self
        self.processor = self
        self.failures: list[str] = []
        self.served: list[tuple[bytes, Principal]] = []
        self.sasl = SaslListener(
            name=self.name,
            mechanisms={
                "PLAIN": SaslMechanism(
                    lambda: PlainServer({"alice": "alice-secret", "bob": "bob-secret", "*": "star"}),
                    reauthentication_ms_max,
                )
            },
            clock=Clock(),
            receive_bytes_max=1000,
            authentication_timeout_ms=30_000,
            failure_delay_ms=100,
        )

    def process(self, connection: Connection, frame: bytearray) -> Answer:
        self.served.append((bytes(frame), connection.principal))
        if frame[:2] == b"\0\x12":
            return [bytes(frame[4:8]) + b"\0\0"]
        return [b"served"]

    def opened(self, connection: Connection) -> bool:
        return True

    def closed(self, connection: Connection) -> None: ...

    def login_failed(self, connection: Connection, reason: str) -> None:
        self.failures.append(reason)

    def broke_protocol(self, connection: Connection, reason: str) -> None:
        self.failures.append(reason)


class Session:
    def __init__(self, reauthentication_ms_max: int = 0) -> None:
        self.loop = Loop()
        self.owner = Owner(reauthentication_ms_max)
        self.connection = Connection(self.owner, self.loop, "EXTERNAL-1")  # type: ignore[arg-type]
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)

    def send(self, *frames: bytes) -> list[bytes]:
        before = len(answers(self.transport))
        receive(self.connection, *frames)
        return answers(self.transport)[before:]

    def log_in(self) -> None:
        self.send(handshake())
        self.send(authenticate(GOOD))
        assert self.connection.principal == ALICE


def test_nothing_is_served_before_the_login_and_everything_after_it() -> None:
    session = Session()
    session.send(versions())
    session.log_in()
    assert session.send(METADATA) == [b"served"]
    assert session.owner.served[-1] == (METADATA, ALICE)
    assert session.owner.sasl.stats.of("PLAIN").successful == 1


def test_a_request_before_the_login_closes_the_connection_without_being_served() -> None:
    session = Session()
    assert session.send(METADATA) == []
    assert session.owner.served == []
    session.loop.advance(0.1)
    assert session.transport.is_closed


def test_a_failure_is_answered_after_a_delay_and_nothing_more_is_read() -> None:
    session = Session()
    session.send(handshake())
    assert session.send(authenticate(WRONG)) == []
    assert session.transport.is_reading_paused
    assert session.send(authenticate(GOOD)) == []
    session.loop.advance(0.099)
    assert not session.transport.is_closed
    session.loop.advance(0.002)
    last = SaslAuthenticateResponse.decode(answers(session.transport)[-1], 2, 5)
    assert last.error_message == "Authentication failed: Invalid username or password"
    assert session.transport.is_closed
    assert session.connection.principal != ALICE
    assert session.owner.failures == ["PLAIN: Authentication failed: Invalid username or password"]
    assert session.owner.sasl.stats.of("PLAIN").failed == 1


def test_frames_after_a_failing_one_are_dropped() -> None:
    session = Session()
    session.send(handshake())
    session.send(authenticate(WRONG), authenticate(GOOD), METADATA)
    session.loop.advance(1)
    assert len(answers(session.transport)) == 2
    assert session.owner.served == []


def test_a_client_that_sends_single_bytes_has_until_the_deadline() -> None:
    session = Session()
    frame = handshake()
    data = len(frame).to_bytes(4, "big") + frame
    for index in range(29):
        session.loop.advance(1)
        session.connection.get_buffer(-1)[:1] = data[index % len(data) : index % len(data) + 1]
        session.connection.buffer_updated(1)
    assert not session.transport.is_closed
    session.loop.advance(1.2)
    assert session.transport.is_closed
    assert session.owner.failures == ["not logged in within 30000 ms (barnabas.authentication.timeout.ms)"]
    assert session.owner.sasl.stats.of("").failed == 1


def test_an_authenticated_client_has_no_deadline() -> None:
    session = Session()
    session.log_in()
    session.loop.advance(1000)
    assert session.send(METADATA) == [b"served"]


def test_the_deadline_timer_ends_with_the_connection() -> None:
    session = Session()
    session.connection.connection_lost(None)
    session.loop.advance(1000)
    assert session.owner.failures == []


@pytest.mark.parametrize("size", [1001, 2**31 - 1, -1])
def test_a_frame_before_the_login_has_a_small_limit(size: int) -> None:
    session = Session()
    session.connection.get_buffer(-1)[:4] = size.to_bytes(4, "big", signed=True)
    session.connection.buffer_updated(4)
    session.loop.advance(0.2)
    assert session.transport.is_closed
    assert "sasl.server.max.receive.size" in session.owner.failures[0]


def test_after_the_login_the_limit_of_requests_applies() -> None:
    session = Session()
    session.log_in()
    assert session.send(b"\0\3" + bytes(50_000)) == [b"served"]


def test_a_session_ends_with_the_first_request_after_its_expiry() -> None:
    session = Session(reauthentication_ms_max=2000)
    session.log_in()
    session.loop.advance(1.9)
    assert session.send(METADATA) == [b"served"]
    session.loop.advance(0.2)
    assert session.send(METADATA) == []
    assert session.transport.is_closed
    assert session.owner.sasl.stats.expired_connections_killed == 1


def test_a_session_is_renewed_in_time_and_even_after_it() -> None:
    session = Session(reauthentication_ms_max=2000)
    session.log_in()
    for pause in (1.5, 3.0):
        session.loop.advance(pause)
        session.send(handshake())
        assert session.send(authenticate(GOOD))
        assert session.send(METADATA) == [b"served"]
    assert session.owner.sasl.stats.of("PLAIN").reauthentications == 2
    assert session.owner.sasl.stats.of("PLAIN").successful == 1


def test_a_session_may_not_be_renewed_twice_in_a_second() -> None:
    session = Session(reauthentication_ms_max=5000)
    session.log_in()
    session.send(handshake())
    session.send(authenticate(GOOD))
    assert session.send(handshake()) == [b"served"]
    session.loop.advance(1.0)
    assert session.send(handshake()) != [b"served"]


def test_without_session_expiry_a_handshake_is_passed_to_the_handler_that_refuses_it() -> None:
    session = Session()
    session.log_in()
    assert session.send(handshake()) == [b"served"]


def test_a_failed_renewal_ends_the_connection_and_is_counted() -> None:
    session = Session(reauthentication_ms_max=2000)
    session.log_in()
    session.send(handshake())
    session.send(authenticate(OTHER))
    session.loop.advance(0.2)
    assert session.transport.is_closed
    assert session.owner.sasl.stats.of("PLAIN").failed_reauthentications == 1
    assert session.owner.sasl.stats.of("PLAIN").failed == 0


def test_requests_during_a_renewal_are_not_served() -> None:
    session = Session(reauthentication_ms_max=2000)
    session.log_in()
    session.send(handshake())
    served = len(session.owner.served)
    assert session.send(METADATA) == []
    assert len(session.owner.served) == served
    session.loop.advance(0.2)
    assert session.transport.is_closed


def test_the_principal_of_all_users_is_refused() -> None:
    session = Session()
    session.send(handshake())
    session.send(authenticate(b"\0*\0star"))
    session.loop.advance(0.2)
    assert session.transport.is_closed
    assert session.connection.principal.name == "ANONYMOUS"
    assert "means all principals" in session.owner.failures[0]


@given(st.lists(st.binary(max_size=40) | st.sampled_from(_FRAMES), max_size=8), st.data())
def test_any_bytes_in_any_pieces_end_in_a_login_or_a_closed_connection(parts: list[bytes], data: st.DataObject) -> None:
    session = Session(reauthentication_ms_max=2000)
    stream = b"".join(parts)
    while stream and not session.connection.is_waiting and not session.transport.is_closed:
        size = data.draw(st.integers(1, len(stream)))
        buffer = session.connection.get_buffer(-1)
        size = min(size, len(buffer))
        buffer[:size] = stream[:size]
        session.connection.buffer_updated(size)
        stream = stream[size:]
    session.loop.advance(31)
    assert session.transport.is_closed or session.connection.principal.name in ("alice", "bob")
    assert all(
        principal.name in ("alice", "bob") or frame[:2] == b"\0\x12" for frame, principal in session.owner.served
    )


def test_a_peer_that_disconnects_during_the_delay_is_forgotten() -> None:
    session = Session()
    session.send(handshake())
    session.send(authenticate(WRONG))
    session.connection.connection_lost(None)
    session.loop.advance(1)
    assert len(answers(session.transport)) == 1


def test_half_open_a_refused_peer_that_does_not_read_is_disconnected() -> None:
    """Its socket accepts no more bytes, so a graceful close would wait forever, and keep all unsent data."""
    session = Session()
    session.send(handshake())
    session.send(authenticate(WRONG))
    session.loop.advance(0.2)
    assert session.transport.is_closed
    assert not session.transport.is_aborted
    session.loop.advance(10)
    assert session.transport.is_aborted


def test_half_open_before_the_login_little_is_buffered_for_a_peer_that_does_not_read() -> None:
    session = Session()
    assert session.transport.write_buffer_high == 65536
    session.log_in()
    assert session.transport.write_buffer_high == 4 * 1024 * 1024


def test_sasl_state_abuse_requests_sent_with_the_last_token_have_the_new_principal() -> None:
    session = Session()
    session.send(versions(), handshake(), authenticate(GOOD), METADATA, METADATA)
    assert [principal for frame, principal in session.owner.served if frame == METADATA] == [ALICE, ALICE]


@pytest.mark.parametrize(
    "frames",
    [
        (authenticate(GOOD), METADATA),
        (handshake(), METADATA, authenticate(GOOD), METADATA),
        (handshake(), handshake(), authenticate(GOOD), METADATA),
        (handshake(), versions(), authenticate(GOOD), METADATA),
        (handshake(), GOOD, authenticate(GOOD), METADATA),
        (handshake(version=0), authenticate(GOOD), METADATA),
        (handshake("SCRAM-SHA-256"), handshake(), authenticate(GOOD), METADATA),
        (versions(), versions(), handshake(), authenticate(GOOD), METADATA),
        (handshake(), authenticate(WRONG), authenticate(GOOD), METADATA),
        (handshake(), authenticate(b""), authenticate(GOOD), METADATA),
        (METADATA, handshake(), authenticate(GOOD), METADATA),
    ],
)
def test_sasl_state_abuse_nothing_after_an_illegal_step_is_executed(frames: tuple[bytes, ...]) -> None:
    """All frames arrive in one segment."""
    session = Session()
    session.send(*frames)
    session.loop.advance(1)
    assert session.transport.is_closed
    assert all(frame[:2] == b"\0\x12" for frame, _ in session.owner.served)
    assert session.connection.principal.name == "ANONYMOUS"
