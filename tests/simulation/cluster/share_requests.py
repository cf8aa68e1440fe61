"""The requests of a member of a share group (KIP-932), and the meaning of their errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import (
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from tests.simulation.cluster.share_checks import SharePartition

__all__ = [
    "REMOVED",
    "RETRIED",
    "SESSION_LOST",
    "UNDONE",
    "Acknowledge",
    "Batch",
    "acknowledge",
    "describe_offsets",
    "fetch",
    "heartbeat",
    "partitions_of",
    "start_offsets",
]

FINAL_EPOCH = -1
MAX_WAIT_MS = 120
REMOVED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_MEMBER_ID})
RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors of heartbeats after which a member tries again."""
SESSION_LOST = frozenset({ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_NOT_FOUND})
UNDONE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a partition: nothing was fetched, or it is not known whether something was acknowledged."""


class Acknowledge(IntEnum):
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Batch(NamedTuple):
    """What a member says about consecutive records."""

    first: int
    types: Sequence[Acknowledge]

    @property
    def offsets(self) -> range:
        return range(self.first, self.first + len(self.types))


Acknowledged = Mapping[SharePartition, Sequence[Batch]]


def heartbeat(group: str, member_id: str, epoch: int, topics: Iterable[str] | None) -> Any:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=None if topics is None else sorted(topics),
    )


def describe_offsets(group: str) -> Any:
    wanted = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    return describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[wanted])


def start_offsets(answer: Any) -> dict[SharePartition, int]:
    """Return the start offsets (SPSO) that an answer has."""
    return {
        SharePartition(topic.topic_id, partition.partition_index): partition.start_offset
        for topic in answer.groups[0].topics
        for partition in topic.partitions
        if not partition.error_code and partition.start_offset >= 0
    }


def partitions_of(assignment: Any) -> frozenset[SharePartition]:
    return frozenset(
        SharePartition(topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def fetch(
    group: str,
    member_id: str,
    epoch: int,
    *,
    added: Iterable[SharePartition],
    forgotten: Iterable[SharePartition],
    acknowledged: Acknowledged,
    max_records: int,
    is_strict: bool,
) -> Any:
    named = {partition: [] for partition in added} | {key: list(found) for key, found in acknowledged.items()}
    topics = [
        share_fetch.FetchTopic(
            topic_id=topic_id,
            partitions=[
                share_fetch.FetchPartition(
                    partition_index=partition.partition,
                    acknowledgement_batches=[
                        share_fetch.AcknowledgementBatch(
                            first_offset=batch.first, last_offset=batch.offsets[-1], acknowledge_types=list(batch.types)
                        )
                        for batch in named[partition]
                    ],
                )
                for partition in of_topic
            ],
        )
        for topic_id, of_topic in _by_topic(named).items()
    ]
    return share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member_id,
        share_session_epoch=epoch,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=max_records,
        batch_size=max_records,
        share_acquire_mode=int(is_strict),
        topics=topics,
        forgotten_topics_data=[
            share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[found.partition for found in of_topic])
            for topic_id, of_topic in _by_topic(forgotten).items()
        ],
    )


def acknowledge(group: str, member_id: str, epoch: int, acknowledged: Acknowledged) -> Any:
    """An epoch of ``FINAL_EPOCH`` also ends the session."""
    topics = [
        share_acknowledge.AcknowledgeTopic(
            topic_id=topic_id,
            partitions=[
                share_acknowledge.AcknowledgePartition(
                    partition_index=partition.partition,
                    acknowledgement_batches=[
                        share_acknowledge.AcknowledgementBatch(
                            first_offset=batch.first, last_offset=batch.offsets[-1], acknowledge_types=list(batch.types)
                        )
                        for batch in acknowledged[partition]
                    ],
                )
                for partition in of_topic
            ],
        )
        for topic_id, of_topic in _by_topic(acknowledged).items()
    ]
    is_renewal = any(Acknowledge.RENEW in batch.types for found in acknowledged.values() for batch in found)
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=group, member_id=member_id, share_session_epoch=epoch, is_renew_ack=is_renewal, topics=topics
    )


def _by_topic(partitions: Iterable[SharePartition]) -> dict[Any, list[SharePartition]]:
    found: dict[Any, list[SharePartition]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic_id, []).append(partition)
    return found
