"""Fetch: reads batches from partitions that this broker leads, and waits for data if requested. Followers are served by
``broker.follower_fetch``.

The first batch of the first non-empty partition may exceed both size limits. The other partitions fill the rest of
``max_bytes`` in the session's order. An answer waits for ``min_bytes`` up to ``max_wait_ms`` unless a partition has an
error. Committed readers receive data below the last stable offset, and the list of aborted transactions.

Consumers may read from followers (KIP-392), up to the high watermark that the follower knows. The leader redirects a
consumer to a follower if a selector chooses one; such an answer has no records.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

from barnabas.broker.delayed_fetch import AppendedBytes, wait_for_bytes
from barnabas.broker.fetch_response import BEFORE_READING, Reading, failed, respond, respond_with
from barnabas.broker.fetch_session import FetchContext, WantedPartition
from barnabas.broker.follower_fetch import FollowerFetch
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.network.fair_scheduling import pause_after
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition

__all__ = ["handle_fetch"]

_READ_COMMITTED = 1
_ANY_REPLICA_SINCE = 11
_AT_ONCE = 500
"""The number of partitions that are read before other work runs."""
_STEP = 100
_USELESS_MAX = 100
"""A consumer that names more unreadable partitions than this does not receive a session: it would waste memory."""


@handles(
    ApiKey.FETCH,
    acl=(
        AclRule(ResourceType.TOPIC, AclOperation.READ),
        AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),
    ),
)
def handle_fetch(broker: Broker, request: FetchRequest, access: Access) -> FetchResponse | Awaitable[FetchResponse]:
    version = access.context.api_version
    replica_id = request.replica_id if request.replica_state is None else request.replica_state.replica_id
    if replica_id >= 0:
        if not access.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return _refused(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        replica_epoch = -1 if request.replica_state is None else request.replica_state.replica_epoch
        return FollowerFetch(broker, request, access, replica_id=replica_id, replica_epoch=replica_epoch).answer()
    if broker.quotas is not None:
        broker.quotas.limit_fetch(request, access.context)
    if sum(len(topic.partitions) for topic in request.topics) > _AT_ONCE:
        return _fetch_many(broker, request, access)
    context = broker.fetch_sessions.context(request, version, broker.clock.now_ms(), is_follower=False)
    if context.error_code is not ErrorCode.NONE:
        return FetchResponse(error_code=context.error_code)
    if len(context.wanted) > _AT_ONCE:
        return _read_in_turns(broker, request, context, access)
    reading = _read_all(broker, request, context, access)
    if reading.bytes_read >= request.min_bytes or request.max_wait_ms <= 0 or reading.has_error or context.is_empty:
        return _answer(broker, context, reading, access)
    notifiers = reading.partitions if context.session is None else (context.session,)
    waiting = wait_for_bytes(notifiers, request.min_bytes - reading.bytes_read, request.max_wait_ms)
    return _wait_and_read(broker, request, context, access, waiting)


class _Others:
    """Lets other work of the event loop run between two steps, for twice the time that the step took."""

    __slots__ = ("_step_began",)

    def __init__(self) -> None:
        self._step_began = perf_counter()

    async def are_served(self) -> None:
        await asyncio.sleep(pause_after(perf_counter() - self._step_began))
        self._step_began = perf_counter()


async def _fetch_many(broker: Broker, request: FetchRequest, access: Access) -> FetchResponse:
    """Read a request that names many partitions: its entries are applied in steps, too."""
    version, now_ms = access.context.api_version, broker.clock.now_ms()
    steps = broker.fetch_sessions.context_in_steps(request, version, now_ms, is_follower=False)
    others = _Others()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            context: FetchContext = end.value
            break
        await others.are_served()
    if context.error_code is not ErrorCode.NONE:
        return FetchResponse(error_code=context.error_code)
    request.topics = []  # The context has all partitions, and this list takes some megabytes.
    try:
        return await _read_in_turns(broker, request, context, access)
    except asyncio.CancelledError:
        if not context.is_incremental:
            broker.fetch_sessions.give_up(context)  # The client never received it.
        raise


async def _read_in_turns(broker: Broker, request: FetchRequest, context: FetchContext, access: Access) -> FetchResponse:
    """Read the partitions, and serve other requests after every few hundred of them.

    Data appended to a partition that was already read counts towards ``min_bytes``. In a session an append may be both
    counted and read; the answer is then sent early, with less than ``min_bytes``.
    """
    reading, appended, others = Reading(), AppendedBytes(), _Others()
    may_wait = request.max_wait_ms > 0
    try:
        if may_wait and context.session is not None:
            appended.listen_to(context.session)
        for _ in _reading_steps(broker, request, context, access, reading):
            if may_wait and context.session is None:
                _listen_to_new(appended, reading)
            await others.are_served()
        if reading.bytes_read >= request.min_bytes or not may_wait or reading.has_error or context.is_empty:
            return await _answer_in_turns(broker, context, reading, access)
        if context.session is None:
            _listen_to_new(appended, reading)
        await appended.wait(request.min_bytes - reading.bytes_read, request.max_wait_ms)
    finally:
        appended.stop()
    second, others = Reading(), _Others()
    for _ in _reading_steps(broker, request, context, access, second, is_second_look=True):
        await others.are_served()
    return await _answer_in_turns(broker, context, second, access)


def _listen_to_new(appended: AppendedBytes, reading: Reading) -> None:
    """Listen to the partitions of the last step, in the same turn of the loop in which they were read."""
    for partition in reading.partitions[-_STEP:]:
        appended.listen_to(partition)


async def _wait_and_read(
    broker: Broker, request: FetchRequest, context: FetchContext, access: Access, waiting: Awaitable[None]
) -> FetchResponse:
    await waiting
    return _answer(broker, context, _read_all(broker, request, context, access, is_second_look=True), access)


def _answer(broker: Broker, context: FetchContext, reading: Reading, access: Access) -> FetchResponse:
    _count(broker, context, reading)
    return respond(broker, context, reading, access)


async def _answer_in_turns(broker: Broker, context: FetchContext, reading: Reading, access: Access) -> FetchResponse:
    _count(broker, context, reading)
    selected: list[tuple[WantedPartition, PartitionData]] = []
    others = _Others()
    for start in range(0, len(reading.answers), _AT_ONCE):
        selected += context.select(reading.answers[start : start + _AT_ONCE])
        await others.are_served()
    return respond_with(broker, context, reading, selected, access)


def _count(broker: Broker, context: FetchContext, reading: Reading) -> None:
    broker.replicas.bytes_out += reading.bytes_read
    if reading.useless_count > _USELESS_MAX:
        broker.fetch_sessions.give_up(context)


def _read_all(
    broker: Broker, request: FetchRequest, context: FetchContext, access: Access, *, is_second_look: bool = False
) -> Reading:
    """Read the available data. A second read authorizes again, but is not another request in the audit log."""
    reading = Reading()
    for _ in _reading_steps(broker, request, context, access, reading, is_second_look=is_second_look):
        pass
    return reading


def _reading_steps(
    broker: Broker,
    request: FetchRequest,
    context: FetchContext,
    access: Access,
    reading: Reading,
    *,
    is_second_look: bool = False,
) -> Iterator[None]:
    """Fill ``reading``, a few hundred partitions per step."""
    left = min(request.max_bytes, broker.settings.fetch_max_bytes)
    committed_only = request.isolation_level == _READ_COMMITTED
    allowed: dict[str, bool] = {}
    version = access.context.api_version
    by_id, reads_any_replica = version >= 13, version >= _ANY_REPLICA_SINCE
    selector = broker.replica_selector if request.rack_id else None
    rack_id, listener_name = request.rack_id, access.context.listener_name
    session = context.session
    context.refresh(
        lambda names: access.allowed_in_order(ResourceType.TOPIC, AclOperation.READ, names),
        is_committed_only=committed_only,
    )
    for number, wanted in enumerate(context.wanted, 1):
        if not number % _STEP:
            yield
        key = wanted.key
        name = broker.replicas.topic_name(key.topic_id) if by_id else key.topic
        answer = PartitionData(partition_index=key.partition, high_watermark=-1, records=b"")
        try:
            if name is None:
                raise ApiException(ErrorCode.UNKNOWN_TOPIC_ID)
            permitted = allowed.get(name)
            if permitted is None:
                permitted = allowed[name] = access.allows(
                    ResourceType.TOPIC,
                    AclOperation.READ,
                    name,
                    log_if_allowed=not is_second_look,
                    log_if_denied=not is_second_look,
                )
            if not permitted:
                raise ApiException(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            find = broker.replicas.replica_of if reads_any_replica else broker.replicas.leader_of
            partition = find(TopicPartition(name, key.partition), wanted.current_leader_epoch)
            if session is not None:
                session.watch(wanted, partition)
            leader = partition.leader_replica
            if selector is not None and leader is not None:
                answer.preferred_read_replica = selector.select(leader, wanted.fetch_offset, rack_id, listener_name)
            if answer.preferred_read_replica != -1:
                _fill_offsets(partition, answer)
                reading.has_error = True
            elif _read(partition, wanted, answer, left, committed_only, first=reading.bytes_read == 0):
                reading.note_exhausted(wanted)
            reading.partitions.append(partition)
            size = len(answer.records or b"")
            reading.bytes_read += size
            left -= size
            if answer.diverging_epoch is not None:
                reading.has_error = True
        except ApiException as error:
            answer = failed(
                key.partition, _error_for_client(broker, TopicPartition(name or "", key.partition), wanted, error.code)
            )
            reading.has_error = True
            reading.useless_count += error.code in BEFORE_READING
        except (OSError, StorageError) as error:
            code = broker.replicas.read_failed(TopicPartition(name or "", key.partition), error)
            answer = failed(key.partition, code)
            reading.has_error = True
        reading.answers.append((wanted, answer))


def _error_for_client(broker: Broker, name: TopicPartition, wanted: WantedPartition, code: ErrorCode) -> ErrorCode:
    """Replace OFFSET_OUT_OF_RANGE by NOT_LEADER_OR_FOLLOWER if another broker may have the offset.

    A client resets its position at OFFSET_OUT_OF_RANGE. Only a leader whose session lease holds knows that no offset
    beyond its log end exists: a follower may lag, and an isolated leader may have been replaced.
    """
    if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
        return code
    partition = broker.replicas.partitions.get(name)
    if partition is None or partition.replica_count == 1 or wanted.fetch_offset < partition.log.log_start_offset:
        return code
    if partition.leader_replica is None or broker.lease is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return code if broker.lease.holds(asyncio.get_running_loop().time()) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _read(
    partition: Partition,
    wanted: WantedPartition,
    answer: PartitionData,
    left: int,
    committed_only: bool,
    *,
    first: bool,
) -> bool:
    """Fill the answer. Return True if no data is available until the partition changes."""
    log = partition.log
    _fill_offsets(partition, answer)
    answer.aborted_transactions = [] if committed_only else None
    if wanted.last_fetched_epoch >= 0:
        epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
            # The end of the reader's last epoch is unknown.
            raise ApiException(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return False
    visible = log.last_stable_offset if committed_only else log.high_watermark
    if wanted.fetch_offset == visible or (left <= 0 and not first):
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            raise ApiException(ErrorCode.OFFSET_OUT_OF_RANGE)
        return wanted.fetch_offset == visible and wanted.last_fetched_epoch < 0
    fetched = log.read(
        wanted.fetch_offset,
        min(wanted.max_bytes, max(left, 0)),
        max_offset=visible,
        min_one_message=first,
        committed_only=committed_only,
    )
    answer.records = fetched.records
    if committed_only:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in fetched.aborted_transactions or ()
        ]
    return False


def _fill_offsets(partition: Partition, answer: PartitionData) -> None:
    log = partition.log
    answer.log_start_offset = log.log_start_offset
    answer.last_stable_offset = log.last_stable_offset
    answer.high_watermark = log.high_watermark


def _refused(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """Return the same error for every partition named in the request."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=p.partition, error_code=code, high_watermark=-1, records=b"")
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
