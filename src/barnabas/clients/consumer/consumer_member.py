"""A member of a consumer group that speaks the consumer protocol (KIP-848). ``ConsumerMembership`` decides.

Two tasks: one sends heartbeats, the other takes the steps to the assigned partitions, so that a listener that commits
does not delay heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.consumer.group_coordinator import Committer
from barnabas.clients.consumer.heartbeats import Heartbeats
from barnabas.clients.consumer.rebalance_listener import IgnoredRebalances, RebalanceListener
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.clients.leader_tracker import start_guarded
from barnabas.clients.membership.consumer_membership import ConsumerMembership, MemberOptions
from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.member_state import MemberState
from barnabas.clients.topic_metadata import TopicsMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.clients.consumer.config import GroupConfig
    from barnabas.clients.consumer.group_coordinator import GroupCoordinator
    from barnabas.clients.membership.consumer_membership import Subscription
    from barnabas.clients.network_client import NetworkClient

__all__ = ["ConsumerMember"]

T = TypeVar("T")

_NOT_A_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH,
     ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND}
)  # fmt: skip
_LEAVE_WITHIN_S = 5.0
_NEWER_EPOCH_WITHIN_S = 30.0
"""Several heartbeat intervals: the heartbeat that tells the newer epoch may be answered late."""
_HAS_PATTERNS = 1
"""The first version of ConsumerGroupHeartbeat with regular expressions: Kafka 4.0."""


class ConsumerMember:
    def __init__(
        self,
        network: NetworkClient,
        coordinator: GroupCoordinator,
        subscription: Subscription,
        config: GroupConfig,
        listener: RebalanceListener,
        *,
        member_id: str,
    ) -> None:
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.ended = asyncio.Event()
        self.failure: Exception | None = None
        self._coordinator = coordinator
        self._listener: RebalanceListener = listener
        self._has_pattern = subscription.pattern is not None
        self._instance_id = config.instance_id
        options = MemberOptions(subscription, config.max_poll_interval_ms, config.instance_id, config.remote_assignor)
        schedule = HeartbeatSchedule(
            backoff_ms=int(coordinator.backoff_s * 1000), backoff_ms_max=int(coordinator.backoff_max_s * 1000)
        )
        self._membership = ConsumerMembership(coordinator.group_id, member_id, options, schedule)
        self._heartbeats = Heartbeats(coordinator, self._membership, self._look_again)
        self._topics = TopicsMetadataSource(network)
        self._work = asyncio.Event()
        """Set when the second task shall look whether there is a step to take."""
        self._answered = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_guarded(self._run(), self._fail)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        return await self._with_epoch(lambda committer: self._coordinator.committed(wanted, committer))

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if not offsets:
            return True
        if not self._membership.is_member:
            return False
        try:
            await self._with_epoch(lambda committer: self._coordinator.commit(offsets, committer))
        except AdminError as error:
            if error.code not in _NOT_A_MEMBER:
                raise
            return False
        return True

    async def leave(self) -> None:
        self._listener = IgnoredRebalances()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        request = self._membership.leave()
        try:
            if request is not None and self.failure is None:
                async with asyncio.timeout(_LEAVE_WITHIN_S):
                    await self._coordinator.request(request)
        except (AdminError, ClientError, TimeoutError):
            pass
        finally:
            await self._coordinator.drop_connection()

    async def _with_epoch(self, request: Callable[[Committer], Awaitable[T]]) -> T:
        """Send a request with the member's epoch; again if the coordinator has a newer one that is about to arrive."""
        while True:
            membership = self._membership
            epoch = membership.epoch
            self._answered.clear()
            try:
                return await request(Committer(membership.member_id, epoch, self._instance_id))
            except AdminError as error:
                if error.code != ErrorCode.STALE_MEMBER_EPOCH or not await self._has_newer_epoch(epoch):
                    raise

    async def _has_newer_epoch(self, epoch: int) -> bool:
        try:
            async with asyncio.timeout(_NEWER_EPOCH_WITHIN_S):
                while self._membership.is_member and self._membership.epoch == epoch:
                    await self._answered.wait()
                    self._answered.clear()
        except TimeoutError:
            return False
        return self._membership.is_member

    # --- the two tasks

    async def _run(self) -> None:
        if self._has_pattern:
            connection = await self._coordinator.connected()
            if connection.version_of(ApiKey.CONSUMER_GROUP_HEARTBEAT) < _HAS_PATTERNS:
                raise UnsupportedVersion(f"{connection.address} knows no regular expressions: they need Kafka 4.0")
        tasks = [self._loop.create_task(work) for work in (self._heartbeats.run(), self._reconcile())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            if (error := task.exception()) is not None:
                await self._lose()
                raise error

    async def _reconcile(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while await self._took_a_step():
                self._heartbeats.wake()

    async def _took_a_step(self) -> bool:
        membership = self._membership
        if membership.state is MemberState.FENCED:
            await self._lose()
            membership.released()
            return True
        await self._learn_names()
        step = membership.next_step()
        if step is None:
            return False
        if step.revoked:
            await self._listener.partitions_revoked(step.revoked)
            self.assigned -= step.revoked
        if membership.is_current(step):
            self.assigned |= step.added
            await self._listener.partitions_assigned(step.added)
        membership.reconciled(step)
        return True

    async def _learn_names(self) -> None:
        """Look up the names of assigned topics. An unknown one is requested again after a pause."""
        membership = self._membership
        if not membership.unnamed:
            return
        try:
            membership.learn_names(await self._topics.names(membership.unnamed))
        except ClientError as error:
            if not isinstance(error, Transient):
                raise
        if membership.unnamed:
            self._loop.call_later(self._coordinator.backoff_max_s, self._work.set)

    async def _lose(self) -> None:
        lost, self.assigned = self.assigned, frozenset()
        if lost:
            await self._listener.partitions_lost(lost)

    def _look_again(self) -> None:
        self._work.set()
        self._answered.set()

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.ended.set()
