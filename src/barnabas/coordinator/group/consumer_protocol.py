"""Decodes the part of the ``consumer`` embedded protocol that the coordinator needs: the topics a member subscribes
to."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

__all__ = ["PROTOCOL_TYPE", "subscribed_topics"]

PROTOCOL_TYPE = "consumer"


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union of all members' topics, or None if one of them can't be read.

    Each is read as version 0 whatever its version field: every version begins with version 0, so that newer clients
    are supported.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            if len(subscription) < 2:
                return None
            topics.update(ConsumerProtocolSubscription.decode(subscription, 0, 2).topics)
    except DecodeError:
        return None
    return frozenset(topics)
