"""A controller that hangs delays no call for longer than necessary, and no call is applied twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from barnabas.clients.client_config import Address, ClientConfig
from barnabas.clients.errors import ClientError, Disconnected
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.envelope_tags import call_id_of, set_committed_offset
from barnabas.protocol.headers import ResponseHeader, response_header_version
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import Message, Request
from barnabas.raft.voter_set import Endpoint
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.controller_channel import network as network_channel
from barnabas.server.controller_channel.network import NetworkChannel
from tests.simulation.cluster.virtual_loop import VirtualLoop

FORMER, NEW = Endpoint("former", 9093), Endpoint("new", 9093)
SESSION_MS, HEARTBEAT_MS, SOCKET_TIMEOUT_S = 9000, 2000, 30.0


class FakeConnection:
    def __init__(self, world: World, address: Address) -> None:
        self.world, self.address = world, address
        world.connections.append(self)
        self.versions: dict[int, tuple[int, int]] = {}
        self.is_open = True
        self._waiting: set[asyncio.Future[Message]] = set()

    async def request(self, message: Message) -> Message:
        self.world.sent.append((self.world.loop.now_s, self.address.host, message))
        answer = self.world.answers[self.address.host](message)
        if answer is not None:
            return answer
        future: asyncio.Future[Message] = self.world.loop.create_future()
        self._waiting.add(future)
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def answer(self, response: Message) -> None:
        for future in self._waiting:
            future.set_result(response)

    async def close(self) -> None:
        self.is_open = False
        for future in self._waiting:
            if not future.done():
                future.set_exception(Disconnected("closed"))


class FakeClient:
    def __init__(self, world: World) -> None:
        self._world = world

    async def open(self, address: Address) -> FakeConnection:
        if address.host not in self._world.answers:
            raise ClientError(f"nothing listens at {address}")
        return FakeConnection(self._world, address)

    async def close(self) -> None:
        pass


class World:
    """Controllers by host name: each answers a request immediately, or hangs."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.answers: dict[str, Callable[[Message], Message | None]] = {"former": hangs, "new": answers_as_ours}
        self.sent: list[tuple[float, str, Message]] = []
        self.connections: list[FakeConnection] = []
        self.leader: Endpoint | None = FORMER
        self.channel = self._channel()

    def monotonic_ms(self) -> int:
        return round(self.loop.now_s * 1000)

    now_ms = monotonic_ms

    def _channel(self) -> NetworkChannel:
        return NetworkChannel(
            cast("ClientConfig", self),
            leader=lambda: self.leader,
            clock=self,
            serialize_principal=lambda context: b"principal",
            lifecycle_limit_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            reach_offset=at_once,
        )

    def begin(self, call: Awaitable[Message]) -> asyncio.Task[Message]:
        async def wait() -> Message:
            return await call

        return self.loop.create_task(wait())

    def elect(self, leader: Endpoint) -> None:
        self.leader = leader
        self.loop.call_soon(self.channel.leader_changed)

    def run(self, seconds: float) -> None:
        self.loop.run_until(self.loop.now_s + seconds)

    def hosts(self) -> list[str]:
        return [host for _, host, _ in self.sent]


def hangs(request: Message) -> Message | None:
    return None


def answers_as_ours(request: Message) -> Message:
    """A barnabas controller returns how far the log was committed."""
    if isinstance(request, BrokerHeartbeatRequest):
        return BrokerHeartbeatResponse()
    response = answers_as_kafka(request)
    set_committed_offset(response, 7)
    return response


def answers_as_kafka(request: Message) -> EnvelopeResponse:
    assert isinstance(request, EnvelopeRequest)
    header = ResponseHeader(correlation_id=CONTEXT_ID).encode(response_header_version(ApiKey.CREATE_TOPICS, 7))
    return EnvelopeResponse(response_data=header + CreateTopicsResponse().encode(7))


def not_controller(request: Message) -> Message:
    return EnvelopeResponse(error_code=int(ErrorCode.NOT_CONTROLLER))


async def at_once(offset: int, timeout_s: float) -> bool:
    return True


CONTEXT_ID = 5


def context(api_key: ApiKey, version: int) -> RequestContext:
    return RequestContext(
        api_key=api_key,
        api_version=version,
        correlation_id=CONTEXT_ID,
        client_id="terminal",
        principal=Principal("User", "alice"),
        client_host="192.0.2.7",
        listener_name="PLAINTEXT",
        security_protocol="PLAINTEXT",
        connection_id="1",
    )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(network_channel, "NetworkClient", lambda config: FakeClient(config))
    return World()


def create_topics(world: World, *, timeout_ms: int = 30_000) -> asyncio.Task[Message]:
    request = CreateTopicsRequest(timeout_ms=timeout_ms)
    return world.begin(world.channel.forward(request, context(ApiKey.CREATE_TOPICS, 7)))


def refusal(task: asyncio.Task[Any]) -> ErrorCode:
    error = task.exception()
    assert isinstance(error, ApiException)
    return error.code


def test_calls_to_a_hung_controller_go_to_the_new_one_under_their_numbers(world: World) -> None:
    calls = [create_topics(world) for _ in range(40)]
    world.run(3)
    assert world.hosts() == ["former"] * 16
    world.elect(NEW)
    world.run(1)
    assert [type(call.result()) for call in calls] == [CreateTopicsResponse] * 40
    ids = [(host, call_id_of(cast("EnvelopeRequest", request))) for _, host, request in world.sent]
    first, again = ids[:16], ids[16:]
    assert {number for _, number in first} <= {number for _, number in again}
    assert {host for host, _ in again} == {"new"}
    assert len({number for _, number in again}) == len(again) == 40


def test_while_no_controller_is_known_an_answer_of_the_former_one_still_counts(world: World) -> None:
    call = create_topics(world)
    world.run(1)
    world.leader = None
    world.channel.leader_changed()
    world.run(1)
    assert not call.done()
    assert world.hosts() == ["former"]


@pytest.mark.parametrize(
    "request_type", [BrokerHeartbeatRequest, BrokerRegistrationRequest, ControllerRegistrationRequest]
)
def test_an_unanswered_heartbeat_or_registration_is_repeated_after_doubling_intervals(
    world: World, request_type: type[Request[Message]]
) -> None:
    heartbeat = world.begin(world.channel.send(request_type()))
    world.run(8.9)
    assert [round(at_s) for at_s, _, _ in world.sent] == [0, 2, 6]
    assert not heartbeat.done()
    world.run(0.2)
    assert refusal(heartbeat) is ErrorCode.REQUEST_TIMED_OUT


def test_a_slow_heartbeat_is_answered_over_its_first_connection(world: World) -> None:
    heartbeat = world.begin(world.channel.send(BrokerHeartbeatRequest()))
    world.run(3)
    first, second = world.connections
    first.answer(BrokerHeartbeatResponse())
    world.run(0.1)
    assert heartbeat.done()
    assert heartbeat.exception() is None
    assert (first.is_open, second.is_open) == (True, False), "the connection that answers is kept"
    world.answers["former"] = answers_as_ours
    world.begin(world.channel.send(BrokerHeartbeatRequest()))
    world.run(0.1)
    assert len(world.connections) == 2


def test_a_heartbeat_uses_another_connection_when_packets_vanish_on_the_first(world: World) -> None:
    heartbeat = world.begin(world.channel.send(BrokerHeartbeatRequest()))
    world.run(1.9)
    world.answers["former"] = answers_as_ours
    world.run(0.2)
    assert heartbeat.done()
    assert [connection.is_open for connection in world.connections] == [False, True]


def test_no_more_than_two_connections_wait_for_one_heartbeat(world: World) -> None:
    world.begin(world.channel.send(BrokerHeartbeatRequest()))
    world.run(6.5)
    assert [connection.is_open for connection in world.connections] == [False, True, True]
    world.run(3)
    assert not any(connection.is_open for connection in world.connections[:3])


def test_a_client_learns_within_its_own_timeout_that_the_outcome_is_unknown(world: World) -> None:
    call = create_topics(world, timeout_ms=1500)
    world.run(1.4)
    assert not call.done()
    world.run(0.2)
    assert refusal(call) is ErrorCode.REQUEST_TIMED_OUT
    world.elect(NEW)
    world.run(5)
    assert world.hosts() == ["former"], "it is not repeated: its sender may have sent another one"


def test_abandoned_calls_occupy_no_connection(world: World) -> None:
    given_up = [create_topics(world, timeout_ms=500) for _ in range(16)]
    world.run(1)
    assert {refusal(call) for call in given_up} == {ErrorCode.REQUEST_TIMED_OUT}
    world.answers["former"] = answers_as_ours
    call = create_topics(world)
    world.run(1)
    assert call.done()
    assert call.exception() is None


def test_calls_are_repeated_when_the_network_to_the_same_controller_recovers(world: World) -> None:
    """Requests in flight may have been lost: a heartbeat over a new connection shows that the network works again."""
    world.answers["former"] = answers_as_ours
    create_topics(world)
    world.run(0.1)
    world.answers["former"] = hangs
    call, heartbeat = create_topics(world), world.begin(world.channel.send(BrokerHeartbeatRequest()))
    world.run(1.9)
    world.answers["former"] = answers_as_ours
    world.run(0.5)
    assert heartbeat.done()
    assert type(call.result()) is CreateTopicsResponse
    assert call_id_of(world.sent[1][2]) == call_id_of(world.sent[-1][2])  # type: ignore[arg-type]


def test_a_call_to_a_kafka_controller_is_repeated_only_after_its_connection_ended(world: World) -> None:
    """It does not know the number of a call, and may only be slow."""
    call, heartbeat = create_topics(world), world.begin(world.channel.send(BrokerHeartbeatRequest()))
    world.run(1.9)
    world.answers["former"] = lambda request: (
        BrokerHeartbeatResponse() if isinstance(request, BrokerHeartbeatRequest) else answers_as_kafka(request)
    )
    world.run(1)
    assert heartbeat.done()
    assert not call.done()
    world.elect(NEW)
    world.run(1)
    assert call.done()


def test_a_token_is_not_created_twice_by_controllers_that_do_not_number_calls(world: World) -> None:
    request = CreateDelegationTokenRequest()
    call = world.begin(world.channel.forward(request, context(ApiKey.CREATE_DELEGATION_TOKEN, 3)))
    world.run(1)
    world.elect(NEW)
    world.run(1)
    assert refusal(call) is ErrorCode.REQUEST_TIMED_OUT
    assert world.hosts() == ["former"]


def test_a_deposed_controller_causes_no_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.answers["former"] = not_controller
    call = create_topics(world, timeout_ms=1000)
    world.run(2)
    assert refusal(call) is ErrorCode.REQUEST_TIMED_OUT
    assert [record.message for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []
