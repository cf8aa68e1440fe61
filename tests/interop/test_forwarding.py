"""Forwarding from a broker to controllers over the network: to a real Kafka's, to ours, and to one that misbehaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.clients.client_config import client_config
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.system_clock import SystemClock
from barnabas.network.close_connection import CloseConnection
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import Message
from barnabas.raft.voter_set import Endpoint
from barnabas.security.principal import ANONYMOUS
from barnabas.security.principal_serde import serialize_principal
from barnabas.security.request_context import RequestContext
from barnabas.server.controller_channel.network import NetworkChannel
from barnabas.testing import Node
from tests.interop.fake_controller import FakeController, created
from tests.peers import KafkaNode
from tests.peers.envelope_requests import inner
from tests.unit.controller.controller_harness import topic

pytestmark = pytest.mark.interop
T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(20):
            return await scenario

    return asyncio.run(limited())


async def at_once(offset: int, timeout_s: float) -> bool:
    """A broker that has applied all records."""
    return True


def channel_to(leader: Callable[[], Endpoint | None], *, connections_max: int = 4, **settings: str) -> NetworkChannel:
    return NetworkChannel(
        client_config({"bootstrap.servers": "localhost:1", "request.timeout.ms": "500", **settings}),
        leader=leader,
        clock=SystemClock(),
        serialize_principal=lambda context: serialize_principal(context.principal),
        lifecycle_limit_ms=2000,
        heartbeat_interval_ms=2000,
        reach_offset=at_once,
        connections_max=connections_max,
    )


def context(request: Message, version: int, client_id: str = "terminal") -> RequestContext:
    made = RequestContext(
        api_key=ApiKey(request.API_KEY),
        api_version=version,
        correlation_id=77,
        client_id=client_id,
        principal=ANONYMOUS,
        client_host="192.0.2.7",
    )
    made.frame = inner(request, version, client_id=client_id)
    return made


def create(name: str, timeout_ms: int = 60_000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[topic(name)], timeout_ms=timeout_ms)


async def forwarded(channel: NetworkChannel, request: Message, version: int = 7) -> Any:
    return await channel.forward(request, context(request, version))


async def failure(channel: NetworkChannel, request: Message) -> ErrorCode:
    with pytest.raises(ApiException) as failed:
        await forwarded(channel, request)
    return failed.value.code


@pytest.mark.parametrize("kind", ["kafka", "ours"])
def test_topics_are_created_and_deleted_through_envelopes(request: pytest.FixtureRequest, kind: str) -> None:
    node: KafkaNode | Node = request.getfixturevalue("real_kafka" if kind == "kafka" else "barnabas_node")

    async def scenario() -> None:
        channel = channel_to(lambda: Endpoint("127.0.0.1", node.controller_port))
        try:
            assert channel.versions() is None
            for version in range(2, 8):
                made = await forwarded(channel, create(f"forwarded-{version}"), version)
                assert (made.topics[0].name, made.topics[0].error_code) == (f"forwarded-{version}", 0)
            again = await forwarded(channel, create("forwarded-7"))
            assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            versions = channel.versions()
            assert versions is not None
            assert tuple(versions[ApiKey.CREATE_TOPICS]) == (2, 7)
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=f"forwarded-{v}") for v in range(2, 8)])
            gone.timeout_ms = 9000
            assert {response.error_code for response in (await forwarded(channel, gone, 6)).responses} == {0}
            own: Any = await channel.send(AllocateProducerIdsRequest(broker_id=977, broker_epoch=1))
            assert own.error_code == ErrorCode.STALE_BROKER_EPOCH
        finally:
            await channel.close()

    run(scenario())


async def with_fake(answer: Any, scenario: Callable[[FakeController, NetworkChannel], Any], **settings: Any) -> Any:
    async with FakeController(answer) as fake:
        channel = channel_to(lambda: fake.endpoint, **settings)
        try:
            return await scenario(fake, channel)
        finally:
            await channel.close()


def error_of_envelope(code: ErrorCode) -> Any:
    async def answer(envelope: EnvelopeRequest) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=int(code))

    return answer


@pytest.mark.parametrize(
    "code",
    [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE],
)
def test_a_refused_envelope_is_not_reported_as_the_clients_fault(code: ErrorCode) -> None:
    async def scenario(fake: FakeController, channel: NetworkChannel) -> ErrorCode:
        return await failure(channel, create("x"))

    assert run(with_fake(error_of_envelope(code), scenario)) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_version_that_the_controller_lost_closes_the_clients_connection() -> None:
    async def scenario(fake: FakeController, channel: NetworkChannel) -> None:
        with pytest.raises(CloseConnection):
            await forwarded(channel, create("x"))

    run(with_fake(error_of_envelope(ErrorCode.UNSUPPORTED_VERSION), scenario))


def test_an_answer_to_another_request_is_not_given_to_the_client() -> None:
    async def scenario(fake: FakeController, channel: NetworkChannel) -> ErrorCode:
        return await failure(channel, create("x"))

    async def shifted(envelope: EnvelopeRequest) -> EnvelopeResponse:
        return await created(envelope, correlation_shift=1)

    assert run(with_fake(shifted, scenario)) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_controller_without_envelopes_cannot_be_used() -> None:
    async def scenario() -> ErrorCode:
        async with FakeController(versions={18: (0, 4)}) as fake:
            channel = channel_to(lambda: fake.endpoint)
            try:
                return await failure(channel, create("x"))
            finally:
                await channel.close()

    assert run(scenario()) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_credentials_that_are_not_accepted_are_not_tried_again(barnabas_node: Node) -> None:
    """A controller listener without SASL refuses SASL requests."""
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="wrong";'
    login: dict[str, Any] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}

    async def scenario() -> ErrorCode:
        channel = channel_to(lambda: Endpoint("127.0.0.1", barnabas_node.controller_port), **login)
        try:
            return await failure(channel, create("x", timeout_ms=5000))
        finally:
            await channel.close()

    began = time.monotonic()
    assert run(scenario()) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert time.monotonic() - began < 4


def test_without_a_controller_the_client_receives_an_error_at_its_timeout() -> None:
    async def scenario() -> tuple[ErrorCode, int, int]:
        channel = channel_to(lambda: None)
        waiting = asyncio.ensure_future(failure(channel, create("x", timeout_ms=300)))
        await asyncio.sleep(0.05)
        length = channel.queue_length
        code = await waiting
        await channel.close()
        return code, length, channel.queue_length

    assert run(scenario()) == (ErrorCode.REQUEST_TIMED_OUT, 1, 0)


@pytest.mark.parametrize("how", ["hangs up", "stays silent"])
def test_repeatedly_lost_answers_end_at_the_clients_timeout(how: str) -> None:
    async def answer(envelope: EnvelopeRequest) -> EnvelopeResponse | None:
        if how == "stays silent":
            await asyncio.sleep(30)
        return None

    async def scenario(fake: FakeController, channel: NetworkChannel) -> tuple[ErrorCode, int]:
        return await failure(channel, create("x", timeout_ms=1500)), len(fake.envelopes)

    code, sent = run(with_fake(answer, scenario))
    assert code is ErrorCode.REQUEST_TIMED_OUT
    assert sent >= 2


@pytest.mark.parametrize("how", ["says so", "is gone"])
def test_requests_go_to_a_new_controller_as_soon_as_it_is_known(how: str) -> None:
    async def scenario() -> tuple[CreateTopicsResponse, bool]:
        async with FakeController(error_of_envelope(ErrorCode.NOT_CONTROLLER)) as old, FakeController() as new:
            leader = [old.endpoint if how == "says so" else Endpoint("127.0.0.1", 1)]
            channel = channel_to(lambda: leader[0])
            try:
                waiting = asyncio.ensure_future(forwarded(channel, create("x")))
                await asyncio.sleep(0.2)
                leader[0] = new.endpoint
                answer = await waiting
                return answer, len(new.envelopes) == 1
            finally:
                await channel.close()

    answer, was_sent = run(scenario())
    assert (answer.topics[0].error_code, was_sent) == (0, True)


def test_the_brokers_own_requests_go_to_the_new_controller_too() -> None:
    async def scenario() -> tuple[Any, int, int]:
        async with FakeController() as old, FakeController() as new:
            old.own_answer = AllocateProducerIdsResponse(error_code=int(ErrorCode.NOT_CONTROLLER))
            new.own_answer = AllocateProducerIdsResponse(producer_id_start=4000, producer_id_len=1000)
            leader = [old.endpoint]
            channel = channel_to(lambda: leader[0])
            try:
                waiting = asyncio.ensure_future(channel.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=2)))
                await asyncio.sleep(0.2)
                leader[0] = new.endpoint
                return await waiting, len(old.own), len(new.own)
            finally:
                await channel.close()

    answer, old_count, new_count = run(scenario())
    assert (answer.error_code, answer.producer_id_start) == (0, 4000)
    assert old_count >= 2
    assert new_count == 1


def test_a_slow_request_does_not_delay_other_clients() -> None:
    async def answer(envelope: EnvelopeRequest) -> EnvelopeResponse:
        if b"slow" in envelope.request_data:
            await asyncio.sleep(0.4)
        return await created(envelope)

    async def scenario(fake: FakeController, channel: NetworkChannel) -> tuple[list[str], int]:
        done = []

        async def ask(name: str) -> None:
            await forwarded(channel, create(name))
            done.append(name)

        await asyncio.gather(ask("slow"), *(ask(f"quick-{number}") for number in range(6)))
        return done, fake.connections

    done, connections = run(with_fake(answer, scenario, connections_max=2))
    assert done[-1] == "slow"
    assert connections == 2, "a connection for the slow one, and one for all the others"


def test_a_request_of_a_disconnected_client_is_not_sent() -> None:
    async def scenario() -> int:
        leader: list[Endpoint | None] = [None]
        async with FakeController() as fake:
            channel = channel_to(lambda: leader[0])
            waiting = asyncio.ensure_future(forwarded(channel, create("x")))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.sleep(0)
            leader[0] = fake.endpoint
            await asyncio.sleep(0.3)
            await channel.close()
            return len(fake.envelopes)

    assert run(scenario()) == 0


def test_waiting_requests_receive_an_error_when_the_broker_stops() -> None:
    async def scenario() -> ErrorCode:
        channel = channel_to(lambda: None)
        waiting = asyncio.ensure_future(failure(channel, create("x")))
        await asyncio.sleep(0.05)
        await channel.close()
        return await waiting

    assert run(scenario()) is ErrorCode.NOT_CONTROLLER


def test_times_and_clients_are_counted() -> None:
    async def scenario(fake: FakeController, channel: NetworkChannel) -> Any:
        await forwarded(channel, create("x"))
        return channel.stats

    stats = run(with_fake(created, scenario))
    assert stats.requests_by_client == {"terminal": 1}
    assert (stats.queue_times.count, stats.remote_times.count, stats.timed_out) == (1, 1, 0)
