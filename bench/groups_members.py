"""Members of groups of all four kinds, without consumers behind them: they join, follow their group and leave.

A member sends its next heartbeat after the group's interval, or at once if its partitions have changed. A member of a
classic group has a connection of its own, because its JoinGroup is answered only when the rebalance completes; members
of the other kinds share a few.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias
from zlib import crc32

from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group import consumer_protocol
from barnabas.protocol.messages import consumer_group_heartbeat, share_group_heartbeat, streams_group_heartbeat
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from bench.groups_client import Connection

__all__ = ["KINDS", "ClassicMember", "ConsumerMember", "GroupOfMembers", "Member", "ShareMember"]

_LIMIT_S = 60.0
_INTERVAL_S = 0.5
_RETRY_S = 0.05
_REBALANCE_MS = 300_000
_SESSION_MS = 600_000
_CONNECTIONS = 8
_LATER = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_JOIN, _LEAVE = 0, -1
_PROTOCOL = "range"


class GroupOfMembers:
    """A group, its live members, and whether they have reached what they are to reach.

    They have when all have the same epoch, later than before, and together all partitions, each its share of them.
    """

    def __init__(self, name: str, kind: type[Member], topic: str, topic_id: Uuid, partitions: int, port: int) -> None:
        self.name = name
        self.interval_s = _INTERVAL_S
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.port = port
        self.members: list[Member] = []
        self.connections: list[Connection] = []
        self._kind = kind
        self._made = 0
        self._reached: asyncio.Future[None] | None = None
        self._epoch_before = 0
        self._epochs = Counter[int]()

    async def open(self) -> None:
        self.connections = [await Connection.open(self.port) for _ in range(_CONNECTIONS)]

    async def join(self, count: int) -> None:
        """Let so many join together; return when all members have their final partitions."""
        joining = [self._kind(self, self._made + number) for number in range(count)]
        self._made += count
        for member in joining:
            await member.connect()
        self.members += joining
        await self._change(joining)

    async def leave(self) -> None:
        """Let one leave; return when all others have their final partitions."""
        member = self.members.pop()
        self._epochs[member.epoch] -= 1
        await self._change([], member)

    async def _change(self, joining: Sequence[Member], leaving: Member | None = None) -> None:
        self._epoch_before = max(self._epochs, default=0)
        self._epochs.update(member.epoch for member in joining)
        self._reached = asyncio.get_running_loop().create_future()
        for member in joining:
            member.start()
        if leaving is not None:
            await leaving.leave()
        async with asyncio.timeout(_LIMIT_S):
            await self._reached

    def report(self, member: Member, before: int) -> None:
        """Take the member's new epoch, or its new partitions."""
        self._epochs[before] -= 1
        self._epochs[member.epoch] += 1
        if (
            self._reached is not None
            and not self._reached.done()
            and member.epoch > self._epoch_before
            and self._epochs[member.epoch] == len(self.members)
            and self._is_complete()
        ):
            self._reached.set_result(None)

    def fail(self, error: BaseException) -> None:
        if self._reached is not None and not self._reached.done():
            self._reached.set_exception(error)

    def _is_complete(self) -> bool:
        owned = [member.owned_count for member in self.members]
        least = self.partitions // len(self.members) if self._kind.is_balanced else 1
        return sum(owned) >= self.partitions and min(owned) >= least

    async def disband(self) -> None:
        """Let all leave."""
        await asyncio.gather(*(member.leave() for member in self.members))
        self.abandon()

    def abandon(self) -> None:
        """Send nothing more; the node keeps the members until their sessions end."""
        for member in self.members:
            member.stop()
            member.disconnect()
        self.members.clear()
        for connection in self.connections:
            connection.close()


class Member(ABC):
    is_balanced = True
    """Whether the coordinator gives all members equally many partitions."""

    def __init__(self, group: GroupOfMembers, number: int) -> None:
        self.group = group
        self.number = number
        self.member_id = ""
        self.epoch = 0
        self.owned_count = 0
        self.connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self.connection = self.group.connections[self.number % len(self.group.connections)]

    def start(self) -> None:
        self._task = asyncio.create_task(self._live())
        self._task.add_done_callback(self._on_end)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def leave(self) -> None:
        self.stop()
        await self._call(*self.leave_request())

    def _on_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.group.fail(error)

    async def _call(self, request: Any, version: int) -> Any:
        assert self.connection is not None
        while True:
            response = await self.connection.call(request, version)
            if response.error_code not in _LATER:
                return response
            await asyncio.sleep(_RETRY_S)

    def reach(self, epoch: int, owned_count: int) -> None:
        before, self.epoch, self.owned_count = self.epoch, epoch, owned_count
        self.group.report(self, before)

    @abstractmethod
    async def _live(self) -> None: ...

    @abstractmethod
    def disconnect(self) -> None:
        """Close the member's own connection, if it has one."""

    @abstractmethod
    def leave_request(self) -> tuple[Any, int]:
        """Return the request, and its version."""


class _ModernMember(Member):
    """A member whose coordinator assigns: it learns in the answers to its heartbeats."""

    VERSION: int

    def __init__(self, group: GroupOfMembers, number: int) -> None:
        super().__init__(group, number)
        self.member_id = str(Uuid.from_int((crc32(group.name.encode()) + 1) << 32 | number))
        self.has_changed = False

    async def _live(self) -> None:
        request = self.join_request()
        while True:
            response = await self._call(request, self.VERSION)
            _check(response)
            self.has_changed = self.receive(response)
            if not self.has_changed:
                await asyncio.sleep(self.group.interval_s)
            request = self.heartbeat()

    def disconnect(self) -> None:
        pass  # Its connection is the group's.

    def receive(self, response: Any) -> bool:
        """Return whether the next heartbeat is due at once."""
        owned = self.take_assignment(response)
        if owned is not None or response.member_epoch != self.epoch:
            self.reach(response.member_epoch, self.owned_count if owned is None else owned)
        return owned is not None

    @abstractmethod
    def join_request(self) -> Any: ...

    @abstractmethod
    def heartbeat(self) -> Any: ...

    @abstractmethod
    def take_assignment(self, response: Any) -> int | None:
        """Return the number of partitions if the answer has an assignment."""


class ConsumerMember(_ModernMember):
    VERSION = 1

    def __init__(self, group: GroupOfMembers, number: int) -> None:
        super().__init__(group, number)
        self.owned: list[int] = []

    def join_request(self) -> Any:
        request = self._request(_JOIN)
        request.subscribed_topic_names = [self.group.topic]
        request.rebalance_timeout_ms = _REBALANCE_MS
        request.topic_partitions = []
        return request

    def heartbeat(self) -> Any:
        request = self._request(self.epoch)
        if self.has_changed:
            request.topic_partitions = [
                consumer_group_heartbeat.TopicPartitions(topic_id=self.group.topic_id, partitions=self.owned)
            ]
        return request

    def take_assignment(self, response: Any) -> int | None:
        if response.assignment is None:
            return None
        self.owned = [index for topic in response.assignment.topic_partitions for index in topic.partitions]
        return len(self.owned)

    def leave_request(self) -> tuple[Any, int]:
        return self._request(_LEAVE), self.VERSION

    def _request(self, epoch: int) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
        return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=self.group.name, member_id=self.member_id, member_epoch=epoch
        )


class ShareMember(_ModernMember):
    VERSION = 1
    is_balanced = False

    def __init__(self, group: GroupOfMembers, number: int) -> None:
        super().__init__(group, number)
        self.assigned: list[int] = []

    def join_request(self) -> Any:
        request = self._request(_JOIN)
        request.subscribed_topic_names = [self.group.topic]
        return request

    def heartbeat(self) -> Any:
        return self._request(self.epoch)

    def take_assignment(self, response: Any) -> int | None:
        if response.assignment is None:
            return None
        self.assigned = [index for topic in response.assignment.topic_partitions for index in topic.partitions]
        return len(self.assigned)

    def receive(self, response: Any) -> bool:
        super().receive(response)
        return False  # It has nothing to confirm.

    def leave_request(self) -> tuple[Any, int]:
        return self._request(_LEAVE), self.VERSION

    def _request(self, epoch: int) -> share_group_heartbeat.ShareGroupHeartbeatRequest:
        return share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=self.group.name, member_id=self.member_id, member_epoch=epoch
        )


class StreamsMember(_ModernMember):
    """A process with one thread, and tasks without state."""

    VERSION = 0

    def __init__(self, group: GroupOfMembers, number: int) -> None:
        super().__init__(group, number)
        self.tasks: list[streams_group_heartbeat.TaskIds] = []

    def join_request(self) -> Any:
        request = self._request(_JOIN)
        subtopology = streams_group_heartbeat.Subtopology(subtopology_id="0", source_topics=[self.group.topic])
        request.topology = streams_group_heartbeat.Topology(epoch=0, subtopologies=[subtopology])
        request.process_id = self.member_id
        request.rebalance_timeout_ms = _REBALANCE_MS
        request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
        return request

    def heartbeat(self) -> Any:
        request = self._request(self.epoch)
        if self.has_changed:
            request.active_tasks, request.standby_tasks, request.warmup_tasks = self.tasks, [], []
        return request

    def take_assignment(self, response: Any) -> int | None:
        if response.active_tasks is None:
            return None
        self.tasks = response.active_tasks
        return sum(len(of_subtopology.partitions) for of_subtopology in self.tasks)

    def leave_request(self) -> tuple[Any, int]:
        return self._request(_LEAVE), self.VERSION

    def _request(self, epoch: int) -> streams_group_heartbeat.StreamsGroupHeartbeatRequest:
        return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
            group_id=self.group.name, member_id=self.member_id, member_epoch=epoch
        )


_Assignments: TypeAlias = list[SyncGroupRequestAssignment]


class ClassicMember(Member):
    """A member that gives up its partitions before it joins again. The leader assigns ranges."""

    async def connect(self) -> None:
        self.connection = await Connection.open(self.group.port)

    async def _live(self) -> None:
        await self._rebalance()
        while True:
            if not await self._is_stable():
                await self._rebalance()
            await asyncio.sleep(self.group.interval_s)

    async def _rebalance(self) -> None:
        """Join until an assignment is received."""
        while True:
            joined = await self._join()
            request = SyncGroupRequest(
                group_id=self.group.name,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                protocol_type=consumer_protocol.PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=self._assign(joined) if joined.leader == self.member_id else [],
            )
            synced = await self._call(request, 5)
            if synced.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                break
        _check(synced)
        topics = consumer_protocol.read_assignment(synced.assignment).assigned_partitions
        self.reach(joined.generation_id, sum(len(topic.partitions) for topic in topics))

    async def _join(self) -> JoinGroupResponse:
        while True:
            response: JoinGroupResponse = await self._call(self._join_request(), 9)
            self.member_id = response.member_id
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                _check(response)
                return response

    def _join_request(self) -> JoinGroupRequest:
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=[self.group.topic]), 3)
        return JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            member_id=self.member_id,
            protocol_type=consumer_protocol.PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=subscription)],
        )

    def _assign(self, joined: JoinGroupResponse) -> _Assignments:
        count = len(joined.members)
        return [
            SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=consumer_protocol.write_assignment(
                    {self.group.topic: range(number, self.group.partitions, count)}, member.metadata
                ),
            )
            for number, member in enumerate(joined.members)
        ]

    async def _is_stable(self) -> bool:
        request = HeartbeatRequest(group_id=self.group.name, generation_id=self.epoch, member_id=self.member_id)
        response = await self._call(request, 4)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        _check(response)
        return True

    def leave_request(self) -> tuple[Any, int]:
        identity = MemberIdentity(member_id=self.member_id)
        return LeaveGroupRequest(group_id=self.group.name, members=[identity]), 5

    async def leave(self) -> None:
        await super().leave()
        self.disconnect()

    def disconnect(self) -> None:
        if self.connection is not None:
            self.connection.close()


KINDS: dict[str, type[Member]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    "share": ShareMember,
    "streams": StreamsMember,
}


def _check(response: Any) -> None:
    if response.error_code:
        raise AssertionError(f"{ErrorCode(response.error_code).name}: {response}")
