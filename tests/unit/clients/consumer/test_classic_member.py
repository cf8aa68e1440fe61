"""A member of a classic group and its coordinator in memory: partitions are given up before they are assigned again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import Address, client_config
from barnabas.clients.consumer.classic_member import ClassicMember
from barnabas.clients.consumer.config import GroupConfig
from barnabas.clients.consumer.group_coordinator import GroupCoordinator
from barnabas.clients.consumer.range_assignor import subscription
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.leave_group import LeaveGroupResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.clients.consumer.until import until
from tests.unit.clients.memory_cluster import TOPIC, MemoryCluster, MemoryConnection

OTHER = "other-member"


class OwnConnection(MemoryConnection):
    async def close(self) -> None:
        self.is_open = False


class Group(MemoryCluster):
    """A coordinator. ``errors`` are returned by the next requests of an API; ``others`` are further members."""

    def __init__(self, partitions: int = 4) -> None:
        super().__init__(partitions)
        self.config = client_config({"bootstrap.servers": "a:1", "retry.backoff.ms": "0"})
        self.errors: dict[ApiKey, deque[ErrorCode]] = {key: deque() for key in ApiKey}
        self.others: list[str] = []
        self.offsets: dict[int, int] = {}
        self.generation = 0
        self.asked: list[ApiKey] = []
        self.instances: set[str] = set()

    async def open(self, address: Address) -> MemoryConnection:
        return OwnConnection(self, address)

    def answer(self, node: int, message: Any) -> Any:
        key = ApiKey(message.API_KEY)
        self.asked.append(key)
        code = self.errors[key].popleft() if self.errors[key] else ErrorCode.NONE
        match key:
            case ApiKey.FIND_COORDINATOR:
                found = Coordinator(key="g", node_id=1, host="node-1", port=9092, error_code=code)
                return FindCoordinatorResponse(coordinators=[found])
            case ApiKey.JOIN_GROUP:
                return self._join(message, code)
            case ApiKey.SYNC_GROUP:
                named = {given.member_id: given.assignment for given in message.assignments}
                return SyncGroupResponse(error_code=code, assignment=named.get(message.member_id, b""))
            case ApiKey.HEARTBEAT:
                return HeartbeatResponse(error_code=code)
            case ApiKey.LEAVE_GROUP:
                return LeaveGroupResponse(error_code=code)
            case ApiKey.OFFSET_COMMIT:
                return self._commit(message, code)
            case ApiKey.OFFSET_FETCH:
                return self._committed(message, code)
        return super().answer(node, message)

    def _join(self, message: Any, code: ErrorCode) -> JoinGroupResponse:
        self.instances |= {message.group_instance_id} - {None}
        if not code and not message.member_id:
            code = ErrorCode.MEMBER_ID_REQUIRED
        member_id = message.member_id or "member-1"
        self.generation += not code
        members = [
            JoinGroupResponseMember(member_id=name, metadata=subscription([TOPIC]))
            for name in (member_id, *self.others)
        ]
        return JoinGroupResponse(
            error_code=code, member_id=member_id, leader=member_id, generation_id=self.generation,
            protocol_type="consumer", protocol_name="range", members=members,
        )  # fmt: skip

    def _commit(self, message: Any, code: ErrorCode) -> OffsetCommitResponse:
        (topic,) = message.topics
        if not code and message.generation_id_or_member_epoch != self.generation:
            code = ErrorCode.ILLEGAL_GENERATION
        if not code:
            self.offsets |= {part.partition_index: part.committed_offset for part in topic.partitions}
        parts = [
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=parts)])

    def _committed(self, message: Any, code: ErrorCode) -> OffsetFetchResponse:
        ((topic,),) = (group.topics for group in message.groups)
        parts = [
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=self.offsets.get(index, -1), metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ]
        topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=parts)]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])


class Rebalances:
    """A listener. It takes the partitions that are revoked only while ``gives_up`` is set."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, set[int]]] = asyncio.Queue()
        self.gives_up = asyncio.Event()
        self.gives_up.set()

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("revoked", partitions)
        await self.gives_up.wait()

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("assigned", partitions)

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("lost", partitions)

    def _note(self, call: str, partitions: frozenset[TopicPartition]) -> None:
        self.calls.put_nowait((call, {partition.partition for partition in partitions}))


def as_member(
    group: Group, use: Callable[[ClassicMember, Rebalances], Awaitable[None]], instance_id: str | None = None
) -> ClassicMember:
    async def main() -> ClassicMember:
        listener = Rebalances()
        config = GroupConfig(instance_id=instance_id, heartbeat_interval_ms=1)
        coordinator = GroupCoordinator(group.network, "g")
        member = ClassicMember(group.network, coordinator, [TOPIC], config, listener)
        async with asyncio.timeout(20):
            member.start()
            await use(member, listener)
        return member

    return asyncio.run(main())


def at(offsets: dict[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(TOPIC, partition): offset for partition, offset in offsets.items()}


ALL = ("assigned", {0, 1, 2, 3})


def test_the_only_member_gets_all_partitions_and_leaves_at_the_end() -> None:
    group = Group()

    async def use(member: ClassicMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        await member.leave()

    as_member(group, use)
    assert group.asked[-1] == ApiKey.LEAVE_GROUP


def test_a_static_member_names_its_instance_and_does_not_leave() -> None:
    group = Group()

    async def use(member: ClassicMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        await member.leave()

    as_member(group, use, "worker-1")
    assert group.instances == {"worker-1"}
    assert ApiKey.LEAVE_GROUP not in group.asked


def test_a_member_that_leaves_is_assigned_nothing_more() -> None:
    async def use(member: ClassicMember, listener: Rebalances) -> None:
        for _ in range(1_000):
            if member.assigned:  # The listener has not been called yet.
                break
            await asyncio.sleep(0)
        assert member.assigned
        await member.leave()
        assert listener.calls.empty()

    as_member(Group(), use)


def test_a_rebalance_waits_until_the_listener_has_given_up_its_partitions() -> None:
    group = Group()

    async def use(member: ClassicMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.others.append(OTHER)
        listener.gives_up.clear()
        group.errors[ApiKey.HEARTBEAT].extend([ErrorCode.REBALANCE_IN_PROGRESS] * 3)
        assert await listener.calls.get() == ("revoked", {0, 1, 2, 3})
        joins = group.asked.count(ApiKey.JOIN_GROUP)
        await asyncio.sleep(0.02)
        assert group.asked.count(ApiKey.JOIN_GROUP) == joins
        assert await member.commit(at({0: 5, 1: 6}))  # In the old generation.
        listener.gives_up.set()
        assert await listener.calls.get() == ("assigned", {0, 1})
        await member.leave()

    as_member(group, use)
    assert group.offsets == {0: 5, 1: 6}


def test_a_removed_member_commits_nothing_and_joins_again() -> None:
    group = Group()

    async def use(member: ClassicMember, listener: Rebalances) -> None:
        await listener.calls.get()
        group.errors[ApiKey.HEARTBEAT].append(ErrorCode.UNKNOWN_MEMBER_ID)
        assert await listener.calls.get() == ("lost", {0, 1, 2, 3})
        assert not await member.commit(at({0: 5}))
        assert await listener.calls.get() == ALL
        assert await member.commit(at({0: 7}))
        await member.leave()

    as_member(group, use)
    assert group.offsets == {0: 7}


@pytest.mark.parametrize("api", [ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP])
def test_a_coordinator_that_moves_is_found_again(api: ApiKey) -> None:
    group = Group()
    group.errors[ApiKey.FIND_COORDINATOR].append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.errors[api].append(ErrorCode.NOT_COORDINATOR)

    async def use(member: ClassicMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        assert await member.commit(at({1: 3}))
        assert await member.committed([TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]) == at({1: 3})
        await until(lambda: group.asked.count(ApiKey.FIND_COORDINATOR) >= 3)
        assert listener.calls.empty()
        await member.leave()

    as_member(group, use)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ApiKey.JOIN_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ApiKey.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_refusal_is_the_members_failure(api: ApiKey, code: ErrorCode) -> None:
    group = Group()
    group.errors[api].append(code)

    async def use(member: ClassicMember, listener: Rebalances) -> None:
        await member.ended.wait()
        await member.leave()

    failure = as_member(group, use).failure
    assert isinstance(failure, AdminError)
    assert failure.code == code
    assert ApiKey.LEAVE_GROUP not in group.asked
