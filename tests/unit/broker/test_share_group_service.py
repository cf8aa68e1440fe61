"""Share groups and the persister: what follows its successes and failures, and how answers wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping
from typing import Any

import pytest

from barnabas.broker.latest_offsets import LatestOffset
from barnabas.broker.share_group_service import ShareGroupService
from barnabas.common.errors import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.share.persister import SharePartitionSummary
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.unit.coordinator.share_group_driver import QUEUE, ShareGroupDriver

pytestmark = pytest.mark.anyio


class FakePersister:
    """Keeps states in memory. ``errors``: the outcome of calls about a partition."""

    def __init__(self) -> None:
        self.states: dict[tuple[Uuid, int], tuple[int, int]] = {}
        """State epochs and start offsets."""
        self.errors: dict[int, tuple[int, str | None]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.in_flight = self.in_flight_max = 0

    async def initialize_state(
        self, group_id: str, topic_id: Uuid, partition: int, state_epoch: int, start_offset: int
    ) -> tuple[int, str | None]:
        assert group_id == QUEUE
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        await self.gate.wait()
        self.in_flight -= 1
        if partition in self.errors:
            return self.errors[partition]
        self.states[topic_id, partition] = state_epoch, start_offset
        return 0, None

    async def delete_state(self, group_id: str, topic_id: Uuid, partition: int) -> tuple[int, str | None]:
        await self.gate.wait()
        if partition in self.errors:
            return self.errors[partition]
        self.states.pop((topic_id, partition), None)
        return 0, None

    async def read_summary(
        self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int
    ) -> SharePartitionSummary:
        if partition in self.errors:
            return SharePartitionSummary(*self.errors[partition], 0, 0, -1, -1)
        state = self.states.get((topic_id, partition))
        if state is None:
            return SharePartitionSummary.uninitialized()
        return SharePartitionSummary(0, None, state[0], 8, state[1], 3)


class FakeEnds:
    def __init__(self) -> None:
        self.errors: dict[TopicPartition, ErrorCode] = {}

    async def of(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LatestOffset]:
        return {
            partition: LatestOffset.failed(self.errors[partition]) if partition in self.errors else LatestOffset(100)
            for partition in partitions
        }


class Stage:
    """A broker that coordinates all groups; it is its own ``GroupService``."""

    def __init__(self) -> None:
        self.driver = ShareGroupDriver()
        self.driver.load()
        self.persister = FakePersister()
        self.ends = FakeEnds()
        self.service = ShareGroupService(self, self.persister, self.ends)  # type: ignore[arg-type]
        self.tasks: list[asyncio.Task[None]] = []
        self.orders = self.driver.create("orders", 2)

    # -- GroupService

    @property
    def coordinator(self) -> Any:
        return self.driver.coordinator

    def now_ms(self) -> int:
        return self.driver.now_ms

    def answer(self, deferred: Deferred[Any]) -> Any:
        return deferred.value

    def start_task(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    # -- requests

    def beat(self, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=QUEUE, member_id="m", member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        answer = self.service.heartbeat(GroupRequestContext(1, "client", "/h"), request)
        assert not isinstance(answer, Awaitable)
        return answer

    async def finished(self) -> None:
        await asyncio.gather(*self.tasks)
        self.tasks = []

    async def alter(self, *offsets: tuple[int, int], topic: str = "orders") -> AlterShareGroupOffsetsResponse:
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
            for partition, offset in offsets
        ]
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
        return await self.service.alter_offsets(AlterShareGroupOffsetsRequest(group_id=QUEUE, topics=topics))

    async def delete_offsets(self, *topics: str) -> DeleteShareGroupOffsetsResponse:
        wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        return await self.service.delete_offsets(DeleteShareGroupOffsetsRequest(group_id=QUEUE, topics=wanted))

    async def delete_groups(self, *group_ids: str) -> dict[str, int]:
        parts = await self.service.delete_groups(list(group_ids))
        return {result.group_id: result.error_code for part in parts for result in part}

    def initialized(self) -> set[int]:
        partitions = self.driver.group.known_partitions.initialized.get(self.orders)
        return set() if partitions is None else set(partitions.partitions)

    def initializing(self) -> set[int]:
        partitions = self.driver.group.known_partitions.initializing.get(self.orders)
        return set() if partitions is None else set(partitions.partitions)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


# -- heartbeats


async def test_a_member_does_not_wait_for_the_persister(stage: Stage) -> None:
    stage.persister.gate.clear()
    assert stage.beat(0, "orders").member_epoch == 2
    assert stage.beat(2).member_epoch == 2
    stage.persister.gate.set()
    await stage.finished()
    assert stage.persister.states == {(stage.orders, 0): (2, -1), (stage.orders, 1): (2, -1)}
    assert stage.beat(2).member_epoch == 3
    assert stage.driver.assigned("m") == {"orders": [0, 1]}


async def test_one_failure_lets_all_partitions_be_tried_again(stage: Stage) -> None:
    stage.persister.errors = {1: (ErrorCode.COORDINATOR_NOT_AVAILABLE, "no")}
    stage.beat(0, "orders")
    await stage.finished()
    assert stage.initialized() == stage.initializing() == set()
    stage.persister.errors = {}
    stage.beat(2)
    await stage.finished()
    assert stage.initialized() == {0, 1}


async def test_a_result_that_can_not_be_recorded_is_tried_again_later(stage: Stage) -> None:
    stage.beat(0, "orders")
    stage.driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    await stage.finished()
    stage.driver.topic.refuse_with = None
    assert stage.initialized() == set()
    assert stage.initializing() == {0, 1}


async def test_many_partitions_are_initialized_some_at_a_time(stage: Stage) -> None:
    stage.driver.grow("orders", 950)
    stage.persister.gate.clear()
    stage.beat(0, "orders")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stage.persister.gate.set()
    await stage.finished()
    assert len(stage.initialized()) == 950
    assert stage.persister.in_flight_max <= 100


# -- AlterShareGroupOffsets


async def test_altered_offsets_are_in_force_when_the_answer_comes(stage: Stage) -> None:
    response = await stage.alter((0, 7))
    assert response.error_code == ErrorCode.NONE
    assert stage.persister.states == {(stage.orders, 0): (1, 7)}
    assert stage.initialized() == {0}


async def test_errors_of_the_persister_are_those_of_partitions(stage: Stage) -> None:
    stage.persister.errors = {1: (ErrorCode.FENCED_STATE_EPOCH, "too old")}
    response = await stage.alter((0, 7), (1, 8))
    (topic,) = response.responses
    assert [(partition.error_code, partition.error_message) for partition in topic.partitions] == [
        (ErrorCode.NONE, None),
        (ErrorCode.FENCED_STATE_EPOCH, "too old"),
    ]
    assert stage.initialized() == set()
    assert stage.initializing() == {0, 1}


async def test_the_persister_is_not_called_without_valid_partitions(stage: Stage) -> None:
    stage.persister.gate.clear()
    response = await stage.alter((0, 7), topic="missing")
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stage.beat(0, "orders")
    assert (await stage.alter((0, 7))).error_code == ErrorCode.NON_EMPTY_GROUP


# -- DeleteShareGroupOffsets


async def test_deleted_offsets_are_gone_at_the_persister_and_in_the_group(stage: Stage) -> None:
    await stage.alter((0, 7), (1, 8))
    response = await stage.delete_offsets("orders", "missing")
    assert [(topic.topic_name, topic.topic_id, topic.error_code) for topic in response.responses] == [
        ("orders", stage.orders, ErrorCode.NONE),
        ("missing", Uuid.ZERO, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert stage.persister.states == {}
    assert stage.driver.group.known_partitions.deleting == frozenset()


async def test_a_failed_deletion_of_offsets_is_reported_and_can_be_repeated(stage: Stage) -> None:
    await stage.alter((0, 7), (1, 8))
    stage.persister.errors = {1: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "wait")}
    response = await stage.delete_offsets("orders")
    (topic,) = response.responses
    assert (topic.error_code, topic.error_message) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "wait")
    assert stage.driver.group.known_partitions.deleting == {stage.orders}
    stage.persister.errors = {}
    assert (await stage.delete_offsets("orders")).responses[0].error_code == ErrorCode.NONE
    assert stage.driver.group.known_partitions.deleting == frozenset()


async def test_offsets_of_an_unknown_group_can_not_be_deleted(stage: Stage) -> None:
    response = await stage.delete_offsets("orders")
    assert (response.error_code, response.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group queue not found.")


async def test_a_coordinator_that_loses_the_group_in_between_says_so(stage: Stage) -> None:
    await stage.alter((0, 7))
    stage.persister.gate.clear()
    waiting = asyncio.ensure_future(stage.delete_offsets("orders"))
    await asyncio.sleep(0)
    stage.driver.coordinator.runtime.unload(0, stage.driver.now_ms)
    stage.persister.gate.set()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR


# -- DeleteGroups


async def test_a_group_is_deleted_after_its_states(stage: Stage) -> None:
    await stage.alter((0, 7))
    stage.driver.commit(5, group="classic")
    assert await stage.delete_groups(QUEUE, "classic", "unknown") == {
        QUEUE: ErrorCode.NONE,
        "classic": ErrorCode.NONE,
        "unknown": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert stage.persister.states == {}
    assert stage.driver.listed() == []


async def test_a_group_whose_states_can_not_be_deleted_stays(stage: Stage) -> None:
    await stage.alter((0, 7))
    stage.persister.errors = {0: (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)}
    stage.driver.commit(5, group="classic")
    assert await stage.delete_groups(QUEUE, "classic") == {
        QUEUE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "classic": ErrorCode.NONE,
    }
    assert [group.group_id for group in stage.driver.listed()] == [QUEUE]
    stage.persister.errors = {}
    assert await stage.delete_groups(QUEUE) == {QUEUE: ErrorCode.NONE}


async def test_a_group_with_members_stays(stage: Stage) -> None:
    stage.beat(0, "orders")
    await stage.finished()
    assert await stage.delete_groups(QUEUE) == {QUEUE: ErrorCode.NON_EMPTY_GROUP}
    assert len(stage.persister.states) == 2


# -- DescribeShareGroupOffsets


async def described(stage: Stage) -> dict[int, tuple[int, int, int, int]]:
    topics = await stage.service.describe_offsets(QUEUE, stage.service.known_partitions(QUEUE))
    assert all((topic.topic_name, topic.topic_id) == ("orders", stage.orders) for topic in topics)
    return {
        partition.partition_index: (
            partition.start_offset,
            partition.leader_epoch,
            partition.lag,
            partition.error_code,
        )
        for topic in topics
        for partition in topic.partitions
    }


async def test_the_lag_counts_records_that_are_not_delivered_completely(stage: Stage) -> None:
    await stage.alter((0, 7), (1, -1))
    assert await described(stage) == {0: (7, 8, 100 - 7 - 3, 0), 1: (-1, 8, -1, 0)}


async def test_a_state_that_can_not_be_read_has_no_offset(stage: Stage) -> None:
    await stage.alter((0, 7))
    stage.persister.errors = {0: (ErrorCode.COORDINATOR_NOT_AVAILABLE, "no")}
    assert await described(stage) == {0: (-1, 0, -1, 0)}


async def test_a_partition_whose_end_is_unknown_has_the_error(stage: Stage) -> None:
    await stage.alter((0, 7))
    stage.ends.errors = {TopicPartition("orders", 0): ErrorCode.LEADER_NOT_AVAILABLE}
    assert await described(stage) == {0: (0, 0, -1, ErrorCode.LEADER_NOT_AVAILABLE)}
