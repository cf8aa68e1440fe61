"""The share session of a member with one node: which partitions it fetches from there, in which epoch.

Requests of a session have consecutive epochs, so one is in flight at a time. The first one has epoch 0 and names all
partitions; later ones name those that were added or forgotten. A session ends with its connection: the node releases
all records that the member has acquired there. The epoch after a lost session is 0 again.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby

from barnabas.clients.membership.acknowledgements import (
    Acknowledgements,
    AcknowledgeType,
    TopicIdPartition,
    acknowledged_ranges,
)
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages import share_acknowledge, share_fetch
from barnabas.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from barnabas.protocol.messages.share_fetch import ShareFetchRequest

__all__ = ["AcquireMode", "FetchLimits", "ShareSession"]

_NEW = 0
_FINAL = -1
_EPOCH_MAX = 2**31 - 1
_LOST = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class AcquireMode(IntEnum):
    """``share.acquire.mode`` (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """A node acquires whole batches, which may be more records than the limit."""
    RECORD_LIMIT = 1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_records: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    mode: AcquireMode


class ShareSession:
    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._epoch = _NEW
        self._partitions: frozenset[TopicIdPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        return self._epoch != _NEW

    def fetch(self, wanted: Set[TopicIdPartition], limits: FetchLimits) -> ShareFetchRequest:
        """Return a request for records of these partitions."""
        added, forgotten = wanted - self._partitions, self._partitions - wanted
        self._partitions = frozenset(wanted)
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.max_records,
            share_acquire_mode=limits.mode,
            topics=[
                share_fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_fetch.FetchPartition(partition_index=partition.partition) for partition in partitions
                    ],
                )
                for topic_id, partitions in _by_topic(added)
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(
                    topic_id=topic_id, partitions=[partition.partition for partition in partitions]
                )
                for topic_id, partitions in _by_topic(forgotten)
            ],
        )

    def acknowledge(self, acknowledgements: Acknowledgements) -> ShareAcknowledgeRequest:
        """Return a request that only acknowledges."""
        return self._acknowledge(acknowledgements, self._epoch)

    def close(self, acknowledgements: Acknowledgements) -> ShareAcknowledgeRequest:
        """Return the last request of an open session. The node then releases what is not acknowledged."""
        return self._acknowledge(acknowledgements, _FINAL)

    def _acknowledge(self, acknowledgements: Acknowledgements, epoch: int) -> ShareAcknowledgeRequest:
        types = {type_ for offsets in acknowledgements.values() for type_ in offsets.values()}
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            is_renew_ack=AcknowledgeType.RENEW in types,
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=partition.partition,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[type_]
                                )
                                for first, last, type_ in acknowledged_ranges(acknowledgements[partition])
                            ],
                        )
                        for partition in partitions
                    ],
                )
                for topic_id, partitions in _by_topic(acknowledgements)
            ],
        )

    def answered(self, error_code: int) -> bool:
        """Take the error of a whole answer. Return False if the session is lost."""
        if error_code in _LOST:
            self.lost()
            return False
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def lost(self) -> None:
        """No answer arrived, or the connection ended."""
        self._epoch = _NEW
        self._partitions = frozenset()


def _by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[Uuid, list[TopicIdPartition]]]:
    return [
        (topic_id, list(of_topic))
        for topic_id, of_topic in groupby(sorted(partitions), lambda partition: partition.topic_id)
    ]
