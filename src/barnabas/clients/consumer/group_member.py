"""A member of a classic consumer group that reads one topic, with Kafka's range assignor and eager rebalances.

The caller watches ``changed``. When the group rebalances, ``assigned`` is empty: the caller stops reading, commits, and
calls ``release``; only then the member joins again. After a rebalance ``assigned`` has its partitions. If the
coordinator has dropped the member meanwhile, ``drops`` grows: what was read before can't be committed any more.

Heartbeats continue while the caller stops. A coordinator that moves, or can't be reached, is looked up again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.consumer.group_coordinator import COORDINATOR_MOVED, GroupCoordinator
from barnabas.clients.consumer.range_assignor import (
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    assign,
    read_assignment,
    subscribed_topics,
    subscription,
)
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
    from collections.abc import Iterable, Mapping

    from barnabas.clients.network_client import NetworkClient
    from barnabas.protocol.messages.join_group import JoinGroupResponse

__all__ = ["GroupMember"]

_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID})
_LEAVE_WITHIN_S = 5.0
_COUNTS_EVERY_S = 60.0
"""How often the leader compares the number of partitions with that of its assignment."""


class _Again(Exception):
    """The member must join again, after a pause if the coordinator has moved."""

    def __init__(self, *, is_dropped: bool = False, pauses: bool = False) -> None:
        super().__init__()
        self.is_dropped = is_dropped
        self.pauses = pauses


class GroupMember:
    """``start`` joins, ``leave`` leaves. All times are in seconds."""

    def __init__(
        self,
        network: NetworkClient,
        group_id: str,
        topic: str,
        *,
        session_timeout_s: float = 45.0,
        rebalance_timeout_s: float = 60.0,
        heartbeat_interval_s: float = 3.0,
    ) -> None:
        self.assigned: frozenset[int] = frozenset()
        """The partitions of this member."""
        self.is_joined = False
        """Whether ``assigned`` is the result of a rebalance."""
        self.drops = 0
        """Counts how often the coordinator has dropped this member."""
        self.changed = asyncio.Event()
        self.failure: Exception | None = None
        """Why the member can't continue: an AdminError or a ClientError."""
        self._network = network
        self._topic = topic
        self._coordinator = GroupCoordinator(network, group_id)
        self._session_timeout_s = session_timeout_s
        self._rebalance_timeout_s = rebalance_timeout_s
        self._heartbeat_interval_s = heartbeat_interval_s
        self._member_id = ""
        self._generation = -1
        self._counts: dict[str, int] | None = None
        """The numbers of partitions that this member has assigned as leader."""
        self._released = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_guarded(self._run(), self._fail)

    def release(self) -> None:
        """Report that nothing is read any more, and everything is committed: the member may join again."""
        self._released.set()

    async def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the committed offsets; partitions without one are left out. Raise AdminError, ClientError."""
        return await self._coordinator.committed(self._topic, partitions)

    async def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit the next offset to read of each partition. Return False if the member was dropped.

        Raise AdminError, ClientError.
        """
        if not offsets:
            return True
        try:
            await self._coordinator.commit(self._topic, offsets, member_id=self._member_id, generation=self._generation)
        except AdminError as error:
            if error.code not in _NOT_A_MEMBER and error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise
            return False
        return True

    async def leave(self) -> None:
        """Leave the group, so that others get the partitions immediately. An unreachable coordinator notices later."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            if self._member_id and self.failure is None:
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
            try:
                assigned = await self._join()
                self._notify(assigned, is_joined=True)
                await self._beat_until_rebalance()
            except _Again as again:
                if again.is_dropped:
                    self.drops += 1
                    self._generation = -1
                if again.pauses:
                    await self._coordinator.drop_connection()
                    await asyncio.sleep(self._coordinator.backoff_s)
            except ClientError as error:
                if not isinstance(error, Transient):
                    raise
                await self._coordinator.drop_connection()
                await asyncio.sleep(self._coordinator.backoff_s)
            await self._let_go()

    async def _let_go(self) -> None:
        """Take all partitions from the caller, and wait until it has released them. Heartbeats continue."""
        if not self.is_joined:
            return
        self._released.clear()
        self._notify(frozenset(), is_joined=False)
        while not self._released.is_set():
            try:
                async with asyncio.timeout(self._heartbeat_interval_s):
                    await self._released.wait()
            except TimeoutError:
                try:
                    await self._heartbeat()
                except (ClientError, _Again):
                    pass  # The next join reports it.

    def _notify(self, assigned: frozenset[int], *, is_joined: bool) -> None:
        self.assigned = assigned
        self.is_joined = is_joined
        self.changed.set()

    async def _join(self) -> frozenset[int]:
        """Join, as leader assign the partitions of all members, and return those of this one. Raise _Again."""
        request = JoinGroupRequest(
            group_id=self._coordinator.group_id,
            session_timeout_ms=int(self._session_timeout_s * 1000),
            rebalance_timeout_ms=int(self._rebalance_timeout_s * 1000),
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=subscription(self._topic))],
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
            return read_assignment(bytes(synced.assignment), self._topic)
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
                group_id=self._coordinator.group_id, generation_id=self._generation, member_id=self._member_id
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
        if error.code in _NOT_A_MEMBER:
            raise _Again(is_dropped=True)
        if error.code in COORDINATOR_MOVED:
            raise _Again(pauses=True)
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise _Again
        raise error

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.changed.set()
