"""What a follower asks one leader, and what it does with the answers: for all partitions that it copies from there.

The caller sends what ``next_request`` gives, one request at a time, and hands over the answer (``receive``) or says
that there is none (``lost``). Logs are written through ``FollowerReplica``; times are those of any clock that never
goes back.

A partition is fetched at its log's end. The request names the epoch of the last record there, and a leader in whose
log that epoch ends earlier says so (KIP-595): the log is cut where both agree, and fetching goes on. A log without any
epoch is cut at its high watermark first, for nothing else says what is committed of it. A leader whose log does not
reach our offset (it was elected uncleanly), or starts behind it, is asked where its log ends and starts.

A partition that is on the follower's throttle is left out while too much was copied, unless it lags behind by nothing.

A partition that gets an error is left out for a while. One that is fenced, or whose log can't be written, is given up
until the metadata has news of it: ``follow`` with another leader epoch.
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
"""Topic ids, and the end of an epoch that diverges. Whatever leads a partition of a KRaft cluster speaks it."""
_REPLICA_STATE_SINCE = 15
_LATEST, _EARLIEST = -1, -2
_FIRST_BACKOFF_MS = 50
_HELD_BACK_MS_MAX = 500
"""The throttle may be lifted meanwhile."""
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
"""The leader has not heard yet what we have: it will in a moment."""


class FetcherConfig(NamedTuple):
    max_wait_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576
    backoff_ms: int = 1000
    silence: AttemptLimit = AttemptLimit(2500, 30_000)
    """For how long a leader may send nothing while it owes an answer, longer after each loss."""


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
        """Without a session every request names all partitions."""
        self.partitions = FetcherPartitions()
        self.failed: dict[TopicPartition, int] = {}
        """What was given up, and in which leader epoch."""
        self._broker_id = broker_id
        self._config = config
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._session = FollowerSession(is_wanted=has_session)
        self._paused_until_ms = 0
        self._losses = 0
        """Requests in a row that were not answered."""

    @property
    def connect_limit_ms(self) -> int:
        """For how long a connection to the leader may take to be ready; a leader has little to do for one."""
        return self._config.silence.first_ms

    @property
    def silence_limit_ms(self) -> int:
        """For how long the leader may send nothing before the next request counts as lost.

        A connection whose packets vanish looks like a leader that has nothing to say. Waiting for the whole of
        ``replica.socket.timeout.ms`` would hold up producers for as long, because this replica may stay in the ISR.
        """
        return self._config.silence.of(self._losses + 1)

    @property
    def is_empty(self) -> bool:
        return not len(self.partitions)

    # --- which partitions

    def follow(self, replica: FollowerReplica, leader_epoch: int) -> None:
        """Copy it from this leader from now on; nothing happens if that is so in this epoch already."""
        if self.is_following(replica, leader_epoch):
            return
        name = replica.topic_partition
        self.failed.pop(name, None)
        try:
            if replica.latest_epoch < 0:
                _cut(replica, replica.high_watermark, "it has no leader epochs to compare with its leader's")
        except (ApiException, OSError, StorageError) as error:
            self.partitions.remove(name)
            self._give_up(name, leader_epoch, error)
            return
        self.partitions.add(FetchedPartition(replica, leader_epoch))
        self._paused_until_ms = 0

    def is_following(self, replica: FollowerReplica, leader_epoch: int) -> bool:
        """Or has given it up in this epoch."""
        known = self.partitions.get(replica.topic_partition)
        if known is None:
            return self.failed.get(replica.topic_partition) == leader_epoch
        return known.leader_epoch == leader_epoch and known.key.topic_id == replica.topic_id

    def stop(self, topic_partition: TopicPartition) -> bool:
        """Nothing is written to its log from now on. Whether it was followed."""
        self.failed.pop(topic_partition, None)
        return self.partitions.remove(topic_partition) is not None

    # --- asking

    def next_request(self, now_ms: int, *, fetch_version: int) -> Request[Message] | None:
        """What to send now; None before ``wakeup_ms``."""
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
        """Those on the throttle wait, if too much was copied of such."""
        wait_ms = 0 if self._quota is None else self._quota.wait_ms(now_ms)
        if self._quota is None or not wait_ms:
            return
        for partition in self.partitions.in_state(PartitionState.FETCHING):
            if partition.lag != 0 and self._quota.is_throttled(partition.replica.topic_partition):
                partition.due_ms = now_ms + min(wait_ms, _HELD_BACK_MS_MAX)
                self.partitions.move(partition, PartitionState.DELAYED)

    def wakeup_ms(self) -> int | None:
        """When there will be something to send if nothing comes before; None: never."""
        if self.is_empty:
            return None
        if any(
            self.partitions.has_any_in(state)
            for state in (PartitionState.FETCHING, PartitionState.LOCATING_END, PartitionState.LOCATING_START)
        ):
            return self._paused_until_ms
        return max(self._paused_until_ms, self._first_due_ms())

    def _first_due_ms(self) -> int:
        return min(each.due_ms for each in self.partitions.in_state(PartitionState.DELAYED))

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
        """No answer came: the connection could not be made, or broke, or took too long."""
        self._session.lost()
        self._losses += 1
        self._pause(now_ms, self._losses)

    def receive(self, request: Message, response: Message, now_ms: int) -> Iterator[int]:
        """Do what an answer says, a partition with each step; tells how many bytes each step wrote.

        The caller takes all steps before it asks for another request.
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
                    continue  # Given up, or begun anew, while the request was under way.
                yield self._take(partition, data, now_ms)

    def _refused(self, error: ErrorCode, now_ms: int) -> None:
        """The whole request. A session that the leader has forgotten costs no pause, unless it goes on like that."""
        is_only_forgotten = error in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        was_full = self._session.is_full
        self._session.refused(error)
        if not is_only_forgotten or was_full:
            log.warning("a leader answers a whole fetch with %s", error.name)
            self._losses += 1
            self._pause(now_ms, self._losses)

    def _take(self, partition: FetchedPartition, data: PartitionData, now_ms: int) -> int:
        """What the answer has for one partition; how many bytes of it were written."""
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
        """Bad data may be better next time; a bad disk won't."""
        if not isinstance(error, ApiException) or error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._fail(partition, error)
            return
        log.error("what came of %s can't be used: %s", partition.replica.topic_partition, error)
        self._go_on_at_end(partition)
        self._delay(partition, now_ms)

    def _append(self, partition: FetchedPartition, data: PartitionData) -> int:
        replica, records, written = partition.replica, data.records, 0
        if records:
            written = replica.append(records, partition.leader_epoch)
            if not written:
                raise ApiException(ErrorCode.CORRUPT_MESSAGE, "there is no whole batch in it")
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
                f"the leader's epoch {epoch} ends at {end_offset}, and nothing of ours is beyond",
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
            log.log(level, "the leader of %s answers %s", partition.replica.topic_partition, error.name)
            self._delay(partition, now_ms, is_brief=error in _METADATA_RACES)

    # --- where the leader's log is

    def _located(self, request: Message, response: ListOffsetsResponse, now_ms: int) -> None:
        asked = PartitionState.LOCATING_END
        if isinstance(request, ListOffsetsRequest) and request.topics[0].partitions[0].timestamp == _EARLIEST:
            asked = PartitionState.LOCATING_START
        found = {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}
        for partition in self.partitions.in_state(asked):
            answer = found.get(partition.replica.topic_partition)
            if answer is None:
                self._delay(partition, now_ms)
            elif answer.error_code:
                error = _error_code(answer.error_code)
                # It can't be out of range here; whatever else is wrong is as in a fetch.
                self._refused_partition(partition, error, now_ms)
            else:
                self._go_to(partition, answer.offset, now_ms)

    def _go_to(self, partition: FetchedPartition, offset: int, now_ms: int) -> None:
        """The leader's log ends, or starts, at ``offset``."""
        replica = partition.replica
        try:
            if partition.state is PartitionState.LOCATING_END:
                if offset >= replica.log_end_offset:
                    self.partitions.move(partition, PartitionState.LOCATING_START)
                    return
                _cut(replica, offset, "its leader's log ends there")
            elif offset > replica.log_end_offset:
                log.warning(
                    "%s begins anew at %d, its leader's start: what was copied up to %d was deleted there",
                    replica.topic_partition, offset, replica.log_end_offset,
                )  # fmt: skip
                replica.truncate_fully_and_start_at(offset)
            else:
                self._delay(partition, now_ms)  # Our offset is in range: it was a moment ago that it was not.
                return
        except (ApiException, OSError, StorageError) as error:
            if self.partitions.get(replica.topic_partition) is partition:
                self._fail(partition, error)
            return
        self.partitions.move(partition, PartitionState.FETCHING)
        self._go_on_at_end(partition)

    # --- what goes wrong

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
            log.info("%s has a newer leader epoch than %d; we wait until we hear of it", name, leader_epoch)
        else:
            log.error("%s is not copied any more in leader epoch %d: %s", name, leader_epoch, error)


def _cut(replica: FollowerReplica, offset: int, reason: str) -> None:
    """Remove everything from ``offset`` on, with a line if there is anything."""
    end, high_watermark = replica.log_end_offset, replica.high_watermark
    if offset < high_watermark:
        log.warning(
            "%s is cut from offset %d to %d, below its high watermark %d: %s; its leader was elected uncleanly",
            replica.topic_partition, end, offset, high_watermark, reason,
        )  # fmt: skip
    elif offset < end:
        log.info("%s is cut from offset %d to %d: %s", replica.topic_partition, end, offset, reason)
    replica.truncate_to(offset)


def _backoff_ms(most_ms: int, times: int) -> int:
    return min(most_ms, _FIRST_BACKOFF_MS << min(times - 1, 16))


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
