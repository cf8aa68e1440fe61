"""The requests that a persister sends to other brokers, and the results in their responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

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
Q = TypeVar("Q")
_Calls = Sequence[tuple[SharePartitionKey, A]]
"""Share-partitions of one group."""


def _requests(
    request: Callable[..., Q],
    topic: Callable[..., Any],
    partition: Callable[..., Any],
    fields: Callable[[A], dict[str, Any]],
) -> Callable[[str, _Calls[A]], Q]:
    """Return a function that builds the request for a group and its share-partitions, with the fields of each."""

    def build(group_id: str, calls: _Calls[A]) -> Q:
        topics: dict[Uuid, list[Any]] = {}
        for key, argument in calls:
            topics.setdefault(key.topic_id, []).append(partition(partition=key.partition, **fields(argument)))
        return request(
            group_id=group_id,
            topics=[topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        )

    return build


def _written(write: StateWrite) -> dict[str, Any]:
    fields = write._asdict()
    batches = fields.pop("batches")
    return {**fields, "state_batches": [write_share_group_state.StateBatch(**batch._asdict()) for batch in batches]}


def _leader_epoch(leader_epoch: int) -> dict[str, Any]:
    return {"leader_epoch": leader_epoch}


def _no_fields(_: None) -> dict[str, Any]:
    return {}


initializations = _requests(
    initialize_share_group_state.InitializeShareGroupStateRequest,
    initialize_share_group_state.InitializeStateData,
    initialize_share_group_state.PartitionData,
    StateInitialization._asdict,
)
reads = _requests(
    read_share_group_state.ReadShareGroupStateRequest,
    read_share_group_state.ReadStateData,
    read_share_group_state.PartitionData,
    _leader_epoch,
)
writes = _requests(
    write_share_group_state.WriteShareGroupStateRequest,
    write_share_group_state.WriteStateData,
    write_share_group_state.PartitionData,
    _written,
)
deletions = _requests(
    delete_share_group_state.DeleteShareGroupStateRequest,
    delete_share_group_state.DeleteStateData,
    delete_share_group_state.PartitionData,
    _no_fields,
)
summary_reads = _requests(
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary.ReadStateSummaryData,
    read_share_group_state_summary.PartitionData,
    _leader_epoch,
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
