"""A group's member and its coordinator in memory: partitions are released before they are assigned again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import Address, client_config
from barnabas.clients.consumer.group_member import GroupMember
from barnabas.clients.consumer.range_assignor import subscription
from barnabas.common.error_code import ErrorCode
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
        if not code and not message.member_id:
            code = ErrorCode.MEMBER_ID_REQUIRED
        member_id = message.member_id or "member-1"
        self.generation += not code
        members = [
            JoinGroupResponseMember(member_id=name, metadata=subscription(TOPIC)) for name in (member_id, *self.others)
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


def as_member(group: Group, use: Callable[[GroupMember], Awaitable[None]]) -> GroupMember:
    async def main() -> GroupMember:
        member = GroupMember(group.network, "g", TOPIC, heartbeat_interval_s=0.001)
        async with asyncio.timeout(20):
            member.start()
            await use(member)
        return member

    return asyncio.run(main())


async def news(member: GroupMember) -> tuple[bool, set[int]]:
    await member.changed.wait()
    member.changed.clear()
    return member.is_joined, set(member.assigned)


def test_the_only_member_gets_all_partitions_and_leaves_at_the_end() -> None:
    group = Group()

    async def use(member: GroupMember) -> None:
        assert await news(member) == (True, {0, 1, 2, 3})
        await member.leave()

    as_member(group, use)
    assert group.asked[-1] == ApiKey.LEAVE_GROUP


def test_a_rebalance_waits_until_the_caller_has_released_its_partitions() -> None:
    group = Group()

    async def use(member: GroupMember) -> None:
        assert await news(member) == (True, {0, 1, 2, 3})
        group.others.append(OTHER)
        group.errors[ApiKey.HEARTBEAT].extend([ErrorCode.REBALANCE_IN_PROGRESS] * 3)
        assert await news(member) == (False, set())
        joins = group.asked.count(ApiKey.JOIN_GROUP)
        await asyncio.sleep(0.02)
        assert group.asked.count(ApiKey.JOIN_GROUP) == joins
        assert await member.commit({0: 5, 1: 6})  # In the old generation.
        member.release()
        assert await news(member) == (True, {0, 1})
        await member.leave()

    assert as_member(group, use).drops == 0
    assert group.offsets == {0: 5, 1: 6}


def test_a_dropped_member_commits_nothing_and_joins_again() -> None:
    group = Group()

    async def use(member: GroupMember) -> None:
        await news(member)
        group.errors[ApiKey.HEARTBEAT].append(ErrorCode.UNKNOWN_MEMBER_ID)
        assert await news(member) == (False, set())
        assert member.drops == 1
        assert not await member.commit({0: 5})
        member.release()
        assert await news(member) == (True, {0, 1, 2, 3})
        assert await member.commit({0: 7})
        await member.leave()

    as_member(group, use)
    assert group.offsets == {0: 7}


@pytest.mark.parametrize("api", [ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP])
def test_a_coordinator_that_moves_is_found_again(api: ApiKey) -> None:
    group = Group()
    group.errors[ApiKey.FIND_COORDINATOR].append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.errors[api].append(ErrorCode.NOT_COORDINATOR)

    async def use(member: GroupMember) -> None:
        assert await news(member) == (True, {0, 1, 2, 3})
        assert await member.commit({1: 3})
        assert await member.committed([0, 1]) == {1: 3}
        await asyncio.sleep(0.02)
        await member.leave()

    assert as_member(group, use).drops == 0
    assert group.asked.count(ApiKey.FIND_COORDINATOR) >= 3


def test_a_refusal_is_the_members_failure() -> None:
    group = Group()
    group.errors[ApiKey.JOIN_GROUP].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async def use(member: GroupMember) -> None:
        await news(member)
        await member.leave()

    failure = as_member(group, use).failure
    assert isinstance(failure, AdminError)
    assert failure.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert ApiKey.LEAVE_GROUP not in group.asked
