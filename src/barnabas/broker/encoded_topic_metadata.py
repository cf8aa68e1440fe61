"""Encodes a topic's part of a Metadata answer once, and caches it with the topic's value in the image.

Only the authorized-operations mask differs between callers. It is the last field, so the cached bytes end before it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.common.errors import ErrorCode
from barnabas.protocol.compiler import encode_struct
from barnabas.protocol.compiler_runtime import compact_length
from barnabas.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.metadata.image.partition_registration import PartitionRegistration
    from barnabas.metadata.image.topics import TopicImage
    from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic

    IndexedPartition = tuple[int, PartitionRegistration]

__all__ = [
    "NO_OPERATIONS",
    "PARTITIONS_A_STEP",
    "metadata_partitions",
    "segment_in_steps",
    "kept_segment",
    "topic_tail",
    "with_partitions",
]

NO_OPERATIONS = -2147483648
"""The mask of a caller that did not request its operations (KIP-430)."""

PARTITIONS_A_STEP: Final = 400
"""About 10 ms."""
_FLEXIBLE_SINCE = 9
_OPERATIONS_SINCE = 8
_MASK = Struct(">i")
_LISTENER_ERROR_SINCE = 6


def kept_segment(metadata: MetadataCache, topic: TopicImage, listener_name: str, version: int) -> bytes | None:
    """Return the cached result of ``segment_in_steps`` for the same topic, if nothing has changed since."""
    memo = topic.memo
    if memo is None or memo[0] != (version, listener_name, metadata.liveness):
        return None
    segment: bytes = memo[1]
    return segment


def segment_in_steps(
    metadata: MetadataCache, topic: TopicImage, listener_name: str, version: int
) -> Generator[None, None, bytes]:
    """Return the encoded entry without its end, from the operations mask on (``topic_tail``), and cache it.

    The entry describes the metadata at the time of the call. A step encodes ``PARTITIONS_A_STEP`` partitions.
    """
    key = (version, listener_name, metadata.liveness)
    segment = yield from _encode(metadata, topic, listener_name, version)
    topic.memo = (key, segment)
    return segment


def topic_tail(mask: int, version: int) -> bytes:
    if version < _OPERATIONS_SINCE:
        return b""
    return _MASK.pack(mask) + b"\0" if version >= _FLEXIBLE_SINCE else _MASK.pack(mask)


def _encode(
    metadata: MetadataCache, topic: TopicImage, listener_name: str, version: int
) -> Generator[None, None, bytes]:
    entry = MetadataResponseTopic(
        name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS, partitions=[]
    )
    partitions = sorted(topic.partitions.items())
    moment = metadata if len(partitions) <= PARTITIONS_A_STEP else metadata.at_this_moment()

    def describe(some: Sequence[IndexedPartition]) -> list[MetadataResponsePartition]:
        return metadata_partitions(moment, some, listener_name, version)

    is_flexible = version >= _FLEXIBLE_SINCE
    tail_size = len(topic_tail(NO_OPERATIONS, version))
    return (yield from with_partitions(entry, version, partitions, describe, is_flexible, tail_size))


def with_partitions(
    entry: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
    version: int,
    partitions: Sequence[IndexedPartition],
    describe: Callable[[Sequence[IndexedPartition]], list[Any]],
    is_flexible: bool,
    tail_size: int,
) -> Generator[None, None, bytes]:
    """Return the encoded entry of a topic, without its tail. It ends with its list of partitions, still empty."""
    count = len(partitions)
    if count <= PARTITIONS_A_STEP:
        entry.partitions = describe(partitions)
        encoded = encode_struct(entry, version, flexible=is_flexible)
        return encoded[: len(encoded) - tail_size]
    encoded = encode_struct(entry, version, flexible=is_flexible)
    length, length_size = (compact_length(count + 1), 1) if is_flexible else (count.to_bytes(4, "big"), 4)
    chunks = [encoded[: len(encoded) - tail_size - length_size], length]
    for start in range(0, count, PARTITIONS_A_STEP):
        if start:
            yield
        described = describe(partitions[start : start + PARTITIONS_A_STEP])
        chunks += [encode_struct(partition, version, flexible=is_flexible) for partition in described]
    return b"".join(chunks)


def metadata_partitions(
    metadata: MetadataCache, partitions: Iterable[IndexedPartition], listener_name: str, version: int
) -> list[MetadataResponsePartition]:
    described = []
    for index, registration in partitions:
        reachable = metadata.endpoint(registration.leader, listener_name) is not None
        error = ErrorCode.NONE
        if not reachable:
            is_alive = metadata.is_alive(registration.leader) and version >= _LISTENER_ERROR_SINCE
            error = ErrorCode.LISTENER_NOT_FOUND if is_alive else ErrorCode.LEADER_NOT_AVAILABLE
        described.append(
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
    return described
