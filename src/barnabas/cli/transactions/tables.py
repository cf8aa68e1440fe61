"""Tables and documents of ``barnabas transactions``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.output.moment import moment
from barnabas.cli.output.table import Sheet
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import ProducerState, TransactionDescription

__all__ = ["described_document", "described_sheet", "hanging_sheet", "number", "producer_document"]

_NONE = "-"


def described_sheet(rows: Sequence[TransactionDescription], now_ms: int) -> Sheet:
    sheet = Sheet(
        columns=("transactional id", "coordinator", "producer id", "epoch", "state", "since", "time-out", "partitions")
    )
    for transaction in rows:
        since = _NONE if transaction.start_time_ms is None else f"{(now_ms - transaction.start_time_ms) / 1000:.0f} s"
        sheet.add(
            transaction.transactional_id, str(transaction.coordinator_id), str(transaction.producer_id),
            str(transaction.producer_epoch), transaction.state, since, f"{transaction.timeout_ms / 1000:g} s",
            ", ".join(map(str, transaction.partitions)),
        )  # fmt: skip
    sheet.drop_last_column_if_empty()
    return sheet


def described_document(transaction: TransactionDescription, now_ms: int) -> dict[str, object]:
    return {
        "transactional_id": transaction.transactional_id,
        "coordinator": transaction.coordinator_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "state": transaction.state,
        "timeout_ms": transaction.timeout_ms,
        "start_time_ms": transaction.start_time_ms,
        "duration_ms": None if transaction.start_time_ms is None else now_ms - transaction.start_time_ms,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in transaction.partitions],
    }


def producer_document(producer: ProducerState) -> dict[str, object]:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "start_offset": producer.transaction_start_offset,
    }


def hanging_sheet(hanging: Sequence[tuple[TopicPartition, ProducerState]]) -> Sheet:
    sheet = Sheet(columns=("topic", "partition", "producer id", "epoch", "start offset", "last written"), keep=3)
    for partition, producer in hanging:
        sheet.add(
            partition.topic, str(partition.partition), str(producer.producer_id), str(producer.producer_epoch),
            number(producer.transaction_start_offset), moment(producer.last_timestamp_ms),
        )  # fmt: skip
    return sheet


def number(value: int | None) -> str:
    return _NONE if value is None else str(value)
