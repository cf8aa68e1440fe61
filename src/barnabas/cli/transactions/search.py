"""Find open transactions in partitions, and those that no coordinator will end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Problem
from barnabas.cli.output.progress import in_steps
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, ProducerState

__all__ = ["PRODUCERS", "open_transactions", "transaction_at", "unknown_to_coordinators"]

PRODUCERS = "READ on Topic:{item}"
"""The right that is needed to see the producers of a topic."""

_STEP = 500


async def open_transactions(
    admin: AdminClient, partitions: Sequence[TopicPartition], before_ms: int
) -> tuple[list[tuple[TopicPartition, ProducerState]], list[Problem]]:
    """Return open transactions without new records since that time."""
    found = []
    problems: list[Problem] = []
    for part in in_steps(partitions, _STEP, "reading partitions"):
        results = await admin.describe_producers(part)
        problems += [
            problem
            for partition, error in results.errors.items()
            for problem in problems_of({partition: error}, right=PRODUCERS.replace("{item}", partition.topic))
        ]
        found += [
            (partition, producer)
            for partition, producers in results.values.items()
            for producer in producers
            if producer.transaction_start_offset is not None and (producer.last_timestamp_ms or 0) <= before_ms
        ]
    return found, problems


async def unknown_to_coordinators(
    admin: AdminClient, candidates: Sequence[tuple[TopicPartition, ProducerState]]
) -> list[tuple[TopicPartition, ProducerState]]:
    """Return transactions whose producer no coordinator knows, or whose coordinator does not list the partition.

    Raise AdminError, because only the responses of all coordinators prove that a transaction hangs.
    """
    if not candidates:
        return []
    ids = {producer.producer_id for _, producer in candidates}
    listed = (await admin.list_transactions(producer_ids=sorted(ids))).raise_for_errors()
    by_producer = {listing.producer_id: listing.transactional_id for listing in listed}
    described = await admin.describe_transactions(list(by_producer.values()))
    for error in described.errors.values():
        if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise error
    hanging = []
    for partition, producer in candidates:
        transaction = described.values.get(by_producer.get(producer.producer_id, ""))
        if transaction is None or partition not in transaction.partitions:
            hanging.append((partition, producer))
    return sorted(hanging, key=lambda candidate: (candidate[0], candidate[1].transaction_start_offset))


async def transaction_at(admin: AdminClient, partition: TopicPartition, offset: int) -> ProducerState | Problem:
    """Return the open transaction that starts at the offset, or a problem. Raise AdminError."""
    producers = (await admin.describe_producers([partition]))[partition]
    starts = {
        producer.transaction_start_offset: producer
        for producer in producers
        if producer.transaction_start_offset is not None
    }
    if offset in starts:
        return starts[offset]
    there = (
        f"open transactions start at {', '.join(map(str, sorted(starts)))}"
        if starts
        else "no transaction is open in this partition"
    )
    return Problem(f"no open transaction starts at {offset}", str(partition), advice=there)
