"""A member of the consumer protocol and its coordinator in memory: what the listener is told, and what is committed."""

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
from barnabas.clients.consumer.consumer_member import ConsumerMember
from barnabas.clients.consumer.group_coordinator import GroupCoordinator
from barnabas.clients.consumer.group_member import GroupMember, group_member
from barnabas.clients.errors import UnsupportedVersion
from barnabas.clients.membership.consumer_membership import Subscription
from barnabas.clients.node_connection import SupportedVersions
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
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
from tests.unit.clients.consumer.until import until
from tests.unit.clients.memory_cluster import TOPIC, TOPIC_ID, MemoryCluster, MemoryConnection

NO_SUCH = ErrorCode.GROUP_ID_NOT_FOUND


class OwnConnection(MemoryConnection):
    features = {"group.version": 1}

    async def close(self) -> None:
        self.is_open = False


class Group(MemoryCluster):
    """A coordinator of one member. A new ``target`` is the member's when it has acknowledged to give up the others."""

    def __init__(self) -> None:
        super().__init__(4)
        self.config = client_config({"bootstrap.servers": "a:1", "retry.backoff.ms": "1"})
        self.errors: dict[ApiKey, deque[ErrorCode]] = {key: deque() for key in ApiKey}
        self.target = {0, 1, 2, 3}
        self.epoch = 1
        self.member_epoch = 0
        self.owned: set[int] | None = None
        self.assigned: set[int] | None = None
        self.commits: list[tuple[int, dict[int, int]]] = []
        self.asked: list[Any] = []
        self.type = "consumer"

    async def open(self, address: Address) -> MemoryConnection:
        return OwnConnection(self, address)

    def move(self, *partitions: int) -> None:
        self.target = set(partitions)
        self.epoch += 1

    def answer(self, node: int, message: Any) -> Any:
        key = ApiKey(message.API_KEY)
        self.asked.append(message)
        code = self.errors[key].popleft() if self.errors[key] else ErrorCode.NONE
        match key:
            case ApiKey.FIND_COORDINATOR:
                found = Coordinator(key="g", node_id=1, host="node-1", port=9092, error_code=code)
                return FindCoordinatorResponse(coordinators=[found])
            case ApiKey.CONSUMER_GROUP_HEARTBEAT:
                return self._beat(message, code)
            case ApiKey.OFFSET_COMMIT:
                return self._commit(message, code)
            case ApiKey.OFFSET_FETCH:
                parts = [
                    OffsetFetchResponsePartitions(partition_index=0, committed_offset=7, metadata=""),
                    OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata=""),
                ]
                topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=parts)]
                return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])
            case ApiKey.CONSUMER_GROUP_DESCRIBE:
                known = DescribedConsumerGroup(group_id="g", error_code=0 if self.type == "consumer" else NO_SUCH)
                return ConsumerGroupDescribeResponse(groups=[known])
            case ApiKey.DESCRIBE_GROUPS:
                members = [DescribedGroupMember(member_id="m")] if self.type == "classic" else []
                return DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", members=members)])
        return super().answer(node, message)

    def _beat(self, message: Any, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        if not code and message.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_epoch=message.member_epoch)
        if not code and message.member_epoch not in (0, self.member_epoch):
            code = ErrorCode.FENCED_MEMBER_EPOCH
        if code:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message="refused")
        if message.topic_partitions is not None:
            self.owned = {number for topic in message.topic_partitions for number in topic.partitions}
        if message.member_epoch == 0:
            self.assigned = None
        keeps = set() if self.owned is None else self.owned - self.target
        if not keeps:
            self.member_epoch = self.epoch
        assigned = self.target if not keeps else self.target & (self.owned or set())
        has_changed, self.assigned = assigned != self.assigned, set(assigned)
        parts = [TopicPartitions(topic_id=TOPIC_ID, partitions=sorted(assigned))]
        return ConsumerGroupHeartbeatResponse(
            member_id=message.member_id, member_epoch=self.member_epoch, heartbeat_interval_ms=1,
            assignment=Assignment(topic_partitions=parts) if has_changed else None,
        )  # fmt: skip

    def _commit(self, message: Any, code: ErrorCode) -> OffsetCommitResponse:
        (topic,) = message.topics
        if not code and message.generation_id_or_member_epoch != self.member_epoch:
            code = ErrorCode.STALE_MEMBER_EPOCH
        if not code:
            offsets = {part.partition_index: part.committed_offset for part in topic.partitions}
            self.commits.append((message.generation_id_or_member_epoch, offsets))
        parts = [
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=parts)])


class Rebalances:
    """A listener that commits what is revoked, as long as ``gives_up`` is set."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, set[int]]] = asyncio.Queue()
        self.gives_up = asyncio.Event()
        self.gives_up.set()
        self.member: GroupMember
        self.committed: list[bool] = []

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("revoked", partitions)
        await self.gives_up.wait()
        self.committed.append(await self.member.commit(dict.fromkeys(partitions, 5)))

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("assigned", partitions)

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._note("lost", partitions)

    def _note(self, call: str, partitions: frozenset[TopicPartition]) -> None:
        self.calls.put_nowait((call, {partition.partition for partition in partitions}))


ALL = ("assigned", {0, 1, 2, 3})
TOPICS = Subscription(frozenset({TOPIC}))


def as_member(
    group: Group,
    use: Callable[[ConsumerMember, Rebalances], Awaitable[None]],
    subscription: Subscription = TOPICS,
    config: GroupConfig | None = None,
) -> ConsumerMember:
    async def main() -> ConsumerMember:
        listener = Rebalances()
        coordinator = GroupCoordinator(group.network, "g")
        member = listener.member = ConsumerMember(
            group.network, coordinator, subscription, config or GroupConfig(), listener, member_id="m-1"
        )
        async with asyncio.timeout(20):
            member.start()
            await use(member, listener)
        return member

    return asyncio.run(main())


def test_only_what_is_revoked_is_given_up_and_committed_before() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.move(0, 1)
        listener.gives_up.clear()
        assert await listener.calls.get() == ("revoked", {2, 3})
        await asyncio.sleep(0.02)
        assert group.member_epoch == 1  # Heartbeats go on, but acknowledge nothing.
        listener.gives_up.set()
        assert await listener.calls.get() == ("assigned", set())
        await member.leave()

    as_member(group, use)
    assert group.commits == [(1, {2: 5, 3: 5})]
    assert group.asked[-1].member_epoch == -1


def test_a_fenced_member_loses_its_partitions_commits_nothing_and_joins_again() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.errors[ApiKey.CONSUMER_GROUP_HEARTBEAT].append(ErrorCode.UNKNOWN_MEMBER_ID)
        assert await listener.calls.get() == ("lost", {0, 1, 2, 3})
        assert not await member.commit({TopicPartition(TOPIC, 0): 5})
        assert await listener.calls.get() == ALL
        await member.leave()

    as_member(group, use)
    assert group.commits == []


def test_a_member_that_is_fenced_while_it_gives_up_does_not_go_on() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.move(0)
        listener.gives_up.clear()
        assert await listener.calls.get() == ("revoked", {1, 2, 3})
        group.errors[ApiKey.CONSUMER_GROUP_HEARTBEAT].append(ErrorCode.FENCED_MEMBER_EPOCH)
        await until(lambda: not group.errors[ApiKey.CONSUMER_GROUP_HEARTBEAT])
        for _ in range(50):  # The member receives the answer.
            await asyncio.sleep(0)
        listener.gives_up.set()
        assert await listener.calls.get() == ("lost", {0})
        assert listener.committed == [False]
        assert await listener.calls.get() == ("assigned", {0})
        await member.leave()

    as_member(group, use)
    assert group.commits == []


def test_a_commit_with_an_old_epoch_is_repeated_with_the_new_one() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.errors[ApiKey.OFFSET_COMMIT].append(ErrorCode.STALE_MEMBER_EPOCH)
        committing = asyncio.ensure_future(member.commit({TopicPartition(TOPIC, 0): 9}))
        await asyncio.sleep(0.01)
        assert not committing.done()
        group.epoch = 2
        assert await committing
        await member.leave()

    as_member(group, use)
    assert group.commits == [(2, {0: 9})]


def test_committed_offsets_are_requested_with_the_epoch() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
        assert await member.committed(partitions) == {TopicPartition(TOPIC, 0): 7}
        await member.leave()

    as_member(group, use)
    (request,) = [message for message in group.asked if message.API_KEY == ApiKey.OFFSET_FETCH]
    assert (request.groups[0].member_id, request.groups[0].member_epoch) == ("m-1", 1)


@pytest.mark.parametrize("api", [ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT])
def test_a_coordinator_that_moves_is_found_again(api: ApiKey) -> None:
    group = Group()
    group.errors[api].append(ErrorCode.NOT_COORDINATOR)

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        assert await member.commit({TopicPartition(TOPIC, 1): 3})
        await member.leave()

    as_member(group, use)
    assert sum(message.API_KEY == ApiKey.FIND_COORDINATOR for message in group.asked) == 2


def test_a_refusal_is_the_members_failure_and_its_partitions_are_lost() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.errors[ApiKey.CONSUMER_GROUP_HEARTBEAT].append(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        await member.ended.wait()
        assert await listener.calls.get() == ("lost", {0, 1, 2, 3})
        await member.leave()

    failure = as_member(group, use).failure
    assert isinstance(failure, AdminError)
    assert (failure.code, failure.message) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "refused")
    assert group.asked[-1].member_epoch >= 0


def test_an_exception_of_the_listener_is_the_members_failure() -> None:
    group = Group()

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        assert await listener.calls.get() == ALL
        group.errors[ApiKey.OFFSET_COMMIT].append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        group.move()
        await member.ended.wait()
        await member.leave()

    failure = as_member(group, use).failure
    assert isinstance(failure, AdminError)
    assert failure.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_old_node_knows_no_regular_expressions() -> None:
    group = Group()
    group.versions = {**group.versions, ApiKey.CONSUMER_GROUP_HEARTBEAT: SupportedVersions(0, 0)}

    async def use(member: ConsumerMember, listener: Rebalances) -> None:
        await member.ended.wait()
        await member.leave()

    failure = as_member(group, use, Subscription(pattern="a.*")).failure
    assert isinstance(failure, UnsupportedVersion)


def chosen(group: Group, protocol: str | None = None, *, pattern: str | None = None) -> type[object]:
    async def main() -> type[object]:
        subscription = Subscription(frozenset({TOPIC}), pattern)
        config = GroupConfig(protocol)
        return type(await group_member(group.network, "g", subscription, config, Rebalances(), member_id="m"))

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("spoken", "expected"), [("classic", ClassicMember), ("consumer", ConsumerMember), ("none", ConsumerMember)]
)
def test_a_member_speaks_what_its_group_speaks(spoken: str, expected: type[object]) -> None:
    group = Group()
    group.type = spoken
    assert chosen(group) is expected
    assert chosen(group, "classic") is ClassicMember
    assert chosen(group, "consumer") is ConsumerMember


def test_a_cluster_without_the_consumer_protocol_has_classic_members(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group()
    monkeypatch.setattr(OwnConnection, "features", {})
    assert chosen(group) is ClassicMember
    with pytest.raises(UnsupportedVersion, match="has regular expressions"):
        chosen(group, "classic", pattern="a.*")
    assert chosen(group, pattern="a.*") is ConsumerMember  # The coordinator will say that it can't.
