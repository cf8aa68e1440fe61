"""The requests that a persister sends to other brokers, and the results in their responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import (
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateBatch,
    StateInitialization,
    StateOutcome,
    StateWrite,
)
from barnabas.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

__all__ = [
    "deletions",
    "initializations",
    "outcomes",
    "reads",
    "states",
    "summaries",
    "summary_reads",
    "writes",
]

A = TypeVar("A")
_Calls = Sequence[tuple[SharePartitionKey, A]]
"""Share-partitions of one group."""


def _by_topic(calls: _Calls[A]) -> Iterable[tuple[Uuid, list[tuple[int, A]]]]:
    topics: dict[Uuid, list[tuple[int, A]]] = {}
    for key, argument in calls:
        topics.setdefault(key.topic_id, []).append((key.partition, argument))
    return topics.items()


def initializations(
    group_id: str, calls: _Calls[StateInitialization]
) -> initialize_share_group_state.InitializeShareGroupStateRequest:
    return initialize_share_group_state.InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            initialize_share_group_state.InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    initialize_share_group_state.PartitionData(
                        partition=partition, state_epoch=wanted.state_epoch, start_offset=wanted.start_offset
                    )
                    for partition, wanted in partitions
                ],
            )
            for topic_id, partitions in _by_topic(calls)
        ],
    )


def reads(group_id: str, calls: _Calls[int]) -> read_share_group_state.ReadShareGroupStateRequest:
    return read_share_group_state.ReadShareGroupStateRequest(
        group_id=group_id,
        topics=[
            read_share_group_state.ReadStateData(
                topic_id=topic_id,
                partitions=[
                    read_share_group_state.PartitionData(partition=partition, leader_epoch=leader_epoch)
                    for partition, leader_epoch in partitions
                ],
            )
            for topic_id, partitions in _by_topic(calls)
        ],
    )


def writes(group_id: str, calls: _Calls[StateWrite]) -> write_share_group_state.WriteShareGroupStateRequest:
    return write_share_group_state.WriteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            write_share_group_state.WriteStateData(
                topic_id=topic_id, partitions=[_written(partition, write) for partition, write in partitions]
            )
            for topic_id, partitions in _by_topic(calls)
        ],
    )


def _written(partition: int, write: StateWrite) -> write_share_group_state.PartitionData:
    return write_share_group_state.PartitionData(
        partition=partition,
        state_epoch=write.state_epoch,
        leader_epoch=write.leader_epoch,
        start_offset=write.start_offset,
        delivery_complete_count=write.delivery_complete_count,
        state_batches=[
            write_share_group_state.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in write.batches
        ],
    )


def deletions(group_id: str, calls: _Calls[None]) -> delete_share_group_state.DeleteShareGroupStateRequest:
    return delete_share_group_state.DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            delete_share_group_state.DeleteStateData(
                topic_id=topic_id,
                partitions=[delete_share_group_state.PartitionData(partition=partition) for partition, _ in partitions],
            )
            for topic_id, partitions in _by_topic(calls)
        ],
    )


def summary_reads(
    group_id: str, calls: _Calls[int]
) -> read_share_group_state_summary.ReadShareGroupStateSummaryRequest:
    return read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            read_share_group_state_summary.ReadStateSummaryData(
                topic_id=topic_id,
                partitions=[
                    read_share_group_state_summary.PartitionData(partition=partition, leader_epoch=leader_epoch)
                    for partition, leader_epoch in partitions
                ],
            )
            for topic_id, partitions in _by_topic(calls)
        ],
    )


def outcomes(
    response: (
        initialize_share_group_state.InitializeShareGroupStateResponse
        | write_share_group_state.WriteShareGroupStateResponse
        | delete_share_group_state.DeleteShareGroupStateResponse
    ),
) -> Iterator[tuple[Uuid, int, StateOutcome]]:
    for topic in response.results:
        for partition in topic.partitions:
            yield topic.topic_id, partition.partition, StateOutcome(partition.error_code, partition.error_message)


def states(
    response: read_share_group_state.ReadShareGroupStateResponse,
) -> Iterator[tuple[Uuid, int, SharePartitionState]]:
    for topic in response.results:
        for partition in topic.partitions:
            batches = tuple(
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in partition.state_batches
            )
            state = SharePartitionState(
                partition.error_code,
                partition.error_message,
                partition.state_epoch,
                partition.start_offset,
                batches,
            )
            yield topic.topic_id, partition.partition, state


def summaries(
    response: read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
) -> Iterator[tuple[Uuid, int, SharePartitionSummary]]:
    for topic in response.results:
        for partition in topic.partitions:
            summary = SharePartitionSummary(
                partition.error_code,
                partition.error_message,
                partition.state_epoch,
                partition.leader_epoch,
                partition.start_offset,
                partition.delivery_complete_count,
            )
            yield topic.topic_id, partition.partition, summary
