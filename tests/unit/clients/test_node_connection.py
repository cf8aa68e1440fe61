"""One connection, driven without a socket: order, timeouts, endings, and the error of each."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from struct import pack, unpack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.client_config import Address
from barnabas.clients.errors import (
    AuthenticationFailed,
    ClientError,
    Disconnected,
    RemoteProtocolError,
    RequestTimedOut,
    UnsupportedVersion,
)
from barnabas.clients.node_connection import NodeConnection, SupportedVersions
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.simulation.cluster.virtual_loop import VirtualLoop

ADDRESS = Address("node", 9092)


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True


class Peer:
    """The node's side: decodes the received requests, and sends the given bytes."""

    def __init__(self, **options: Any) -> None:
        self.transport = FakeTransport()
        self.connection = NodeConnection(ADDRESS, client_id="test", request_timeout_s=30, **options)
        self.connection.connection_made(self.transport)
        self.connection.versions = {60: SupportedVersions(0, 1), 18: SupportedVersions(0, 3)}

    @property
    def headers(self) -> list[RequestHeader]:
        return [RequestHeader.read(frame, 4, 2)[0] for frame in self.transport.sent]

    def receive(self, data: bytes) -> None:
        while data:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    def answer(self, correlation_id: int, cluster_id: str) -> None:
        body = ResponseHeader(correlation_id=correlation_id).encode(1)
        body += DescribeClusterResponse(cluster_id=cluster_id).encode(1)
        self.receive(pack(">i", len(body)) + body)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def start_requests(peer: Peer, count: int = 1, **options: Any) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.ensure_future(peer.connection.request(DescribeClusterRequest(), **options)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def failure(task: asyncio.Task[Any]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        await task
    return caught.value


def test_requests_are_sent_immediately_and_responses_reach_their_callers() -> None:
    async def test() -> None:
        peer = Peer()
        tasks = await start_requests(peer, 3)
        assert [h.correlation_id for h in peer.headers] == [1, 2, 3]
        assert [(h.request_api_key, h.request_api_version, h.client_id) for h in peer.headers] == [(60, 1, "test")] * 3
        assert unpack(">i", peer.transport.sent[0][:4])[0] == len(peer.transport.sent[0]) - 4
        assert peer.connection.in_flight == 3
        for number in (1, 2, 3):
            peer.answer(number, f"c{number}")
        assert [(await task).cluster_id for task in tasks] == ["c1", "c2", "c3"]

    run(test)


def test_a_response_may_arrive_byte_by_byte() -> None:
    async def test() -> None:
        peer = Peer()
        (task,) = await start_requests(peer)
        body = ResponseHeader(correlation_id=1).encode(1) + DescribeClusterResponse(cluster_id="c").encode(1)
        for byte in pack(">i", len(body)) + body:
            peer.receive(bytes([byte]))
        assert (await task).cluster_id == "c"

    run(test)


def test_a_cancelled_request_does_not_affect_the_others() -> None:
    async def test() -> None:
        peer = Peer()
        first, second = await start_requests(peer, 2)
        first.cancel()
        await asyncio.sleep(0)
        peer.answer(1, "unexpected")
        peer.answer(2, "c2")
        assert (await second).cluster_id == "c2"

    run(test)


def test_a_request_that_runs_out_of_time_ends_the_connection() -> None:
    async def test() -> None:
        peer = Peer()
        (slow,) = await start_requests(peer, timeout_s=0.001)
        (other,) = await start_requests(peer)
        error = await failure(slow)
        assert isinstance(error, RequestTimedOut)
        assert str(error) == "node:9092 did not answer DescribeCluster in 0.001 s"
        assert isinstance(await failure(other), RequestTimedOut)
        assert peer.transport.is_aborted
        assert not peer.connection.is_open
        assert isinstance(await failure((await start_requests(peer))[0]), Disconnected)

    run(test)


@pytest.mark.parametrize(
    ("sent", "kind", "message"),
    [
        (pack(">ii", 5, 7) + b"\0", RemoteProtocolError, "answered another request"),
        (pack(">i", 5) + pack(">i", 1) + b"\0", RemoteProtocolError, "can't be read"),
        (b"\x15\x03\x03\x00\x02\x02\x50", Disconnected, "requires TLS -> set security.protocol=SSL, or SASL_SSL"),
        (b"HTTP/1.1 400 Bad Request", Disconnected, "is a web server"),
        (b"SSH-2.0-x", RemoteProtocolError, "does not speak Kafka's protocol"),
    ],
)
def test_an_invalid_response_ends_the_connection(sent: bytes, kind: type[ClientError], message: str) -> None:
    async def test() -> None:
        peer = Peer()
        (task,) = await start_requests(peer)
        peer.receive(sent)
        error = await failure(task)
        assert isinstance(error, kind)
        assert message in str(error)
        assert peer.transport.is_aborted

    run(test)


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4), st.booleans())
def test_any_bytes_lead_to_a_result_or_a_client_error(pieces: list[bytes], framed: bool) -> None:
    async def test() -> None:
        peer = Peer()
        tasks = await start_requests(peer, 2)
        for piece in pieces:
            peer.receive(pack(">i", len(piece)) + piece if framed else piece)
        peer.connection.connection_lost(None)
        for task in tasks:
            try:
                await task
            except ClientError:
                continue
        assert not peer.connection.is_open

    run(test)


def test_an_unrequested_response_ends_the_connection() -> None:
    async def test() -> None:
        peer = Peer()
        peer.answer(1, "c")
        assert peer.transport.is_aborted
        error = await failure((await start_requests(peer))[0])
        assert "an answer without a request" in str(error.__cause__)

    run(test)


@pytest.mark.parametrize(
    ("options", "answers", "lost", "message"),
    [
        ({}, 0, None, "before it sent anything -> if its listener is encrypted"),
        (
            {},
            1,
            ConnectionResetError(104, "reset"),
            "(reset) after its first answer -> if its listener requires a login, set security.protocol=SASL_PLAIN",
        ),
        ({"is_plaintext": False}, 1, None, "set security.protocol=SASL_SSL, sasl.mechanism and sasl.jaas.config"),
        ({"uses_sasl": True}, 1, None, "node:9092 closed the connection"),
        ({}, 2, None, "node:9092 closed the connection"),
    ],
)
def test_a_closed_connection_names_the_likely_cause(
    options: dict[str, Any], answers: int, lost: Exception | None, message: str
) -> None:
    async def test() -> None:
        peer = Peer(**options)
        for number in range(answers):
            (task,) = await start_requests(peer)
            peer.answer(number + 1, "c")
            await task
        (task,) = await start_requests(peer)
        peer.connection.connection_lost(lost)
        error = await failure(task)
        assert isinstance(error, Disconnected)
        assert message in str(error)

    run(test)


def test_a_node_that_requires_a_certificate_is_recognized() -> None:
    async def test() -> None:
        peer = Peer(is_plaintext=False)
        (task,) = await start_requests(peer)
        error = ssl.SSLError(1, "alert")
        error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        peer.connection.connection_lost(error)
        assert isinstance(await failure(task), AuthenticationFailed)

    run(test)


def test_a_version_that_both_sides_support_is_chosen_or_none() -> None:
    async def test() -> None:
        connection = Peer().connection
        assert connection.version_of(60) == 1
        assert connection.version_of(ApiKey.API_VERSIONS) == 3
        connection.versions = {60: SupportedVersions(7, 9)}
        with pytest.raises(UnsupportedVersion, match="in versions 7 to 9, this client in 0 to 2"):
            connection.version_of(60)
        with pytest.raises(UnsupportedVersion, match="does not offer DescribeAcls"):
            connection.version_of(29)

    run(test)


def test_a_refused_version_of_api_versions_is_answered_in_version_0() -> None:
    async def test() -> None:
        peer = Peer()
        task = asyncio.ensure_future(peer.connection.exchange(ApiVersionsRequest(), version=4))
        await asyncio.sleep(0)
        body = ResponseHeader(correlation_id=1).encode(0) + ApiVersionsResponse(error_code=35).encode(0)
        peer.receive(pack(">i", len(body)) + body)
        assert (await task).error_code == 35

    run(test)


def test_requests_wait_while_the_other_side_does_not_read() -> None:
    async def test() -> None:
        peer = Peer()
        peer.connection.pause_writing()
        (task,) = await start_requests(peer)
        assert peer.transport.sent == []
        peer.connection.resume_writing()
        await asyncio.sleep(0)
        peer.answer(1, "c")
        assert (await task).cluster_id == "c"

    run(test)


def test_an_expiring_session_is_renewed_once_before_later_requests() -> None:
    async def test() -> None:
        peer, logins = Peer(), []

        async def log_in() -> None:
            logins.append(len(peer.transport.sent))
            await asyncio.sleep(0)
            peer.connection.set_session(log_in, after_s=1000)

        peer.connection.set_session(log_in, after_s=0)
        tasks = await start_requests(peer, 3)
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(peer.transport.sent) == 3
        assert logins == [0]
        for number in (1, 2, 3):
            peer.answer(number, "c")
        await asyncio.gather(*tasks)

    run(test)


def test_started_requests_are_sent_in_the_order_of_the_calls() -> None:
    async def scenario() -> None:
        peer = Peer()
        await peer.connection.ready()
        first, second = (peer.connection.start(DescribeClusterRequest(), version=1) for _ in range(2))
        assert len(peer.transport.sent) == 2  # Without a turn of the loop in between.
        assert peer.connection.in_flight == 2
        for header, cluster in zip(peer.headers, ("a", "b"), strict=True):
            peer.answer(header.correlation_id, cluster)
        assert ((await first).cluster_id, (await second).cluster_id) == ("a", "b")

    run(scenario)


def test_a_started_request_has_a_timeout_too() -> None:
    async def scenario() -> None:
        peer = Peer()
        future = peer.connection.start(DescribeClusterRequest(), version=1, timeout_s=0.001)
        with pytest.raises(RequestTimedOut):
            await future
        assert not peer.connection.is_open
        with pytest.raises(Disconnected):
            peer.connection.start(DescribeClusterRequest(), version=1)

    run(scenario)


def test_a_request_without_response_is_not_waited_for() -> None:
    async def scenario() -> None:
        peer = Peer()
        peer.connection.send_unanswered(DescribeClusterRequest(), version=1)
        future = peer.connection.start(DescribeClusterRequest(), version=1)
        assert peer.connection.in_flight == 1
        peer.answer(peer.headers[1].correlation_id, "answered")
        assert (await future).cluster_id == "answered"

    run(scenario)


def test_an_unready_connection_waits_for_the_socket() -> None:
    async def scenario() -> None:
        peer = Peer()
        peer.connection.pause_writing()
        waiting = asyncio.ensure_future(peer.connection.ready())
        await asyncio.sleep(0)
        assert not waiting.done()
        peer.connection.resume_writing()
        await waiting

    run(scenario)


def test_a_silent_node_times_out_and_a_slow_one_does_not() -> None:
    loop = VirtualLoop()
    peers: list[Peer] = []
    outcomes: dict[str, object] = {}

    async def ask(name: str, peer: Peer) -> None:
        try:
            outcomes[name] = (await peer.connection.request(DescribeClusterRequest())).cluster_id
        except ClientError as error:
            outcomes[name] = str(error)

    def begin() -> None:
        for name in ("silent", "slow"):
            peers.append(peer := Peer())
            peer.connection.silence_limit_s = 2.0
            loop.create_task(ask(name, peer))

    loop.call_soon(begin)
    loop.run_until(1.5)
    body = ResponseHeader(correlation_id=1).encode(1) + DescribeClusterResponse(cluster_id="c").encode(1)
    frame = pack(">i", len(body)) + body
    for at in range(0, len(frame), 4):
        peers[1].receive(frame[at : at + 4])
        loop.run_until(loop.now_s + 1.5)
    assert outcomes == {"silent": "node:9092 sent nothing for 2 s", "slow": "c"}
    assert peers[0].transport.is_aborted
    assert not peers[1].transport.is_aborted
