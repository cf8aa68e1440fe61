"""Tables and documents of ``barnabas transactions``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from barnabas.cli.output.table import Sheet
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import ProducerState, TransactionDescription

__all__ = ["described_document", "described_sheet", "hanging_sheet", "moment", "number", "producer_document"]

_NONE = "-"


def described_sheet(rows: Sequence[TransactionDescription], now_ms: int) -> Sheet:
    sheet = Sheet(
        columns=("transactional id", "coordinator", "producer id", "epoch", "state", "since", "time-out", "partitions")
    )
    for each in rows:
        since = _NONE if each.start_time_ms is None else f"{(now_ms - each.start_time_ms) / 1000:.0f} s"
        sheet.add(
            each.transactional_id, str(each.coordinator_id), str(each.producer_id), str(each.producer_epoch),
            each.state, since, f"{each.timeout_ms / 1000:g} s", ", ".join(map(str, each.partitions)),
        )  # fmt: skip
    sheet.drop_last_column_if_empty()
    return sheet


def described_document(each: TransactionDescription, now_ms: int) -> dict[str, object]:
    return {
        "transactional_id": each.transactional_id,
        "coordinator": each.coordinator_id,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "timeout_ms": each.timeout_ms,
        "start_time_ms": each.start_time_ms,
        "duration_ms": None if each.start_time_ms is None else now_ms - each.start_time_ms,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in each.partitions],
    }


def producer_document(each: ProducerState) -> dict[str, object]:
    return {
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "coordinator_epoch": each.coordinator_epoch,
        "last_sequence": each.last_sequence,
        "last_timestamp_ms": each.last_timestamp_ms,
        "start_offset": each.transaction_start_offset,
    }


def hanging_sheet(hanging: Sequence[tuple[TopicPartition, ProducerState]]) -> Sheet:
    sheet = Sheet(columns=("topic", "partition", "producer id", "epoch", "start offset", "last written"))
    for partition, each in hanging:
        sheet.add(
            partition.topic, str(partition.partition), str(each.producer_id), str(each.producer_epoch),
            number(each.transaction_start_offset), moment(each.last_timestamp_ms),
        )  # fmt: skip
    return sheet


def number(value: int | None) -> str:
    return _NONE if value is None else str(value)


def moment(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return _NONE
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
