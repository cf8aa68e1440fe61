"""Requests of a producer while the markers of its last transaction can't be written: the partition's leader hangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.interop.raw_client import RawClient

__all__ = ["HeldTransaction", "probe"]

EPOCHS = range(-1, 3)
"""Relative to the epoch in which the transaction was written."""
_OTHER_ID = 1_000_000


class HeldTransaction(NamedTuple):
    """A transaction whose end is decided, and whose markers are not written."""

    transactional_id: str
    producer_id: int
    epoch: int
    topic: str
    partition: int
    group: str

    def identities(self) -> Iterator[tuple[str, int, int]]:
        """Yield a name, a producer id and an epoch, present ones and others."""
        for change in EPOCHS:
            yield f"epoch {change:+d}", self.producer_id, self.epoch + change
        yield "another id", self.producer_id + _OTHER_ID, self.epoch


def probe(client: RawClient, held: HeldTransaction) -> dict[str, str]:
    """Return the coordinator's error for each request. None of them changes the transaction."""
    answers: dict[str, str] = {}
    for who, producer_id, epoch in held.identities():
        for version in (3, 4, 5):
            for is_commit in (True, False):
                request = EndTxnRequest(
                    transactional_id=held.transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    committed=is_commit,
                )
                outcome = "commit" if is_commit else "abort"
                answers[f"{outcome} v{version}, {who}"] = _name(client.call(request, version).error_code)
        answers[f"add, {who}"] = _name(_added(client, held, producer_id, epoch))
        answers[f"add for broker, {who}"] = _name(_added_for_broker(client, held, producer_id, epoch))
        offsets = AddOffsetsToTxnRequest(
            transactional_id=held.transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=held.group
        )
        answers[f"add offsets, {who}"] = _name(client.call(offsets, 4).error_code)
        answers[f"initialize, {who}"] = _name(_initialized(client, held, producer_id, epoch))
    answers["initialize"] = _name(_initialized(client, held, -1, -1))
    return answers


def _name(code: int) -> str:
    return ErrorCode(code).name


def _added(client: RawClient, held: HeldTransaction, producer_id: int, epoch: int) -> int:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=held.transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=held.topic, partitions=[held.partition])],
    )
    (topic,) = client.call(request, 3).results_by_topic_v3_and_below
    code: int = topic.results_by_partition[0].partition_error_code
    return code


def _added_for_broker(client: RawClient, held: HeldTransaction, producer_id: int, epoch: int) -> int:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=held.transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[AddPartitionsToTxnTopic(name=held.topic, partitions=[held.partition])],
    )
    answer: Any = client.call(AddPartitionsToTxnRequest(transactions=[transaction]), 5)
    code: int = answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
    return code


def _initialized(client: RawClient, held: HeldTransaction, producer_id: int, epoch: int) -> int:
    request = InitProducerIdRequest(
        transactional_id=held.transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    code: int = client.call(request, 5).error_code
    return code
