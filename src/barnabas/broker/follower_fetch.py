"""Handles the fetch of a follower. It reads up to the log end; its fetch offset shows which records it has.

A follower is identified by its broker id and the epoch of its registration. CLUSTER_ACTION lets it read every topic. A
request in a session asserts that the follower still has all records of the partitions that the request does not name.
If the follower's log diverges from the leader's, the answer contains the divergence instead of records. While the quota
is exceeded, a follower out of sync does not receive data of throttled partitions, and such data does not end its wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.delayed_fetch import wait_for_bytes
from barnabas.broker.fetch_response import Reading, failed, respond
from barnabas.broker.replication.replica_state import FollowerContact
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.messages.fetch import EpochEndOffset, FetchResponse, PartitionData
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.broker.fetch_session import FetchContext, WantedPartition
    from barnabas.broker.partition import Partition
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.network.api_handler import Access
    from barnabas.protocol.messages.fetch import FetchRequest
    from barnabas.storage.partition_log import PartitionLog

__all__ = ["FollowerFetch"]

_TOPIC_IDS_SINCE = 13


class FollowerFetch:
    """One request of broker ``replica_id``; ``replica_epoch`` is -1 in versions without it."""

    __slots__ = (
        "_access",
        "_broker",
        "_contact",
        "_context",
        "_now_ms",
        "_quota",
        "_replica_epoch",
        "_replica_id",
        "_request",
        "_rounds",
    )

    def __init__(
        self, broker: Broker, request: FetchRequest, access: Access, *, replica_id: int, replica_epoch: int
    ) -> None:
        self._broker = broker
        self._request = request
        self._access = access
        self._replica_id = replica_id
        self._replica_epoch = replica_epoch
        self._now_ms = broker.clock.monotonic_ms()
        self._quota = broker.replicas.leader_quota
        self._rounds = broker.replicas.read_rounds
        version = access.context.api_version
        self._context: FetchContext = broker.fetch_sessions.context(
            request, version, broker.clock.now_ms(), is_follower=True
        )
        self._contact = self._contact_of_session()

    def _contact_of_session(self) -> FollowerContact | None:
        session = self._context.session
        if session is None:
            return None
        if session.contact is None:
            session.contact = FollowerContact(self._now_ms)
        else:
            session.contact.continues(self._now_ms)
        return session.contact

    def answer(self) -> FetchResponse | Awaitable[FetchResponse]:
        request, context = self._request, self._context
        if context.error_code is not ErrorCode.NONE:
            return FetchResponse(error_code=context.error_code)
        reading, leaders = self._read_all(counts=True)
        self._rounds.fetched()
        if reading.bytes_read >= request.min_bytes or request.max_wait_ms <= 0 or reading.has_error or context.is_empty:
            return self._respond(reading)
        if self._contact is not None and self._rounds.wants_early_answer(self._contact):
            return self._respond(reading)
        notifiers = leaders if context.session is None else (context.session,)
        waiting = wait_for_bytes(notifiers, request.min_bytes - reading.bytes_read, request.max_wait_ms)
        return self._read_after(waiting)

    async def _read_after(self, waiting: Awaitable[None]) -> FetchResponse:
        await waiting
        reading, _ = self._read_all(counts=False)
        return self._respond(reading)

    def _respond(self, reading: Reading) -> FetchResponse:
        led = self._broker.replicas.leader_replicas
        if led is not None:
            led.stats.bytes_out += reading.bytes_read
        if self._contact is not None:
            self._contact.answered_round = self._rounds.newest
        response = respond(self._broker, self._context, reading, self._access)
        response.node_endpoints = []  # Followers know the endpoints of leaders.
        return response

    def _read_all(self, *, counts: bool) -> tuple[Reading, list[LeaderReplica]]:
        """``counts``: update the follower's state from the fetch offsets. A second read after a wait does not."""
        reading, leaders = Reading(), []
        left = min(self._request.max_bytes, self._broker.settings.fetch_max_bytes)
        quota = self._quota
        must_wait = quota is not None and quota.wait_ms(self._broker.clock.monotonic_ms()) > 0
        throttled_bytes = 0
        session = self._context.session
        self._context.refresh(lambda names: names, is_committed_only=False)
        for wanted in self._context.wanted:
            answer = PartitionData(partition_index=wanted.key.partition, high_watermark=-1, records=b"")
            answer.aborted_transactions = None
            try:
                partition, leader = self._led(wanted)
                is_throttled = quota is not None and quota.is_throttled(partition.topic_partition)
                is_held_back = is_throttled and must_wait and self._replica_id not in leader.leadership.isr
                if session is not None:
                    session.watch(wanted, None if is_held_back else leader)
                first = not reading.bytes_read and not is_held_back
                room = 0 if is_held_back else left
                has_all = self._read(partition, leader, wanted, answer, room, first=first, counts=counts)
                if has_all and counts and not is_held_back:
                    reading.note_exhausted(wanted)
                if not is_held_back:
                    leaders.append(leader)
                size = len(answer.records or b"")
                if is_throttled:
                    throttled_bytes += size
                reading.bytes_read += size
                left -= size
                if answer.diverging_epoch is not None:
                    reading.has_error = True
            except ApiException as error:
                if wanted.replica is not None:
                    # The follower may be right: it may know a different leader epoch.
                    wanted.replica.lose_contact(self._contact)
                answer = failed(wanted.key.partition, error.code)
                reading.has_error = True
            except (OSError, StorageError) as error:
                answer = failed(wanted.key.partition, self._read_failed(wanted, error))
                reading.has_error = True
            reading.answers.append((wanted, answer))
        if quota is not None and throttled_bytes:
            quota.record(throttled_bytes, self._broker.clock.monotonic_ms())
        return reading, leaders

    def _led(self, wanted: WantedPartition) -> tuple[Partition, LeaderReplica]:
        key, replicas = wanted.key, self._broker.replicas
        by_id = self._access.context.api_version >= _TOPIC_IDS_SINCE
        name = replicas.topic_name(key.topic_id) if by_id else key.topic
        if name is None:
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = replicas.leader_of(TopicPartition(name, key.partition), wanted.current_leader_epoch)
        leader = partition.leader_replica
        if leader is None:
            knows_epoch = wanted.current_leader_epoch >= 0
            raise ApiException(ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition, leader

    def _read_failed(self, wanted: WantedPartition, error: Exception) -> ErrorCode:
        key, replicas = wanted.key, self._broker.replicas
        name = key.topic or replicas.topic_name(key.topic_id) or ""
        return replicas.read_failed(TopicPartition(name, key.partition), error)

    def _read(
        self,
        partition: Partition,
        leader: LeaderReplica,
        wanted: WantedPartition,
        answer: PartitionData,
        left: int,
        *,
        first: bool,
        counts: bool,
    ) -> bool:
        """Fill the answer. Return True if the follower has all records."""
        replica = leader.follower(self._replica_id, wanted.current_leader_epoch)
        log = partition.log_or_none
        end_offset = leader.log_end_offset
        if log is not None and _fill_divergence(log, wanted, answer):
            return False
        if not (0 if log is None else log.log_start_offset) <= wanted.fetch_offset <= end_offset:
            raise ApiException(ErrorCode.OFFSET_OUT_OF_RANGE)
        if log is not None and wanted.fetch_offset < end_offset and (left > 0 or first):
            if replica.sent_offset == wanted.fetch_offset:
                # The follower rejected the records: the bytes may have been damaged since they were checked.
                log.forget_checks(wanted.fetch_offset)
            replica.sent_offset = wanted.fetch_offset
            answer.records = log.read(
                wanted.fetch_offset, min(wanted.max_bytes, max(left, 0)), min_one_message=first
            ).records
        if counts:
            wanted.replica = replica
            leader.follower_fetched(
                replica,
                log_end_offset=wanted.fetch_offset,
                log_start_offset=wanted.log_start_offset,
                broker_epoch=self._replica_epoch,
                now_ms=self._now_ms,
                contact=self._contact,
            )
        _fill_offsets(log, answer)
        return wanted.fetch_offset == end_offset


def _fill_divergence(log: PartitionLog, wanted: WantedPartition, answer: PartitionData) -> bool:
    """If the logs diverge before the fetch offset, fill the answer and return True.

    Raise OFFSET_OUT_OF_RANGE if that is unknown.
    """
    if wanted.last_fetched_epoch < 0:
        return False
    epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
        raise ApiException(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch >= wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return False
    answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    _fill_offsets(log, answer)
    return True


def _fill_offsets(log: PartitionLog | None, answer: PartitionData) -> None:
    if log is None:
        answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = 0
    else:
        answer.high_watermark = log.high_watermark
        answer.last_stable_offset = log.last_stable_offset
        answer.log_start_offset = log.log_start_offset
