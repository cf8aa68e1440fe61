"""Builds the requests that create Kafka's internal topics when a request first needs them.

They do not affect an explicit CreateTopics: as in Kafka, it creates the topic that the caller describes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.topic_name import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["InternalTopic", "internal_topics"]


class InternalTopic(NamedTuple):
    """The configs of an internal topic that come from a node's settings."""

    num_partitions: int = 50
    replication_factor: int = 3
    segment_bytes: int = 104857600
    min_insync_replicas: int | None = None
    """None: the default of topics."""


_CONFIGS: dict[str, dict[str, str]] = {
    GROUP_METADATA_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_STATE_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    # The share coordinator deletes records itself, up to the oldest offset that a group still needs.
    SHARE_STATE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
}


def internal_topics(shapes: Mapping[str, InternalTopic]) -> dict[str, CreatableTopic]:
    """Return the request of each internal topic by name; ``shapes`` replace Kafka's defaults."""
    return {name: _creatable(name, shapes.get(name, InternalTopic())) for name in _CONFIGS}


def _creatable(name: str, shape: InternalTopic) -> CreatableTopic:
    configs = {**_CONFIGS[name], "segment.bytes": str(shape.segment_bytes)}
    if shape.min_insync_replicas is not None:
        configs["min.insync.replicas"] = str(shape.min_insync_replicas)
    return CreatableTopic(
        name=name,
        num_partitions=shape.num_partitions,
        replication_factor=shape.replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
