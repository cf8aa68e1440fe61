"""Requests for the offsets of one topic, as a member of a group sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import offset_commit, offset_fetch
from tests.simulation.cluster.consumer_group_shape import DATA_TOPIC

__all__ = ["RETRIED", "code_of_committed", "code_of_fetched", "commit", "committed_offsets", "fetch", "is_commit"]

RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def commit(
    group: str, member_id: str, instance_id: str | None, epoch: int, topic_id: Any, offsets: Mapping[int, int]
) -> Any:
    """``offsets`` are by partition."""
    topic = offset_commit.OffsetCommitRequestTopic(
        name=DATA_TOPIC,
        topic_id=topic_id,
        partitions=[
            offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in offsets.items()
        ],
    )
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[topic],
    )


def is_commit(request: Any) -> bool:
    return isinstance(request, offset_commit.OffsetCommitRequest)


def committed_offsets(request: Any) -> dict[int, int]:
    """Return the offsets by partition."""
    return {partition.partition_index: partition.committed_offset for partition in request.topics[0].partitions}


def code_of_committed(answer: Any) -> ErrorCode:
    codes = [ErrorCode(partition.error_code) for partition in answer.topics[0].partitions]
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)


def fetch(group: str, member_id: str | None, epoch: int, topic_id: Any, indexes: list[int]) -> Any:
    topic = offset_fetch.OffsetFetchRequestTopics(name=DATA_TOPIC, topic_id=topic_id, partition_indexes=indexes)
    wanted = offset_fetch.OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=[topic]
    )
    return offset_fetch.OffsetFetchRequest(groups=[wanted])


def code_of_fetched(group: Any) -> ErrorCode:
    if group.error_code:
        return ErrorCode(group.error_code)
    codes = [ErrorCode(partition.error_code) for partition in group.topics[0].partitions]
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)
