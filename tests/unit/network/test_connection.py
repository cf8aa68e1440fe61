"""A connection between a fake transport and a fake processor: order of responses, waiting, endings."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.network.authentication import ConnectionSecurity
from barnabas.network.close_connection import CloseConnection
from barnabas.network.connection import Answer, Connection, RequestProcessor
from barnabas.network.later_answer import LaterAnswer
from barnabas.network.loop_scheduler import LoopShare
from barnabas.network.promised_answer import PromisedAnswer
from barnabas.network.request_limits import RequestLimits


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False
        self.is_aborted = False
        self.is_reading_paused = False
        self.write_buffer_high: int | None = None

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("192.0.2.7", 50000) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.write_buffer_high = high

    def pause_reading(self) -> None:
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        self.is_reading_paused = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Owner:
    """Accepts the connection and answers its frames with ``respond``."""

    name = "PLAINTEXT"
    request_limits = RequestLimits(bytes_max=1000, bytes_min=0)
    security: ConnectionSecurity | None = None

    def __init__(self, respond: Callable[[bytes], Answer | PromisedAnswer[Any] | Awaitable[Answer]]) -> None:
        self.loop_share = LoopShare()
        self._respond = respond
        self.processor: RequestProcessor = self
        self.is_refusing = False
        self.closed_count = 0
        self.faults: list[str] = []

    def process(self, connection: Connection, frame: bytearray) -> Answer | PromisedAnswer[Any] | Awaitable[Answer]:
        return self._respond(bytes(frame))

    def opened(self, connection: Connection) -> bool:
        return not self.is_refusing

    def closed(self, connection: Connection) -> None:
        self.closed_count += 1

    def login_failed(self, connection: Connection, reason: str) -> None:
        raise AssertionError("these connections do not log in")

    def broke_protocol(self, connection: Connection, reason: str) -> None:
        self.faults.append(f"{connection.peer}: {reason}")


def connect(owner: Owner) -> tuple[Connection, FakeTransport]:
    connection = Connection(owner, asyncio.get_running_loop(), "PLAINTEXT-1")
    transport = FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def receive(connection: Connection, *bodies: bytes) -> None:
    data = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def echo(frame: bytes) -> Answer:
    return [b"answer to " + frame]


def answers(transport: FakeTransport) -> list[bytes]:
    data, found = b"".join(transport.writes), []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


@pytest.mark.anyio
async def test_a_request_whose_connection_is_lost_at_once_is_dropped() -> None:
    async def answer() -> Answer:
        raise AssertionError("nobody waits for this answer")

    asked = answer()
    connection, transport = connect(Owner(lambda frame: asked))
    receive(connection, b"1")
    connection.connection_lost(None)
    await asyncio.sleep(0)
    assert inspect.getcoroutinestate(asked) == inspect.CORO_CLOSED
    assert answers(transport) == []


@pytest.mark.anyio
async def test_what_a_dropped_request_would_wait_for_is_dropped_too() -> None:
    async def response() -> Answer:
        raise AssertionError("nobody waits for this response")

    async def answer(waiting: Awaitable[Answer]) -> Answer:
        return await waiting

    waiting = response()
    asked = answer(waiting)
    connection, _ = connect(Owner(lambda frame: LaterAnswer(asked, waiting)))
    receive(connection, b"1")
    connection.connection_lost(None)
    await asyncio.sleep(0)
    assert inspect.getcoroutinestate(asked) == inspect.CORO_CLOSED
    assert inspect.getcoroutinestate(waiting) == inspect.CORO_CLOSED


@pytest.mark.anyio
async def test_pipelined_requests_are_answered_in_order_with_one_write() -> None:
    connection, transport = connect(Owner(echo))
    receive(connection, b"1", b"2", b"3")
    assert answers(transport) == [b"answer to 1", b"answer to 2", b"answer to 3"]
    assert len(transport.writes) == 1


@pytest.mark.anyio
async def test_a_waiting_request_delays_the_later_ones() -> None:
    waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    connection, transport = connect(Owner(lambda frame: waiting if frame == b"slow" else echo(frame)))
    receive(connection, b"first", b"slow", b"after")
    assert answers(transport) == [b"answer to first"]
    waiting.set_result([b"slow answer"])
    for _ in range(5):
        await asyncio.sleep(0)
    assert answers(transport) == [b"answer to first", b"slow answer", b"answer to after"]


@pytest.mark.anyio
async def test_a_request_without_an_answer_writes_nothing() -> None:
    connection, transport = connect(Owner(lambda frame: None))
    receive(connection, b"acks=0")
    assert transport.writes == []


@pytest.mark.anyio
async def test_a_protocol_violation_closes_the_connection_after_earlier_responses() -> None:
    def respond(frame: bytes) -> Answer:
        if frame == b"bad":
            raise CloseConnection("it is bad")
        return echo(frame)

    connection, transport = connect(Owner(respond))
    receive(connection, b"good", b"bad", b"never seen")
    assert answers(transport) == [b"answer to good"]
    assert transport.is_closed


@pytest.mark.anyio
async def test_the_owner_learns_which_peer_broke_the_protocol() -> None:
    owner = Owner(echo)
    connection, _ = connect(owner)
    connection.get_buffer(-1)[:4] = b"\xff\xff\xff\xff"
    connection.buffer_updated(4)
    [fault] = owner.faults
    assert fault.startswith("192.0.2.7:50000: frame size -1")


@pytest.mark.anyio
async def test_an_internal_error_ends_only_this_connection(caplog: pytest.LogCaptureFixture) -> None:
    def respond(frame: bytes) -> Answer:
        raise RuntimeError("a bug")

    connection, transport = connect(Owner(respond))
    receive(connection, b"x")
    assert transport.is_aborted
    assert "a bug" in caplog.text


@pytest.mark.anyio
async def test_reading_stops_while_too_many_requests_are_queued() -> None:
    waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    connection, transport = connect(Owner(lambda frame: waiting if frame == b"slow" else echo(frame)))
    receive(connection, b"slow", *(b"%d" % number for number in range(20)))
    assert transport.is_reading_paused
    waiting.set_result([b"done"])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not transport.is_reading_paused
    assert len(answers(transport)) == 21


@pytest.mark.anyio
async def test_large_requests_after_a_waiting_one_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.network.connection._QUEUED_BYTES_MAX", 1000)
    gate: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    first = True

    def respond(frame: bytes) -> Answer | Awaitable[Answer]:
        nonlocal first
        first, is_first = False, first
        return gate if is_first else echo(frame)

    connection, transport = connect(Owner(respond))
    receive(connection, b"waits")
    receive(connection, b"x" * 999)
    assert not transport.is_reading_paused
    receive(connection, b"y")
    assert transport.is_reading_paused
    gate.set_result([b"late"])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not transport.is_reading_paused
    assert len(answers(transport)) == 3


@pytest.mark.anyio
async def test_a_client_that_does_not_read_is_not_served() -> None:
    connection, transport = connect(Owner(echo))
    connection.pause_writing()
    receive(connection, b"1")
    assert transport.writes == []
    connection.resume_writing()
    assert answers(transport) == [b"answer to 1"]


@pytest.mark.anyio
async def test_a_refused_connection_is_aborted() -> None:
    owner = Owner(echo)
    owner.is_refusing = True
    _, transport = connect(owner)
    assert transport.is_aborted


@pytest.mark.anyio
async def test_losing_the_connection_cancels_waiting_requests() -> None:
    waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    owner = Owner(lambda frame: waiting)
    connection, _ = connect(owner)
    receive(connection, b"slow")
    await asyncio.sleep(0)
    connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert waiting.cancelled()
    assert owner.closed_count == 1


@pytest.mark.anyio
async def test_those_who_asked_learn_once_that_the_connection_was_lost() -> None:
    told: list[str] = []
    connection, _ = connect(Owner(echo))
    connection.add_close_listener(lambda: told.append("first"))
    connection.add_close_listener(lambda: told.append("second"))
    assert told == []
    connection.connection_lost(None)
    assert told == ["first", "second"]
    connection.add_close_listener(lambda: told.append("late"))
    await asyncio.sleep(0)
    assert told == ["first", "second", "late"]


class FullTransport(FakeTransport):
    """Accepts a number of writes, then pauses writing."""

    def __init__(self, connection: Connection, writes_max: int) -> None:
        super().__init__()
        self._connection = connection
        self.left = writes_max

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.left -= 1
        if self.left == 0:
            self._connection.pause_writing()

    def drained(self, writes_max: int) -> None:
        self.left = writes_max
        self._connection.resume_writing()


LARGE = bytes(range(256)) * 20_000


def connect_to_full(respond: Callable[[bytes], Answer | Awaitable[Answer]]) -> tuple[Connection, FullTransport]:
    connection = Connection(Owner(respond), asyncio.get_running_loop(), "PLAINTEXT-1")
    transport = FullTransport(connection, 2)
    connection.connection_made(transport)
    return connection, transport


def large_or_echo(frame: bytes) -> Answer:
    return [b"head", memoryview(LARGE), b"tail"] if frame == b"large" else echo(frame)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def test_a_large_response_is_written_as_the_client_reads_it() -> None:
    async def scenario() -> None:
        connection, transport = connect_to_full(large_or_echo)
        receive(connection, b"large", b"next")
        assert sum(map(len, transport.writes)) < 2_000_000
        for _ in range(1000):
            written = len(transport.writes)
            transport.drained(2)
            await asyncio.sleep(0)  # A connection whose turn of the loop is over continues in a later one.
            assert len(transport.writes) <= written + 2
            if transport.writes[-1].endswith(b"next"):
                break
        assert b"".join(transport.writes) == framed(b"head" + LARGE + b"tail") + framed(b"answer to next")

    asyncio.run(scenario())


def test_a_connection_closes_after_the_large_response_was_sent() -> None:
    async def scenario() -> None:
        connection, transport = connect_to_full(large_or_echo)
        receive(connection, b"large")
        connection.close()
        assert not transport.is_closed
        transport.drained(100)
        assert transport.is_closed
        assert b"".join(transport.writes) == framed(b"head" + LARGE + b"tail")

    asyncio.run(scenario())


@pytest.mark.anyio
async def test_a_flood_of_pipelined_requests_lets_others_have_turns() -> None:
    began = time.perf_counter()

    def respond(frame: bytes) -> Answer:
        while time.perf_counter() < began + 0.001 * (1 + int(frame)):
            pass
        return [frame]

    connection, transport = connect(Owner(respond))
    receive(connection, *(b"%d" % number for number in range(50)))
    assert len(answers(transport)) < 10
    assert transport.is_reading_paused
    turns = 0
    while len(answers(transport)) < 50:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5
    assert answers(transport) == [b"%d" % number for number in range(50)]
    await asyncio.sleep(0)
    assert not transport.is_reading_paused


def test_a_paused_connection_answers_first_and_reads_later() -> None:
    async def scenario() -> None:
        connection: Connection

        def respond(frame: bytes) -> Answer:
            if frame == b"too much":
                connection.rest(0.02)
            return [b"answer to " + frame]

        connection, transport = connect(Owner(respond))
        receive(connection, b"too much", b"next")
        assert b"".join(transport.writes) == b"\0\0\0\x12answer to too much"
        assert transport.is_reading_paused
        assert connection.is_waiting
        await asyncio.sleep(0.04)
        assert b"".join(transport.writes).endswith(b"answer to next")
        assert not transport.is_reading_paused
        assert not connection.is_waiting

    asyncio.run(scenario())


def test_a_connection_pauses_after_a_response_that_waited() -> None:
    async def scenario() -> None:
        connection: Connection

        async def respond(frame: bytes) -> Answer:
            await asyncio.sleep(0)
            connection.rest(0.02)
            return [frame]

        connection, transport = connect(Owner(respond))
        receive(connection, b"one", b"two")
        await asyncio.sleep(0.01)
        assert b"".join(transport.writes) == b"\0\0\0\x03one"
        await asyncio.sleep(0.03)
        assert b"".join(transport.writes).endswith(b"two")
        connection.connection_lost(None)
        await asyncio.sleep(0.03)
        assert not connection.is_waiting or connection.is_closing

    asyncio.run(scenario())


class Promising:
    """Promises the answers to frames that begin with ``pp``, and echoes others."""

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.promised: list[PromisedAnswer[bytes]] = []

    def respond(self, frame: bytes) -> Answer | PromisedAnswer[bytes]:
        self.handled.append(frame)
        if frame == b"pp unreadable":
            raise CloseConnection("it cannot be read")
        if frame == b"pp refused":
            return echo(frame)
        if not frame.startswith(b"pp"):
            return echo(frame)
        promised: PromisedAnswer[bytes] = PromisedAnswer()
        promised.encode = lambda response: [response]
        self.promised.append(promised)
        return promised


async def some_turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_requests_with_promised_answers_are_handled_together_and_answered_in_order() -> None:
    promising = Promising()
    connection, transport = connect(Owner(promising.respond))
    receive(connection, b"pp 1", b"pp refused", b"pp 2", b"other")
    assert promising.handled == [b"pp 1", b"pp refused", b"pp 2"]
    assert transport.writes == []
    assert connection.is_waiting
    promising.promised[1].give(b"second")
    await some_turns()
    assert transport.writes == []
    promising.promised[0].give(b"first")
    await some_turns()
    assert answers(transport) == [b"first", b"answer to pp refused", b"second", b"answer to other"]
    assert not connection.is_waiting


@pytest.mark.anyio
async def test_answers_that_are_given_together_are_sent_in_one_write() -> None:
    promising = Promising()
    connection, transport = connect(Owner(promising.respond))
    receive(connection, b"pp 1", b"pp 2", b"pp 3")
    for number, promised in enumerate(promising.promised):
        promised.give(b"%d" % number)
    await some_turns()
    assert answers(transport) == [b"0", b"1", b"2"]
    assert len(transport.writes) == 1


@pytest.mark.anyio
async def test_the_only_promised_answer_is_sent_when_it_is_given() -> None:
    promising = Promising()
    connection, transport = connect(Owner(promising.respond))
    receive(connection, b"pp 1")
    promising.promised[0].give(b"first")
    assert answers(transport) == [b"first"]
    receive(connection, b"other")
    await some_turns()
    assert answers(transport) == [b"first", b"answer to other"]


@pytest.mark.anyio
async def test_a_connection_has_a_limited_number_of_promised_answers() -> None:
    promising = Promising()
    connection, transport = connect(Owner(promising.respond))
    receive(connection, *(b"pp %d" % number for number in range(105)))
    await some_turns()
    assert len(promising.handled) == 100
    for promised in promising.promised:
        promised.give(b"x")
    await some_turns()
    for promised in promising.promised[100:]:
        promised.give(b"x")
    await some_turns()
    assert len(answers(transport)) == 105


@pytest.mark.anyio
async def test_a_request_that_cannot_be_read_closes_after_the_promised_answers_before_it() -> None:
    promising = Promising()
    owner = Owner(promising.respond)
    connection, transport = connect(owner)
    receive(connection, b"pp 1", b"pp unreadable", b"pp 2")
    assert not transport.is_closed
    promising.promised[0].give(b"first")
    await some_turns()
    assert answers(transport) == [b"first"]
    assert transport.is_closed
    assert owner.faults == ["192.0.2.7:50000: it cannot be read"]
    assert promising.handled == [b"pp 1", b"pp unreadable"]


@pytest.mark.anyio
async def test_a_promised_answer_that_cannot_be_encoded_closes_the_connection() -> None:
    promising = Promising()
    connection, transport = connect(Owner(promising.respond))
    receive(connection, b"pp 1", b"pp 2")

    def fail(_: bytes) -> Answer:
        raise ValueError("a bug")

    promising.promised[0].encode = fail
    for promised in promising.promised:
        promised.give(b"x")
    await some_turns()
    assert transport.is_aborted
    assert answers(transport) == []


@pytest.mark.anyio
async def test_answers_that_are_given_after_the_end_of_the_connection_are_dropped() -> None:
    promising = Promising()
    connection, transport = connect(Owner(promising.respond))
    receive(connection, b"pp 1")
    connection.connection_lost(None)
    promising.promised[0].give(b"first")
    await some_turns()
    assert answers(transport) == []


@pytest.mark.anyio
async def test_a_request_that_waits_is_answered_after_the_promised_answers_before_it() -> None:
    promising = Promising()

    async def late() -> Answer:
        return [b"late"]

    connection, transport = connect(Owner(lambda frame: late() if frame == b"pp long" else promising.respond(frame)))
    receive(connection, b"pp 1", b"pp long", b"pp 2")
    await some_turns()
    assert transport.writes == []
    assert promising.handled == [b"pp 1", b"pp 2"]
    for promised in promising.promised:
        promised.give(b"kept")
    await some_turns()
    assert answers(transport) == [b"kept", b"late", b"kept"]
