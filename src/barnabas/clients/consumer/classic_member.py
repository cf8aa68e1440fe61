"""A member of a classic consumer group, with Kafka's range assignor and eager rebalances.

When the group rebalances, the listener gives up all partitions; only then the member joins again. If the coordinator
has removed the member, they are lost: what was read since the last commit can't be committed any more.

Heartbeats continue while the listener works. A coordinator that moves, or can't be reached, is looked up again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.consumer.group_coordinator import COORDINATOR_MOVED, Committer
from barnabas.clients.consumer.range_assignor import (
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    assign,
    read_assignment,
    subscribed_topics,
    subscription,
)
from barnabas.clients.consumer.rebalance_listener import IgnoredRebalances, RebalanceListener
from barnabas.clients.errors import ClientError, RemoteProtocolError
from barnabas.clients.leader_tracker import start_guarded
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from barnabas.clients.consumer.config import GroupConfig
    from barnabas.clients.consumer.group_coordinator import GroupCoordinator
    from barnabas.clients.network_client import NetworkClient
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.protocol.messages.join_group import JoinGroupResponse

__all__ = ["ClassicMember"]

_REMOVED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
_NOT_COMMITTED = _REMOVED | {ErrorCode.FENCED_INSTANCE_ID, ErrorCode.REBALANCE_IN_PROGRESS}
_LEAVE_WITHIN_S = 5.0
_COUNTS_EVERY_S = 60.0
"""How often the leader compares the number of partitions with that of its assignment."""


class _Again(Exception):
    """The member must join again, after a pause if the coordinator has moved."""

    def __init__(self, *, is_removed: bool = False, pauses: bool = False) -> None:
        super().__init__()
        self.is_removed = is_removed
        self.pauses = pauses


class ClassicMember:
    """A member that reads ``topics``; see ``GroupMember``."""

    def __init__(
        self,
        network: NetworkClient,
        coordinator: GroupCoordinator,
        topics: Iterable[str],
        config: GroupConfig,
        listener: RebalanceListener,
    ) -> None:
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.ended = asyncio.Event()
        self.failure: Exception | None = None
        self._network = network
        self._coordinator = coordinator
        self._topics = sorted(topics)
        self._listener: RebalanceListener = listener
        self._instance_id = config.instance_id
        self._session_timeout_s = config.session_timeout_ms / 1000
        self._rebalance_timeout_s = config.max_poll_interval_ms / 1000
        self._heartbeat_interval_s = config.heartbeat_interval_ms / 1000
        self._member_id = ""
        self._generation = -1
        self._counts: dict[str, int] | None = None
        """The numbers of partitions that this member has assigned as leader."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_guarded(self._run(), self._fail)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._coordinator.committed(partitions)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if not offsets:
            return True
        if self._generation < 0:
            return False
        try:
            await self._coordinator.commit(offsets, Committer(self._member_id, self._generation, self._instance_id))
        except AdminError as error:
            if error.code not in _NOT_COMMITTED:
                raise
            return False
        return True

    async def leave(self) -> None:
        """Leave the group. A static member stays until its session ends, so that it may return."""
        self._listener = IgnoredRebalances()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            if self._member_id and self.failure is None and self._instance_id is None:
                async with asyncio.timeout(_LEAVE_WITHIN_S):
                    await self._coordinator.request(
                        LeaveGroupRequest(
                            group_id=self._coordinator.group_id,
                            members=[MemberIdentity(member_id=self._member_id, reason="the consumer is closed")],
                        )
                    )
        except (AdminError, ClientError, TimeoutError):
            pass
        finally:
            await self._coordinator.drop_connection()

    # --- rebalances

    async def _run(self) -> None:
        while True:
            is_removed = False
            try:
                self.assigned = await self._join()
                await self._while_beating(self._begin_assigned)
                await self._beat_until_rebalance()
            except _Again as again:
                is_removed = again.is_removed
                if again.pauses:
                    await self._coordinator.drop_connection()
                    await asyncio.sleep(self._coordinator.backoff_s)
            except ClientError as error:
                if not isinstance(error, Transient):
                    raise
                await self._coordinator.drop_connection()
                await asyncio.sleep(self._coordinator.backoff_s)
            await self._let_go(is_removed=is_removed)

    async def _let_go(self, *, is_removed: bool) -> None:
        """Take all partitions from the listener."""
        if is_removed:
            self._generation = -1
        held, self.assigned = self.assigned, frozenset()
        if held and is_removed:
            await self._listener.partitions_lost(held)
        elif held:
            await self._while_beating(lambda: self._listener.partitions_revoked(held))

    async def _begin_assigned(self) -> None:
        await self._listener.partitions_assigned(self.assigned)

    async def _while_beating(self, work: Callable[[], Awaitable[None]]) -> None:
        """Send heartbeats while the listener works. The next request reports their errors."""

        async def working() -> None:
            await work()  # Chooses the listener only now: the member may be leaving.

        task = asyncio.ensure_future(working())
        try:
            while not (await asyncio.wait([task], timeout=self._heartbeat_interval_s))[0]:
                try:
                    await self._heartbeat()
                except (ClientError, _Again):
                    pass
        finally:
            task.cancel()
            await asyncio.wait([task])
        task.result()

    async def _join(self) -> frozenset[TopicPartition]:
        """Join, as leader assign the partitions of all members, and return those of this one. Raise _Again."""
        request = JoinGroupRequest(
            group_id=self._coordinator.group_id,
            session_timeout_ms=int(self._session_timeout_s * 1000),
            rebalance_timeout_ms=int(self._rebalance_timeout_s * 1000),
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=subscription(self._topics))],
        )
        joined = await self._coordinator.request(request, timeout_s=self._rebalance_timeout_s + self._session_timeout_s)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            raise _Again
        self._check(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments: Mapping[str, bytes] = {}
        self._counts = None
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        synced = await self._coordinator.request(
            SyncGroupRequest(
                group_id=self._coordinator.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                    for member, assignment in assignments.items()
                ],
            ),
            timeout_s=self._rebalance_timeout_s + self._session_timeout_s,
        )
        self._check(synced.error_code)
        try:
            return read_assignment(bytes(synced.assignment))
        except DecodeError as error:
            raise RemoteProtocolError(f"the assignment of the group can't be read: {error}") from error

    async def _assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        topics = {member.member_id: subscribed_topics(bytes(member.metadata)) for member in joined.members}
        self._counts = await self._partition_counts({topic for named in topics.values() for topic in named})
        return assign(topics, self._counts)

    async def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; a topic that can't be seen is left out."""
        counts: dict[str, int] = {}
        for topic in topics:
            try:
                counts[topic] = len((await TopicMetadataSource(self._network, topic).load()).partitions)
            except AdminError:
                continue
        return counts

    # --- heartbeats

    async def _beat_until_rebalance(self) -> None:
        """Send heartbeats. Raise _Again when the member must join again."""
        loop = asyncio.get_running_loop()
        beaten_at = loop.time()
        count_at = loop.time() + _COUNTS_EVERY_S
        while True:
            await asyncio.sleep(self._heartbeat_interval_s)
            try:
                await self._heartbeat()
                beaten_at = loop.time()
            except _Again as again:
                if not again.pauses:
                    raise
                await self._coordinator.drop_connection()
            except ClientError as error:  # The new coordinator knows the member, too.
                if not isinstance(error, Transient) or loop.time() - beaten_at > self._session_timeout_s:
                    raise
                await self._coordinator.drop_connection()
            if self._counts is not None and loop.time() >= count_at:
                count_at = loop.time() + _COUNTS_EVERY_S
                if await self._partition_counts(self._counts) != self._counts:
                    raise _Again

    async def _heartbeat(self) -> None:
        response = await self._coordinator.request(
            HeartbeatRequest(
                group_id=self._coordinator.group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance_id,
            )
        )
        self._check(response.error_code)

    def _check(self, code: int) -> None:
        """Raise _Again for an error after which to join again, AdminError for one that a repetition can't resolve."""
        if not code:
            return
        error = admin_error(code, None, self._coordinator.group_id)
        if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if error.code in _REMOVED:
            raise _Again(is_removed=True)
        if error.code in COORDINATOR_MOVED:
            raise _Again(pauses=True)
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise _Again
        raise error

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.ended.set()
