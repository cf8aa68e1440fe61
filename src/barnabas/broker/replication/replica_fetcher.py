"""Builds a follower's fetch requests to one leader and handles their answers, for all partitions copied from it.

The caller sends the requests of ``next_request`` one at a time. It passes in each answer (``receive``) or reports that
it was lost (``lost``). Logs are written through ``FollowerReplica``. Times are those of a monotonic clock.

A partition is fetched at its log's end. The request names the epoch of the last record, and a leader in whose log that
epoch ends earlier reports this (KIP-595): the follower truncates its log to the point where both agree, and continues
to fetch. A log without an epoch is first truncated to its high watermark, the only proof of committed records. If the
leader's log ends before our offset (after an unclean election) or starts after it, we request the end and the start of
that log.

A throttled partition is omitted while the quota is exceeded, unless its lag is 0.

A partition that receives an error is omitted for some time. A partition that is fenced, or whose log cannot be written,
is dropped until the metadata changes: ``follow`` with another leader epoch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.attempt_limit import AttemptLimit
from barnabas.broker.replication.fetcher_partitions import (
    FetchedPartition,
    FetcherPartitions,
    PartitionKey,
    PartitionState,
)
from barnabas.broker.replication.fetcher_requests import forgotten_topics, topics_to_fetch, topics_to_locate
from barnabas.broker.replication.follower_session import FollowerSession
from barnabas.broker.replication.log_divergence import truncation_offset
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.replication.follower_replica import FollowerReplica
    from barnabas.broker.replication.replication_quota import ReplicationQuota
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.protocol.schema import Message, Request

__all__ = ["FETCH_VERSION_MIN", "FetcherConfig", "ReplicaFetcher"]

log = logging.getLogger(__name__)

FETCH_VERSION_MIN = 13
"""Topic ids, and the end of a diverging epoch. Every partition leader of a KRaft cluster supports it."""
_REPLICA_STATE_SINCE = 15
_LATEST, _EARLIEST = -1, -2
_FIRST_BACKOFF_MS = 50
_HELD_BACK_MS_MAX = 500
"""The interval between checks of a throttled partition: the throttle may have been removed."""
_METADATA_RACES = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""Errors of a leader that has not received the metadata yet that this broker has: retry soon."""


class FetcherConfig(NamedTuple):
    max_wait_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576
    backoff_ms: int = 1000
    silence: AttemptLimit = AttemptLimit(2500, 30_000)
    """How long a leader may be silent while an answer is due. The limit grows after each lost request."""


class ReplicaFetcher:
    def __init__(
        self,
        *,
        broker_id: int,
        config: FetcherConfig,
        broker_epoch: Callable[[], int],
        quota: ReplicationQuota | None = None,
        has_session: bool = True,
    ) -> None:
        """``has_session``: without a session every request names all partitions."""
        self.partitions = FetcherPartitions()
        self.failed: dict[TopicPartition, int] = {}
        """Dropped partitions, with the leader epoch in which they were dropped."""
        self._broker_id = broker_id
        self._config = config
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._session = FollowerSession(is_wanted=has_session)
        self._paused_until_ms = 0
        self._losses = 0
        """The number of consecutive lost requests."""

    @property
    def connect_limit_ms(self) -> int:
        """The time limit for opening a connection, which costs the leader little work."""
        return self._config.silence.first_ms

    @property
    def silence_limit_ms(self) -> int:
        """How long the leader may be silent before the next request counts as lost.

        A connection whose packets are lost looks like a leader without data. Waiting for the whole of
        ``replica.socket.timeout.ms`` would delay producers for as long, because this replica may stay in the ISR.
        """
        return self._config.silence.of(self._losses + 1)

    @property
    def is_empty(self) -> bool:
        return not len(self.partitions)

    # --- partitions

    def follow(self, replica: FollowerReplica, leader_epoch: int) -> None:
        """Copy a partition from this leader. This has no effect if it is already copied in this epoch."""
        if self.is_following(replica, leader_epoch):
            return
        name = replica.topic_partition
        self.failed.pop(name, None)
        try:
            if replica.latest_epoch < 0:
                _cut(replica, replica.high_watermark, "without leader epochs it cannot be compared with its leader")
        except (ApiException, OSError, StorageError) as error:
            self.partitions.remove(name)
            self._give_up(name, leader_epoch, error)
            return
        self.partitions.add(FetchedPartition(replica, leader_epoch))
        self._paused_until_ms = 0

    def is_following(self, replica: FollowerReplica, leader_epoch: int) -> bool:
        """Return whether the partition is copied, or was dropped in this epoch."""
        known = self.partitions.get(replica.topic_partition)
        if known is None:
            return self.failed.get(replica.topic_partition) == leader_epoch
        return known.leader_epoch == leader_epoch and known.key.topic_id == replica.topic_id

    def stop(self, topic_partition: TopicPartition) -> bool:
        """Stop copying. From now on the log is not written. Return whether the partition was copied."""
        self.failed.pop(topic_partition, None)
        return self.partitions.remove(topic_partition) is not None

    # --- requests

    def next_request(self, now_ms: int, *, fetch_version: int) -> Request[Message] | None:
        """Return the request to send, or None before ``wakeup_ms``."""
        if now_ms < self._paused_until_ms:
            return None
        for partition in self.partitions.in_state(PartitionState.DELAYED):
            if partition.due_ms <= now_ms:
                self.partitions.move(partition, PartitionState.FETCHING)
        self._hold_back(now_ms)
        for state, timestamp in ((PartitionState.LOCATING_END, _LATEST), (PartitionState.LOCATING_START, _EARLIEST)):
            if self.partitions.has_any_in(state):
                topics = topics_to_locate(self.partitions.in_state(state), timestamp)
                return ListOffsetsRequest(replica_id=self._broker_id, topics=topics)
        if not self.partitions.has_any_in(PartitionState.FETCHING):
            return None
        return self._fetch(now_ms, fetch_version)

    def _hold_back(self, now_ms: int) -> None:
        """Hold back throttled partitions while the quota is exceeded."""
        wait_ms = 0 if self._quota is None else self._quota.wait_ms(now_ms)
        if self._quota is None or not wait_ms:
            return
        for partition in self.partitions.in_state(PartitionState.FETCHING):
            if partition.lag != 0 and self._quota.is_throttled(partition.replica.topic_partition):
                partition.due_ms = now_ms + min(wait_ms, _HELD_BACK_MS_MAX)
                self.partitions.move(partition, PartitionState.DELAYED)

    def wakeup_ms(self) -> int | None:
        """Return the time of the next request if nothing changes before; None: never."""
        if self.is_empty:
            return None
        if any(
            self.partitions.has_any_in(state)
            for state in (PartitionState.FETCHING, PartitionState.LOCATING_END, PartitionState.LOCATING_START)
        ):
            return self._paused_until_ms
        return max(self._paused_until_ms, self._first_due_ms())

    def _first_due_ms(self) -> int:
        return min(partition.due_ms for partition in self.partitions.in_state(PartitionState.DELAYED))

    def _fetch(self, now_ms: int, version: int) -> FetchRequest:
        session, config = self._session, self._config
        if session.is_full:
            self.partitions.forget_session()
        named, forgotten = self.partitions.take_changes(is_full=session.is_full)
        max_wait_ms = config.max_wait_ms
        if self.partitions.has_any_in(PartitionState.DELAYED):
            max_wait_ms = max(0, min(max_wait_ms, self._first_due_ms() - now_ms))
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=config.min_bytes,
            max_bytes=config.response_max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=topics_to_fetch(named, config.partition_max_bytes),
            forgotten_topics_data=forgotten_topics(forgotten),
        )
        if version >= _REPLICA_STATE_SINCE:
            request.replica_state = ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch())
        else:
            request.replica_id = self._broker_id
        return request

    # --- answers

    def lost(self, now_ms: int) -> None:
        """Handle a lost request: the connection failed, broke, or timed out."""
        self._session.lost()
        self._losses += 1
        self._pause(now_ms, self._losses)

    def receive(self, request: Message, response: Message, now_ms: int) -> Iterator[int]:
        """Apply an answer, one partition per step. Each step yields the number of bytes written.

        The caller takes all steps before it takes another request.
        """
        self._losses = 0
        if isinstance(response, ListOffsetsResponse):
            self._located(request, response, now_ms)
        elif isinstance(response, FetchResponse):
            yield from self._fetched(response, now_ms)

    def _fetched(self, response: FetchResponse, now_ms: int) -> Iterator[int]:
        if response.error_code:
            self._refused(_error_code(response.error_code), now_ms)
            return
        self._session.answered(response.session_id)
        if response.throttle_time_ms > 0:
            self._paused_until_ms = now_ms + response.throttle_time_ms
        for topic in response.responses:
            for data in topic.partitions:
                partition = self.partitions.of_key(PartitionKey(topic.topic_id, data.partition_index))
                if partition is None or not partition.is_known or partition.sent_offset != partition.fetch_offset:
                    continue  # Dropped, or started again, while the request was in flight.
                yield self._take(partition, data, now_ms)

    def _refused(self, error: ErrorCode, now_ms: int) -> None:
        """Handle a top-level error. After an evicted session, pause only if it happens again."""
        is_only_forgotten = error in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        was_full = self._session.is_full
        self._session.refused(error)
        if not is_only_forgotten or was_full:
            log.warning("a leader refused a fetch request with %s", error.name)
            self._losses += 1
            self._pause(now_ms, self._losses)

    def _take(self, partition: FetchedPartition, data: PartitionData, now_ms: int) -> int:
        """Apply one partition of the answer. Return the number of bytes written."""
        if data.error_code:
            self._refused_partition(partition, _error_code(data.error_code), now_ms)
            return 0
        partition.error_count = 0
        written = 0
        try:
            diverging = data.diverging_epoch
            if diverging is not None:
                self._truncate(partition, diverging.epoch, diverging.end_offset)
            else:
                written = self._append(partition, data)
                if self._quota is not None and self._quota.is_throttled(partition.replica.topic_partition):
                    self._quota.record(written, now_ms)
        except (ApiException, OSError, StorageError) as error:
            if self.partitions.get(partition.replica.topic_partition) is partition:
                self._went_wrong(partition, error, now_ms)
        return written

    def _went_wrong(self, partition: FetchedPartition, error: Exception, now_ms: int) -> None:
        """Retry after invalid data. Drop the partition after a disk error."""
        if not isinstance(error, ApiException) or error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._fail(partition, error)
            return
        log.error("invalid data received for %s: %s", partition.replica.topic_partition, error)
        self._go_on_at_end(partition)
        self._delay(partition, now_ms)

    def _append(self, partition: FetchedPartition, data: PartitionData) -> int:
        replica, records, written = partition.replica, data.records, 0
        if records:
            written = replica.append(records, partition.leader_epoch)
            if not written:
                raise ApiException(ErrorCode.CORRUPT_MESSAGE, "the answer does not contain a whole batch")
            self._go_on_at_end(partition)
            self.partitions.served(partition)
        replica.follow_offsets(high_watermark=data.high_watermark, log_start_offset=data.log_start_offset)
        partition.lag = max(0, data.high_watermark - partition.fetch_offset)
        if replica.log_start_offset != partition.sent_log_start_offset:
            self.partitions.changed(partition)
        return written

    def _truncate(self, partition: FetchedPartition, epoch: int, end_offset: int) -> None:
        replica = partition.replica
        offset = truncation_offset(replica, epoch, end_offset)
        before = (partition.fetch_offset, partition.last_fetched_epoch)
        _cut(replica, offset, f"its leader's epoch {epoch} ends at {end_offset}")
        self._go_on_at_end(partition)
        if (partition.fetch_offset, partition.last_fetched_epoch) == before:
            raise ApiException(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the leader's epoch {epoch} ends at {end_offset}, which our log does not exceed",
            )

    def _go_on_at_end(self, partition: FetchedPartition) -> None:
        partition.fetch_offset = partition.replica.log_end_offset
        partition.last_fetched_epoch = partition.replica.latest_epoch
        self.partitions.changed(partition)

    def _refused_partition(self, partition: FetchedPartition, error: ErrorCode, now_ms: int) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.partitions.move(partition, PartitionState.LOCATING_END)
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            self._fail(partition, error)
        else:
            level = logging.DEBUG if error in _METADATA_RACES else logging.WARNING
            log.log(level, "the leader of %s returned %s", partition.replica.topic_partition, error.name)
            self._delay(partition, now_ms, is_brief=error in _METADATA_RACES)

    # --- offsets of the leader's log

    def _located(self, request: Message, response: ListOffsetsResponse, now_ms: int) -> None:
        asked = PartitionState.LOCATING_END
        if isinstance(request, ListOffsetsRequest) and request.topics[0].partitions[0].timestamp == _EARLIEST:
            asked = PartitionState.LOCATING_START
        found = {
            (topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        for partition in self.partitions.in_state(asked):
            answer = found.get(partition.replica.topic_partition)
            if answer is None:
                self._delay(partition, now_ms)
            elif answer.error_code:
                error = _error_code(answer.error_code)
                # OFFSET_OUT_OF_RANGE cannot occur here. Other errors are handled as in a fetch.
                self._refused_partition(partition, error, now_ms)
            else:
                self._go_to(partition, answer.offset, now_ms)

    def _go_to(self, partition: FetchedPartition, offset: int, now_ms: int) -> None:
        """Continue with the leader's log end, or start, at ``offset``."""
        replica = partition.replica
        try:
            if partition.state is PartitionState.LOCATING_END:
                if offset >= replica.log_end_offset:
                    self.partitions.move(partition, PartitionState.LOCATING_START)
                    return
                _cut(replica, offset, "its leader's log ends there")
            elif offset > replica.log_end_offset:
                log.warning(
                    "%s restarts at %d, its leader's log start: the leader has deleted the records copied up to %d",
                    replica.topic_partition, offset, replica.log_end_offset,
                )  # fmt: skip
                replica.truncate_fully_and_start_at(offset)
            else:
                self._delay(partition, now_ms)  # Our offset is now in range.
                return
        except (ApiException, OSError, StorageError) as error:
            if self.partitions.get(replica.topic_partition) is partition:
                self._fail(partition, error)
            return
        self.partitions.move(partition, PartitionState.FETCHING)
        self._go_on_at_end(partition)

    # --- errors

    def _pause(self, now_ms: int, times: int) -> None:
        self._paused_until_ms = now_ms + _backoff_ms(self._config.backoff_ms, times)

    def _delay(self, partition: FetchedPartition, now_ms: int, *, is_brief: bool = False) -> None:
        partition.error_count += 1
        backoff_ms = self._config.backoff_ms
        partition.due_ms = now_ms + (_backoff_ms(backoff_ms, partition.error_count) if is_brief else backoff_ms)
        self.partitions.move(partition, PartitionState.DELAYED)

    def _fail(self, partition: FetchedPartition, error: Exception | ErrorCode) -> None:
        name = partition.replica.topic_partition
        self.partitions.remove(name)
        self._give_up(name, partition.leader_epoch, error)

    def _give_up(self, name: TopicPartition, leader_epoch: int, error: Exception | ErrorCode) -> None:
        self.failed[name] = leader_epoch
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            log.info("%s has a newer leader epoch than %d; waiting for the metadata", name, leader_epoch)
        else:
            log.error("stopped copying %s in leader epoch %d: %s", name, leader_epoch, error)


def _cut(replica: FollowerReplica, offset: int, reason: str) -> None:
    """Truncate the log to ``offset``, with a log line if records are removed."""
    end, high_watermark = replica.log_end_offset, replica.high_watermark
    if offset < high_watermark:
        log.warning(
            "%s is truncated from offset %d to %d, below its high watermark %d: %s; its leader was elected uncleanly",
            replica.topic_partition, end, offset, high_watermark, reason,
        )  # fmt: skip
    elif offset < end:
        log.info("%s is truncated from offset %d to %d: %s", replica.topic_partition, end, offset, reason)
    replica.truncate_to(offset)


def _backoff_ms(most_ms: int, times: int) -> int:
    return min(most_ms, _FIRST_BACKOFF_MS << min(times - 1, 16))


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
