"""Verifies the partitions of a produce request in a transaction (KIP-890), before anything is appended.

A partition that already has records of the producer's open transaction needs no question to the coordinator. Between
the answer and the append, a marker may end the transaction: ``TransactionGuard`` notices. A marker that arrives before
the answer may belong to the producer's previous transaction, so the coordinator is asked again: ``renew_guards``.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.storage.batch_header import HEADER, HEADER_SIZE, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition
    from barnabas.network.api_handler import Access
    from barnabas.protocol.messages.produce import ProduceRequest
    from barnabas.storage.producer_state import ProducerEntry

__all__ = ["TransactionGuard", "guard_producer", "renew_guards", "verification_error", "verify_partitions"]

_ABORTABLE_SINCE = 11
_ADDS_SINCE = 12
"""The version of clients that leave it to the broker to add a partition to their transaction."""
_TOPIC_IDS_SINCE = 13
_MAGIC = 2
_RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_REPEATED = _RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS}
"""After these errors a producer sends its batch again. The verification is kept: no later batch may overtake it."""


class Verification:
    """A producer that is verified, or is being verified, before the first batch of its transaction is appended."""

    __slots__ = ("epoch", "is_v2", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, is_v2: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        """Of the batches seen in this epoch: a later batch must not be appended before one that is sent again."""
        self.is_v2 = is_v2

    def sees(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class TransactionGuard(NamedTuple):
    """Shows whether a marker was written since the verification of a producer began."""

    partition: Partition
    producer: ProducerIdAndEpoch
    sequence: int = -1
    verification: Verification | None = None
    """None: the partition had records of the producer's open transaction, so no verification was needed."""

    @property
    def producer_id(self) -> int:
        return self.producer.producer_id

    def check(self) -> None:
        """Raise INVALID_TXN_STATE after a marker, OUT_OF_ORDER_SEQUENCE_NUMBER before an earlier batch."""
        if _is_ongoing(self.partition, self.producer):
            return
        if self.verification is None or not self._is_pending:
            raise ApiException(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction: it ended meanwhile."
            )
        is_unknown = _entry_of(self.partition, self.producer_id) is None
        lowest = 0 if self.verification.is_v2 and is_unknown else self.verification.lowest_sequence
        if self.sequence > lowest:
            raise ApiException(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {self.producer_id} in {self.partition.topic_partition}: "
                f"{self.sequence} (incoming seq. number), {lowest} (earliest seen sequence)",
            )

    @property
    def has_lapsed(self) -> bool:
        """Whether a marker was written, and no record of a transaction after it."""
        return not _is_ongoing(self.partition, self.producer) and not self._is_pending

    def done(self) -> None:
        """End the verification: the partition now knows the transaction itself."""
        verified = self.partition.verified_producers
        if verified and self._is_pending:
            del verified[self.producer_id]

    @property
    def _is_pending(self) -> bool:
        verified = self.partition.verified_producers or {}
        return self.verification is not None and verified.get(self.producer_id) is self.verification


def guard_producer(
    partition: Partition, producer: ProducerIdAndEpoch, sequence: int = -1, *, is_v2: bool
) -> TransactionGuard:
    """Begin a verification. Raise INVALID_PRODUCER_EPOCH if the partition has seen a later producer."""
    producer_id, epoch = producer
    entry = _entry_of(partition, producer_id)
    if entry is not None and epoch < entry.epoch:
        raise ApiException(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {entry.epoch}",
        )
    if partition.verified_producers is None:
        partition.verified_producers = {}
    known = partition.verified_producers.get(producer_id)
    if known is None:
        known = partition.verified_producers[producer_id] = Verification(epoch, sequence, is_v2=is_v2)
    else:
        known.sees(epoch, sequence)
    return TransactionGuard(partition, producer, sequence, known)


def renew_guards(guards: dict[TopicPartition, TransactionGuard], partitions: Sequence[TopicPartition]) -> bool:
    """Begin the lapsed verifications of a client of version 2 again. Return whether any was.

    Those of which the partition has seen a later producer remain lapsed.
    """
    is_renewed = False
    for topic_partition in partitions:
        guard = guards[topic_partition]
        if guard.has_lapsed:
            with suppress(ApiException):
                guards[topic_partition] = guard_producer(guard.partition, guard.producer, guard.sequence, is_v2=True)
                is_renewed = True
    return is_renewed


async def verify_partitions(
    broker: Broker,
    request: ProduceRequest,
    version: int,
    verified: dict[TopicPartition, TransactionGuard],
    access: Access,
) -> dict[TopicPartition, ApiException]:
    """Return the partitions that the producer may not write to, with their errors. Put the others into ``verified``.

    Partitions that the request may not write to for another reason are left out.
    """
    by_producer: dict[ProducerIdAndEpoch, list[TopicPartition]] = {}
    refused: dict[TopicPartition, ApiException] = {}
    is_v2 = version >= _ADDS_SINCE
    for topic_partition, producer, sequence in _transactional_batches(broker, request, version):
        partition = _led(broker, topic_partition)
        if partition is None:
            continue
        if _is_ongoing(partition, producer):
            verified[topic_partition] = TransactionGuard(partition, producer)
            continue
        if not access.allows(
            ResourceType.TOPIC, AclOperation.WRITE, topic_partition.topic, log_if_allowed=False, log_if_denied=False
        ):
            continue
        try:
            verified[topic_partition] = guard_producer(partition, producer, sequence, is_v2=is_v2)
        except ApiException as error:
            refused[topic_partition] = error
            continue
        by_producer.setdefault(producer, []).append(topic_partition)
    for producer, partitions in by_producer.items():
        codes = await broker.transactions.verifier.verify(
            request.transactional_id or "",
            producer,
            partitions,
            renew=partial(renew_guards, verified, partitions) if is_v2 else None,
            has_abortable_error=version >= _ABORTABLE_SINCE,
        )
        for topic_partition, code in codes.items():
            if code is not ErrorCode.NONE:
                refused[topic_partition] = verification_error(code, adds=is_v2)
                if code not in _REPEATED:
                    verified.pop(topic_partition).done()
    return refused


def verification_error(code: ErrorCode, *, adds: bool) -> ApiException:
    """Return the error for a producer, which repeats a request after NOT_ENOUGH_REPLICAS."""
    if code in _RETRIABLE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return ApiException(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return ApiException(code)


def _transactional_batches(
    broker: Broker, request: ProduceRequest, version: int
) -> Iterator[tuple[TopicPartition, ProducerIdAndEpoch, int]]:
    for topic in request.topic_data:
        name = broker.replicas.topic_name(topic.topic_id) if version >= _TOPIC_IDS_SINCE else topic.name
        if name is None:
            continue
        for data in topic.partition_data:
            if data.records is None or len(data.records) < HEADER_SIZE:
                continue
            header = HEADER.unpack_from(data.records)
            if header[3] == _MAGIC and header[5] & TRANSACTIONAL_FLAG and header[9] >= 0:
                yield TopicPartition(name, data.index), ProducerIdAndEpoch(header[9], header[10]), header[11]


def _led(broker: Broker, topic_partition: TopicPartition) -> Partition | None:
    try:
        return broker.replicas.leader_of(topic_partition)
    except ApiException:
        return None


def _is_ongoing(partition: Partition, producer: ProducerIdAndEpoch) -> bool:
    entry = _entry_of(partition, producer.producer_id)
    return entry is not None and entry.epoch == producer.epoch and entry.current_txn_first_offset >= 0


def _entry_of(partition: Partition, producer_id: int) -> ProducerEntry | None:
    log = partition.log_or_none
    return log.producers.producers.get(producer_id) if log is not None and log.has_producers else None
