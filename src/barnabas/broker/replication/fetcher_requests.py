"""The partitions of a fetcher as its requests name them: by topic, each topic once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.replication.fetcher_partitions import FetchedPartition, PartitionKey
    from barnabas.common.uuid import Uuid

__all__ = ["forgotten_topics", "topics_to_fetch", "topics_to_locate"]


def topics_to_fetch(partitions: Iterable[FetchedPartition], max_bytes: int) -> list[FetchTopic]:
    topics: dict[Uuid, FetchTopic] = {}
    for partition in partitions:
        topic = topics.get(partition.key.topic_id)
        if topic is None:
            topic = topics[partition.key.topic_id] = FetchTopic(topic_id=partition.key.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=partition.key.partition,
                current_leader_epoch=partition.leader_epoch,
                fetch_offset=partition.fetch_offset,
                last_fetched_epoch=partition.last_fetched_epoch,
                log_start_offset=partition.sent_log_start_offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def forgotten_topics(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[Uuid, ForgottenTopic] = {}
    for topic_id, partition in keys:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(topic_id=topic_id)
        topic.partitions.append(partition)
    return list(topics.values())


def topics_to_locate(partitions: Iterable[FetchedPartition], timestamp: int) -> list[ListOffsetsTopic]:
    topics: dict[str, ListOffsetsTopic] = {}
    for partition in partitions:
        name, number = partition.replica.topic_partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ListOffsetsTopic(name=name)
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=number, current_leader_epoch=partition.leader_epoch, timestamp=timestamp
            )
        )
    return list(topics.values())
