"""A topic's part of a Metadata answer, encoded once and kept with the topic's value in the image.

Only the authorized-operations mask differs between callers: it is the last field, so the kept bytes end before it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.common.errors import ErrorCode
from barnabas.protocol.compiler import encode_struct
from barnabas.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.metadata.image.topics import TopicImage

__all__ = ["NO_OPERATIONS", "metadata_partitions", "topic_segment", "topic_tail"]

NO_OPERATIONS = -2147483648
"""The caller did not ask for its operations (KIP-430)."""

_FLEXIBLE_SINCE = 9
_OPERATIONS_SINCE = 8
_MASK = Struct(">i")
_LISTENER_ERROR_SINCE = 6


def topic_segment(metadata: MetadataCache, topic: TopicImage, listener_name: str, version: int) -> bytes:
    """The encoded entry without its operations mask and what follows; see ``topic_tail``."""
    key = (version, listener_name, metadata.liveness)
    memo = topic.memo
    if memo is None or memo[0] != key:
        memo = topic.memo = (key, _encode(metadata, topic, listener_name, version))
    segment: bytes = memo[1]
    return segment


def topic_tail(mask: int, version: int) -> bytes:
    if version < _OPERATIONS_SINCE:
        return b""
    return _MASK.pack(mask) + b"\0" if version >= _FLEXIBLE_SINCE else _MASK.pack(mask)


def _encode(metadata: MetadataCache, topic: TopicImage, listener_name: str, version: int) -> bytes:
    entry = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=metadata_partitions(metadata, topic, listener_name, version),
    )
    encoded = encode_struct(entry, version, flexible=version >= _FLEXIBLE_SINCE)
    tail = len(topic_tail(NO_OPERATIONS, version))
    return encoded[:-tail] if tail else encoded


def metadata_partitions(
    metadata: MetadataCache, topic: TopicImage, listener_name: str, version: int
) -> list[MetadataResponsePartition]:
    partitions = []
    for index, registration in sorted(topic.partitions.items()):
        reachable = metadata.endpoint(registration.leader, listener_name) is not None
        error = ErrorCode.NONE
        if not reachable:
            is_alive = metadata.is_alive(registration.leader) and version >= _LISTENER_ERROR_SINCE
            error = ErrorCode.LISTENER_NOT_FOUND if is_alive else ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=registration.leader if reachable else -1,
                leader_epoch=registration.leader_epoch,
                replica_nodes=list(registration.replicas),
                isr_nodes=list(registration.isr),
                offline_replicas=[
                    replica
                    for replica, directory in zip(registration.replicas, registration.directories, strict=True)
                    if metadata.endpoint(replica, listener_name) is None
                    or not metadata.image.cluster.brokers[replica].has_online_directory(directory)
                ],
            )
        )
    return partitions
