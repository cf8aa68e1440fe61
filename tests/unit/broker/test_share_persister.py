"""Where a persister finds the coordinator of a share-partition, and how it shares, orders and repeats calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from barnabas.broker.share_persister import SharePersister
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.share.persister import (
    SUCCESS,
    Persister,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateBatch,
    StateOutcome,
    StateWrite,
)
from barnabas.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

ME, OTHER = 1, 2
TOPIC = Uuid.from_int(1_000)
GROUP = "group"
BATCHES = [StateBatch(0, 4, 2, 1)]


class World:
    """A coordinator here or on another broker. ``script``: the error codes of the next answers, then NONE."""

    def __init__(self, leader: int | None = OTHER, *script: ErrorCode) -> None:
        self.partitions: dict[int, Any] = {} if leader is None else {0: SimpleNamespace(leader=leader)}
        self.script = list(script)
        self.pauses_s: list[float] = []
        self.requests: list[Any] = []
        self.local: list[tuple[SharePartitionKey, Any]] = []
        self.created = 0
        self.on_pause: Callable[[], None] = lambda: None
        self.gate: asyncio.Event | None = None
        """If set, answers wait for it."""
        self.unconfirmed_keys: set[SharePartitionKey] | None = None
        service: Any = self
        others: Any = SimpleNamespace(ask=self._ask)
        self.persister = SharePersister(
            broker_id=ME, service=service, metadata=service, others=others, create_topic=self._create, pause=self._pause
        )
        port: Persister = self.persister
        assert port is self.persister

    def run(self, *calls: Callable[[SharePersister], Awaitable[Any]]) -> list[Any]:
        async def all_calls() -> list[Any]:
            return list(await asyncio.gather(*(call(self.persister) for call in calls)))

        return asyncio.run(all_calls())

    async def _pause(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        self.on_pause()

    async def _create(self) -> None:
        self.created += 1

    def _next(self) -> StateOutcome:
        code = self.script.pop(0) if self.script else ErrorCode.NONE
        return SUCCESS if code is ErrorCode.NONE else StateOutcome(code, "because")

    # --- metadata

    def topic(self, name: str) -> Any:
        assert name == SHARE_STATE_TOPIC
        return SimpleNamespace(partitions=self.partitions) if self.partitions else None

    # --- the service of this broker

    @property
    def are_reads_safe(self) -> bool:
        return self.unconfirmed_keys is None

    async def unconfirmed(self, keys: tuple[SharePartitionKey, ...]) -> set[SharePartitionKey]:
        assert self.unconfirmed_keys is not None
        return self.unconfirmed_keys.intersection(keys)

    def answer(self, deferred: Deferred[Any]) -> Any:
        async def later() -> Any:
            await asyncio.sleep(0)
            return deferred.value

        return later() if len(self.local) % 2 else deferred.value

    def _local(self, key: SharePartitionKey, argument: Any) -> StateOutcome:
        self.local.append((key, argument))
        return self._next()

    def initialize(self, key: SharePartitionKey, wanted: Any) -> Any:
        return Deferred.completed(self._local(key, wanted))

    def write(self, key: SharePartitionKey, write: Any) -> Any:
        return Deferred.completed(self._local(key, write))

    def delete(self, key: SharePartitionKey) -> Any:
        return Deferred.completed(self._local(key, None))

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Any:
        outcome = self._local(key, leader_epoch)
        return Deferred.completed(SharePartitionState(*outcome, 7, 3, tuple(BATCHES)))

    def read_summary(self, key: SharePartitionKey) -> Any:
        return Deferred.completed(SharePartitionSummary(*self._local(key, None), 7, 1, 3, 2))

    # --- the other broker

    async def _ask(self, broker_id: int, request: Any, *, timeout_s: float) -> Any:
        assert broker_id == OTHER
        self.requests.append(request)
        if self.gate is not None:
            await self.gate.wait()
        else:
            await asyncio.sleep(0)
        outcome = self._next()
        if outcome.error_code == ErrorCode.BROKER_NOT_AVAILABLE:
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE, "it is unreachable")
        response = _response(request, outcome)
        version = request.MAX_VERSION
        type(request).decode(request.encode(version), version)
        return type(response).decode(response.encode(version), version)


def _response(request: Any, outcome: StateOutcome) -> Any:
    """Answer every share-partition of a request alike."""
    code, message = outcome
    kinds: dict[Any, tuple[Any, str, dict[str, Any]]] = {
        initialize_share_group_state.InitializeShareGroupStateRequest: (
            initialize_share_group_state, "InitializeStateResult", {},
        ),
        write_share_group_state.WriteShareGroupStateRequest: (write_share_group_state, "WriteStateResult", {}),
        delete_share_group_state.DeleteShareGroupStateRequest: (delete_share_group_state, "DeleteStateResult", {}),
        read_share_group_state.ReadShareGroupStateRequest: (
            read_share_group_state,
            "ReadStateResult",
            {
                "state_epoch": 7,
                "start_offset": 3,
                "state_batches": [
                    read_share_group_state.StateBatch(
                        first_offset=0, last_offset=4, delivery_state=2, delivery_count=1
                    )
                ],
            },
        ),
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest: (
            read_share_group_state_summary,
            "ReadStateSummaryResult",
            {"state_epoch": 7, "leader_epoch": 1, "start_offset": 3, "delivery_complete_count": 2},
        ),
    }  # fmt: skip
    found, result, fields = kinds[type(request)]
    return request.response_type()(
        results=[
            getattr(found, result)(
                topic_id=topic.topic_id,
                partitions=[
                    found.PartitionResult(
                        partition=partition.partition, error_code=code, error_message=message, **fields
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def write(
    partition: int = 0, *, start: int = 0, batches: list[StateBatch] = BATCHES, epoch: int = 4, group: str = GROUP
) -> Any:
    return lambda persister: persister.write_state(group, TOPIC, partition, 7, epoch, start, 1, batches)


def initialize(partition: int = 0) -> Any:
    return lambda persister: persister.initialize_state(GROUP, TOPIC, partition, 7, 3)


def read(partition: int = 0) -> Any:
    return lambda persister: persister.read_state(GROUP, TOPIC, partition, 4)


def delete(partition: int = 0) -> Any:
    return lambda persister: persister.delete_state(GROUP, TOPIC, partition)


def summary(partition: int = 0) -> Any:
    return lambda persister: persister.read_summary(GROUP, TOPIC, partition, 4)


EXPECTED = [
    SUCCESS,
    SharePartitionState(0, None, 7, 3, tuple(BATCHES)),
    SUCCESS,
    SharePartitionSummary(0, None, 7, 1, 3, 2),
    SUCCESS,
]


def test_calls_go_to_the_coordinator_here() -> None:
    world = World(ME)
    assert world.run(initialize(), read(), write(), summary(), delete()) == EXPECTED
    key = SharePartitionKey(GROUP, TOPIC, 0)
    assert [argument for found, argument in world.local if found == key] == [
        (7, 3),
        4,
        StateWrite(7, 4, 0, 1, tuple(BATCHES)),
        None,
        None,
    ]
    assert world.requests == []


def test_calls_go_to_the_coordinator_elsewhere() -> None:
    world = World(OTHER)
    assert world.run(initialize(), read(), write(), summary(), delete()) == EXPECTED
    assert world.local == []
    assert len(world.requests) == 5
    written = world.requests[2].topics[0].partitions[0]
    assert (written.state_epoch, written.leader_epoch, written.start_offset) == (7, 4, 0)
    assert (written.delivery_complete_count, len(written.state_batches)) == (1, 1)
    assert world.requests[1].topics[0].partitions[0].leader_epoch == 4


def test_calls_that_are_made_together_share_a_request() -> None:
    world = World(OTHER)
    assert world.run(*(initialize(number) for number in range(40))) == [SUCCESS] * 40
    (request,) = world.requests
    assert [partition.partition for partition in request.topics[0].partitions] == list(range(40))


def test_a_request_has_the_share_partitions_of_one_group() -> None:
    world = World(OTHER)
    world.run(write(0), write(1), write(0, group="other"))
    assert sorted((request.group_id, len(request.topics[0].partitions)) for request in world.requests) == [
        ("group", 2),
        ("other", 1),
    ]


def test_a_request_has_a_limited_number_of_share_partitions_and_batches() -> None:
    world = World(OTHER)
    world.run(*(initialize(number) for number in range(1_100)))
    assert [len(request.topics[0].partitions) for request in world.requests] == [500, 500, 100]
    world.requests.clear()
    many = [StateBatch(2 * number, 2 * number, 2, 1) for number in range(6_000)]
    world.run(write(0, batches=many), write(1, batches=many), write(2, batches=many * 2))
    assert [len(request.topics[0].partitions) for request in world.requests] == [1, 1, 1]


def test_writes_of_one_share_partition_are_made_in_order_and_join_while_they_wait() -> None:
    world = World(OTHER)

    async def scenario(persister: SharePersister) -> list[Any]:
        world.gate = asyncio.Event()
        writes = [
            asyncio.ensure_future(write(start=start, batches=[StateBatch(start, start, 2, 1)])(persister))
            for start in (0, 5, -1, 9)
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(world.requests) == 1
        world.gate.set()
        return list(await asyncio.gather(*writes))

    assert world.run(scenario) == [[SUCCESS] * 4]
    first, joined = (request.topics[0].partitions[0] for request in world.requests)
    assert first.start_offset == 0
    assert (joined.start_offset, [batch.first_offset for batch in joined.state_batches]) == (9, [5, -1, 9])


def test_a_write_without_a_start_offset_keeps_that_of_the_write_it_joins() -> None:
    world = World(ME)
    world.run(write(start=0), write(start=5), write(start=-1))
    assert [argument.start_offset for _, argument in world.local] == [0, 5]


def test_writes_of_different_leaders_are_not_joined() -> None:
    world = World(ME)
    world.run(write(epoch=4), write(epoch=4), write(epoch=5), write(epoch=5))
    assert [argument.leader_epoch for _, argument in world.local] == [4, 4, 5]


def test_joined_writes_share_their_error() -> None:
    world = World(ME, ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH)
    outcomes = world.run(write(), write(), write())
    assert [outcome.error_code for outcome in outcomes] == [0] + [ErrorCode.FENCED_LEADER_EPOCH] * 2


def test_a_cancelled_write_does_not_leave_the_writes_that_joined_it_waiting() -> None:
    world = World(OTHER)

    async def scenario(persister: SharePersister) -> Any:
        world.gate = asyncio.Event()
        first, second, third = (asyncio.ensure_future(write()(persister)) for _ in range(3))
        for _ in range(10):
            await asyncio.sleep(0)
        second.cancel()
        world.gate.set()
        assert await first == SUCCESS
        return await third

    (outcome,) = world.run(scenario)
    assert outcome.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_errors_that_may_pass_are_repeated_with_growing_pauses() -> None:
    codes = [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
    world = World(OTHER, *codes)
    assert world.run(write()) == [SUCCESS]
    assert len(world.pauses_s) == len(codes)
    for pause_s, expected in zip(world.pauses_s, (0.1, 0.2, 0.4, 0.8, 1.6, 2.0), strict=True):
        assert 0.8 * expected <= pause_s <= 1.2 * expected


def test_other_errors_are_returned_at_once() -> None:
    world = World(ME, ErrorCode.FENCED_STATE_EPOCH)
    assert world.run(write()) == [StateOutcome(ErrorCode.FENCED_STATE_EPOCH, "because")]
    assert world.pauses_s == []


def test_a_coordinator_that_stays_unreachable_is_given_up() -> None:
    world = World(OTHER, *[ErrorCode.BROKER_NOT_AVAILABLE] * 50)
    assert world.run(read()) == [SharePartitionState(ErrorCode.NETWORK_EXCEPTION, "it is unreachable", 0, 0, ())]
    assert len(world.requests) == 11


def test_a_call_follows_the_coordinator_that_moves() -> None:
    world = World(OTHER, ErrorCode.NOT_COORDINATOR)
    world.on_pause = lambda: world.partitions.update({0: SimpleNamespace(leader=ME)})
    assert world.run(write()) == [SUCCESS]
    assert (len(world.requests), len(world.local)) == (1, 1)


def test_without_the_topic_it_is_created_first() -> None:
    world = World(None)
    world.on_pause = lambda: world.partitions.update({0: SimpleNamespace(leader=ME)})
    assert world.run(initialize()) == [SUCCESS]
    assert world.created == 1


def test_without_a_leader_the_call_waits_for_one() -> None:
    world = World(-1)
    assert world.run(summary()) == [
        SharePartitionSummary(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "The share-partition has no coordinator now.", 0, 0, 0, -1
        )
    ]
    assert len(world.pauses_s) == 10


def test_a_read_here_is_not_answered_while_another_broker_may_coordinate() -> None:
    world = World(ME)
    world.unconfirmed_keys = {SharePartitionKey(GROUP, TOPIC, 0)}
    world.on_pause = lambda: setattr(world, "unconfirmed_keys", set())
    assert world.run(read(), read(1)) == [EXPECTED[1]] * 2
    assert len(world.pauses_s) == 1


def test_a_share_partition_that_is_missing_in_the_answer_is_an_error() -> None:
    world = World(OTHER)

    async def ask(broker_id: int, request: Any, *, timeout_s: float) -> Any:
        return write_share_group_state.WriteShareGroupStateResponse()

    world.persister._others.ask = ask  # type: ignore[method-assign, assignment]
    (outcome,) = world.run(write())
    assert outcome.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
