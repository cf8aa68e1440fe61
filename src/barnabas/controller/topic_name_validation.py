"""Validates the names of new topics."""

from __future__ import annotations

from typing import Final

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import topic_name_problem
from barnabas.metadata.image.topics import TopicsImage

__all__ = ["CLUSTER_METADATA_TOPIC", "validate_new_topic_name", "validate_topic_name"]

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"


def validate_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION with Kafka's reason."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def validate_new_topic_name(name: str, topics: TopicsImage) -> None:
    """Also refuse a name that collides with an existing topic's in metrics."""
    validate_topic_name(name)
    for other in topics.names_colliding_with(name):
        if other != name:
            raise ApiException(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )
