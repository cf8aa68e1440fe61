"""The partitions of one broker, found by scanning all topics."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.topics import TopicImage, TopicsImage
from barnabas.metadata.persistent_map import in_order


def partitions_on(topics: TopicsImage, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    """Return each partition with the broker among its replicas or eligible leaders, in the order of the controller."""
    topic_ids = topics.by_broker.get(broker_id)
    for topic_id in () if topic_ids is None else in_order(topic_ids):
        topic = topics.by_id[topic_id]
        for partition_id, partition in sorted(topic.partitions.items()):
            if broker_id in partition.replicas or broker_id in partition.elr:
                yield topic, partition_id, partition
