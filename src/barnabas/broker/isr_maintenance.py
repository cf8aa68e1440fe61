"""Maintains the ISRs of the replicated partitions that this broker leads, through the controller.

An ISR is checked at intervals of half of ``replica.lag.time.max.ms``. A follower that became eligible is added when
brokers change, or soon after its next fetch. One AlterPartition request is in flight at a time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.broker.replication.isr_changes import IsrChanges
from barnabas.broker.replication.leader_replica import IsrStats, LeaderReplica
from barnabas.broker.replication.partition_leadership import LeadershipContext
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.partition import Partition
    from barnabas.broker.ports import ControllerChannel
    from barnabas.broker.replication.partition_leadership import IsrProposal
    from barnabas.common.clock import Clock
    from barnabas.metadata.image.cluster import ClusterImage
    from barnabas.metadata.image.partition_registration import PartitionRegistration
    from barnabas.protocol.messages.alter_partition import AlterPartitionRequest

__all__ = ["LeaderReplicas"]

log = logging.getLogger(__name__)

_RETRY_S = 0.05
_RECHECK_S = 0.25
_NEWEST = 3


class LeaderReplicas:
    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        cluster: ClusterImage,
        controller: ControllerChannel,
        clock: Clock,
        replica_lag_time_max_ms: int,
    ) -> None:
        self.context = LeadershipContext(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            cluster=cluster,
            replica_lag_time_max_ms=replica_lag_time_max_ms,
        )
        self.stats = IsrStats()
        self.all: dict[LeaderReplica, None] = {}
        self._controller = controller
        self._clock = clock
        self._changes = IsrChanges()
        self._request: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._logged_error = ErrorCode.NONE
        self._has_stopped = False

    # --- following the metadata log

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Follow a replicated partition that this broker leads, or update it if it is already followed."""
        now_ms = self._clock.monotonic_ms()
        known = partition.leader_replica
        if known is not None:
            known.update(registration, now_ms)
            return
        made = LeaderReplica(
            partition, registration, self.context, submit=self._submit, stats=self.stats, now_ms=now_ms
        )
        partition.leader_replica = made
        self.all[made] = None
        if not self._timers:
            self._start_timers()
        made.maybe_advance(now_ms)

    def end(self, partition: Partition, error: ErrorCode) -> None:
        """Stop following a partition that another broker leads or that was deleted, and refuse its waits."""
        leader = partition.leader_replica
        if leader is not None:
            partition.leader_replica = None
            self.all.pop(leader, None)
            leader.end(error)

    def follow_cluster(self, cluster: ClusterImage) -> None:
        """Add followers that may join an ISR after brokers joined, left or changed."""
        was_known = self.context.is_known
        self.context.cluster = cluster
        if not was_known and self.context.is_known:
            for leader in self.all:
                leader.process_is_known(self._clock.monotonic_ms())
        self._recheck()

    def stop(self) -> None:
        self._has_stopped = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._request is not None:
            self._request.cancel()

    # --- time

    def _start_timers(self) -> None:
        lag_s = self.context.replica_lag_time_max_ms / 1000
        self._timers = [asyncio.get_running_loop().call_later(0, _ignore)] * 2
        self._repeat(0, lag_s / 2, self._check_isrs)
        self._repeat(1, _RECHECK_S, self._recheck)

    def _repeat(self, place: int, interval_s: float, work: Callable[[], None]) -> None:
        def run() -> None:
            self._repeat(place, interval_s, work)
            work()

        self._timers[place] = asyncio.get_running_loop().call_later(interval_s, run)

    def _check_isrs(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for leader in self.all:
            leader.check_isr(now_ms)

    def _recheck(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for leader in self.all:
            if leader.leadership.is_incomplete:
                leader.recheck(now_ms)
        self._start_sending()

    # --- the controller

    def _submit(self, leader: LeaderReplica, proposal: IsrProposal) -> None:
        self._changes.submit(leader, proposal)
        self._start_sending()

    def _start_sending(self) -> None:
        if self._request is None and self._changes and not self._has_stopped:
            self._request = asyncio.get_running_loop().create_task(self._send_all())
            self._request.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._request = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("ISR changes failed, retrying", exc_info=problem)
            self._changes.failed()
        else:
            self._start_sending()  # More may have arrived since the last check.

    async def _send_all(self) -> None:
        while (request := self._next_request()) is not None:
            if not await self._send(request):
                await asyncio.sleep(_RETRY_S)

    def _next_request(self) -> AlterPartitionRequest | None:
        versions = self._controller.versions()
        newest = _NEWEST if versions is None else versions.get(ApiKey.ALTER_PARTITION, (0, _NEWEST))[1]
        return self._changes.next_request(self.context.broker_id, self.context.broker_epoch(), newest)

    async def _send(self, request: AlterPartitionRequest) -> bool:
        """Send the proposals. Return whether the next request may be sent immediately."""
        try:
            log.info("requesting these ISRs: %s", self._changes.describe_sent())
            response = await self._controller.send(request)
        except ApiException as error:
            self._changes.failed()
            self._log_error(error.code)
            return False
        refused = self.stats.failed_updates
        refusal = self._changes.answered(response, self._clock.monotonic_ms())
        self._log_error(refusal)
        return refusal is ErrorCode.NONE and self.stats.failed_updates == refused

    def _log_error(self, error: ErrorCode) -> None:
        """Log the first error of a series."""
        if error is not self._logged_error and error is not ErrorCode.NONE:
            level = logging.ERROR if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else logging.WARNING
            log.log(level, "the controller did not change ISRs, retrying: %s", error.name)
        self._logged_error = error


def _ignore() -> None:
    pass
