"""A share-partition on the broker that leads its partition: its state, its log, its writes, and the fetches that wait.

It is loaded from the persister with the first request, and unloaded when the broker loses the partition or begins
another leader epoch, when its group has no more sessions here, or when the persister knows another leader.

Fetches that find nothing wait in the order in which they arrived. What is appended, released or unlocked goes to the
first of them that it satisfies.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.forwarding_stats import Histogram
from barnabas.broker.share.fetched_batches import FetchedBatches
from barnabas.broker.share.share_group_config import reset_age_ms
from barnabas.broker.share.share_stats import BATCH_BOUNDS
from barnabas.broker.share.state_writer import StateWriter, persister_error
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.share.persister import UNINITIALIZED_OFFSET
from barnabas.coordinator.share_partition.in_flight_records import InvalidState
from barnabas.coordinator.share_partition.share_partition import SharePartition
from barnabas.network.loop_scheduler import TURN_S, call_after_others
from barnabas.storage.offset_lookup import fetch_offset_for_timestamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.share.share_fetch import ShareFetch
    from barnabas.broker.share.share_group_config import ShareGroupConfigs
    from barnabas.broker.share.share_session import TopicIdPartition
    from barnabas.broker.share.share_stats import ShareStats
    from barnabas.common.clock import Clock
    from barnabas.coordinator.share.persister import LeaderPersister, SharePartitionState, StateBatch, StateOutcome
    from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch
    from barnabas.coordinator.share_partition.state_write import StateWrite

__all__ = ["Environment", "LedSharePartition", "SharePartitionKey"]

log = logging.getLogger(__name__)

_ENDS_LEADERSHIP = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)


class SharePartitionKey(NamedTuple):
    group_id: str
    partition: TopicIdPartition


class Environment(NamedTuple):
    """What all share-partitions of a broker use."""

    replicas: ReplicaManager
    persister: LeaderPersister
    configs: ShareGroupConfigs
    clock: Clock
    stats: ShareStats
    forget: Callable[[LedSharePartition], None]
    """Called when a share-partition is unloaded."""


class LedSharePartition:
    __slots__ = (
        "_environment",
        "_has_newcomers",
        "_is_serving",
        "_loading",
        "_state_epoch",
        "_timer",
        "_timer_due_ms",
        "_waiting",
        "_writer",
        "batch_sizes",
        "error",
        "key",
        "leader_epoch",
        "partition",
        "state",
    )

    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        environment: Environment,
        *,
        after: asyncio.Task[None] | None = None,
    ) -> None:
        """``after``: writes of an earlier instance of the share-partition, which must be answered before it is read."""
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state: SharePartition | None = None
        """None until the persister has returned it."""
        self.error: ApiException | None = None
        """Why it was unloaded."""
        self.batch_sizes = Histogram(BATCH_BOUNDS)
        """The records of each batch that was acquired."""
        self._environment = environment
        self._state_epoch = 0
        self._writer = StateWriter(self._send, self._answered)
        self._waiting: dict[ShareFetch, None] = {}
        self._is_serving = False
        self._has_newcomers = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        partition.add_watcher(self)
        self._loading: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(self._load(after))

    # --- loading and unloading

    async def _load(self, after: asyncio.Task[None] | None) -> None:
        environment, clock = self._environment, self._environment.clock
        if after is not None:
            await asyncio.wait([after])
        began_ms = clock.monotonic_ms()
        group_id, (topic_id, index) = self.key
        answer = await environment.persister.read_state(group_id, topic_id, index, self.leader_epoch)
        self._loading = None
        if self.error is not None:
            return
        try:
            self.state = self._continued_from(answer)
        except ApiException as error:
            self.unload(error)
        except InvalidState as invalid:
            log.error("the state of %s for group %s is invalid: %s", self.partition.topic_partition, group_id, invalid)
            self.unload(ApiException(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            environment.stats.load_times.record(clock.monotonic_ms() - began_ms)
            self.wake()

    def _continued_from(self, answer: SharePartitionState) -> SharePartition:
        if answer.error_code:
            raise persister_error(answer.error_code, answer.error_message)
        environment, group_id = self._environment, self.key.group_id
        start_offset = answer.start_offset
        if start_offset == UNINITIALIZED_OFFSET:
            start_offset = self._initial_offset(environment.configs.of(group_id).auto_offset_reset)
        self._state_epoch = answer.state_epoch
        state = SharePartition(lambda: environment.configs.of(group_id).limits, start_offset, answer.batches)
        state.log_start_moved(self.partition.log.log_start_offset)
        return state

    def _initial_offset(self, auto_offset_reset: str) -> int:
        if auto_offset_reset == "earliest":
            return self.partition.log.log_start_offset
        leader, environment = self.partition.leader_replica, self._environment
        if leader is not None and leader.is_catching_up:
            raise ApiException(ErrorCode.OFFSET_NOT_AVAILABLE, "The leader does not know yet what is committed")
        end_offset = self.partition.log.high_watermark
        age_ms = reset_age_ms(auto_offset_reset)
        if age_ms is None:
            return end_offset
        with environment.replicas.answered_disk_errors(self.partition.topic_partition):
            found = fetch_offset_for_timestamp(
                self.partition.log, environment.clock.now_ms() - age_ms, last_fetchable_offset=end_offset
            )
        return end_offset if found is None else found.offset

    def unload(self, error: ApiException) -> None:
        """Answer the fetches that wait. Writes that were begun are still sent: a later leader has fenced them."""
        if self.error is not None:
            return
        self.error = error
        self.partition.remove_watcher(self)
        if self._timer is not None:
            self._timer.cancel()
        self._environment.forget(self)
        for fetch in tuple(self._waiting):
            fetch.lost(self)

    def stop(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
        if self.writing is not None:
            self.writing.cancel()
        self.unload(ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER))

    @property
    def writing(self) -> asyncio.Task[None] | None:
        """The writes that are not answered yet."""
        return self._writer.task

    # --- the partition

    def partition_changed(self, appended_bytes: int | None) -> None:
        """Part of PartitionWatcher."""
        if appended_bytes is None:
            self._follow_log_start()
        elif appended_bytes == 0:
            self._check_leadership()
        else:
            self.wake()

    def _follow_log_start(self) -> None:
        if self.state is not None and self.state.log_start_moved(self.partition.log.log_start_offset):
            self.wake()

    def _check_leadership(self) -> None:
        partition, replicas = self.partition, self._environment.replicas
        try:
            if replicas.leader_of(partition.topic_partition, self.leader_epoch) is not partition:
                raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except ApiException as error:
            is_fenced = error.code is ErrorCode.FENCED_LEADER_EPOCH
            self.unload(ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER) if is_fenced else error)

    # --- fetching

    @property
    def is_serving(self) -> bool:
        """Whether fetches that wait are about to receive what has become available."""
        return self._is_serving

    def next_fetch_offset(self) -> int | None:
        """Return the offset to read; None while no record may be acquired."""
        return None if self.state is None else self.state.next_fetch_offset()

    def read(self, fetch_offset: int, *, max_bytes: int, max_records: int, is_first: bool) -> FetchedBatches:
        """Read what may be acquired at the offset. ``is_first``: a single batch may be larger than ``max_bytes``."""
        log_, state = self.partition.log, self.state
        is_committed_only = self._environment.configs.of(self.key.group_id).is_committed_only
        with self._environment.replicas.answered_disk_errors(self.partition.topic_partition):
            read = log_.read(
                min(fetch_offset, log_.log_end_offset),
                max_bytes,
                max_offset=log_.last_stable_offset if is_committed_only else log_.high_watermark,
                min_one_message=is_first,
                committed_only=is_committed_only,
            )
        known_until = fetch_offset if state is None else max(fetch_offset, state.end_offset)
        return FetchedBatches(read, known_until + max_records)

    def _is_readable(self) -> bool:
        offset = self.next_fetch_offset()
        if offset is None:
            return False
        is_committed_only = self._environment.configs.of(self.key.group_id).is_committed_only
        log_ = self.partition.log
        return offset < (log_.last_stable_offset if is_committed_only else log_.high_watermark)

    def join(self, fetch: ShareFetch) -> None:
        """Have a fetch wait behind the others."""
        self._waiting[fetch] = None
        self._has_newcomers = True

    def leave(self, fetch: ShareFetch) -> None:
        self._waiting.pop(fetch, None)

    def wake(self) -> None:
        """Let the fetches that wait look again, soon."""
        if self._waiting and not self._is_serving and self.error is None:
            self._is_serving = True
            asyncio.get_running_loop().call_soon(self._begin_serving)

    def _begin_serving(self) -> None:
        self._has_newcomers = False
        self._serve(list(self._waiting))

    def _serve(self, fetches: list[ShareFetch]) -> None:
        """Serve fetches for a short time, and the others after other work; those that came meanwhile are the last."""
        loop = asyncio.get_running_loop()
        end_of_turn = loop.time() + TURN_S
        for at, fetch in enumerate(fetches):
            if self.error is not None or not self._is_readable():
                self._is_serving = False
                return
            if loop.time() > end_of_turn:
                call_after_others(partial(self._serve, fetches[at:]))
                return
            if fetch in self._waiting:
                fetch.attempt()
        self._is_serving = False
        if self._has_newcomers:
            self.wake()

    def locks_began(self) -> None:
        """Look after the locks of records that were acquired."""
        due_ms = None if self.state is None else self.state.next_deadline_ms
        if due_ms is None or self.error is not None:
            return
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = due_ms
        wait_ms = max(due_ms - self._environment.clock.monotonic_ms(), 1)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._expire_locks)

    def _expire_locks(self) -> None:
        self._timer = None
        state = self.state
        if state is None:
            return
        write = state.expire_locks(self._environment.clock.monotonic_ms())
        if write is not None:
            self._writer.write(write)
            self.wake()
        self.locks_began()

    # --- acknowledging

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch]
    ) -> Awaitable[ApiException | None] | None:
        """Return an awaitable of the error, if any; None if nothing had to be stored. Raise ApiException."""
        if self.state is None:
            raise ApiException(
                ErrorCode.INVALID_RECORD_STATE, "No records are acquired: the share-partition is loading"
            )
        write = self.state.acknowledge(member_id, batches, now_ms=self._environment.clock.monotonic_ms())
        return None if write is None else self._writer.write(write)

    def release(self, member_id: str) -> Awaitable[ApiException | None] | None:
        """Release all records of a member."""
        if self.state is None:
            return None
        write = self.state.release(member_id, now_ms=self._environment.clock.monotonic_ms())
        return None if write is None else self._writer.write(write)

    def _send(self, batches: Sequence[StateBatch]) -> Awaitable[StateOutcome]:
        group_id, (topic_id, index) = self.key
        state = self.state
        start_offset, complete_count = (
            (-1, -1) if state is None else (state.start_offset, state.delivery_complete_count)
        )
        return self._environment.persister.write_state(
            group_id, topic_id, index, self._state_epoch, self.leader_epoch, start_offset, complete_count, batches
        )

    def _answered(self, writes: Sequence[StateWrite], error: ApiException | None) -> None:
        state = self.state
        if state is None:
            return
        now_ms, has_changed = self._environment.clock.monotonic_ms(), False
        for write in writes:
            has_changed = state.complete(write, is_stored=error is None, now_ms=now_ms) or has_changed
        if error is not None:
            topic_partition, group_id = self.partition.topic_partition, self.key.group_id
            log.debug("the state of %s for group %s was not stored: %s", topic_partition, group_id, error)
            if error.code in _ENDS_LEADERSHIP:
                log.info("unloading %s for group %s: %s", topic_partition, group_id, error)
                self.unload(error)
        if has_changed:
            self.wake()
        self.locks_began()
