"""Applies the changes of a metadata publication to the replicas of this broker, in steps.

A publication may change ten thousand replicas. Between the steps some of them follow the new image and others the
previous one, as the replicas of two brokers may at any time. Deletions are first, because a new topic may have the same
name.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.common.config_codes import ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.metadata.image.configs import ConfigsDelta
    from barnabas.metadata.image.topics import LocalReplicaChanges

__all__ = ["follow_configs", "follow_replicas"]

T = TypeVar("T")

REPLICAS_A_STEP: Final = 200
"""The replicas of a step of about 5 ms."""
DELETIONS_A_STEP: Final = 40
"""The deletions of a step. Each renames a directory."""


def follow_replicas(manager: ReplicaManager, changes: LocalReplicaChanges) -> Iterator[None]:
    for deleted in _pieces(changes.deletes, DELETIONS_A_STEP):
        removed = [changes.topic_partition(key) for key in deleted]
        if manager.fetchers is not None:
            manager.fetchers.stop(removed)
        for topic_partition in removed:
            manager.remove(topic_partition)
        if len(deleted) == DELETIONS_A_STEP:
            yield
    for led in _pieces(changes.leaders.items(), REPLICAS_A_STEP):
        if manager.fetchers is not None:
            manager.fetchers.stop([changes.topic_partition(key) for key, _ in led])
        for key, registration in led:
            manager.become_leader(changes.topic_partition(key), key[0], registration)
        if len(led) == REPLICAS_A_STEP:
            yield
    for followed in _pieces(changes.followers.items(), REPLICAS_A_STEP):
        partitions = [
            manager.become_follower(changes.topic_partition(key), key[0], registration)
            for key, registration in followed
        ]
        to_fetch = [partition for partition in partitions if partition is not None]
        if manager.fetchers is not None and to_fetch:
            manager.fetchers.follow(to_fetch)
        if len(followed) == REPLICAS_A_STEP:
            yield
    for placed in _pieces(changes.directory_ids.items(), REPLICAS_A_STEP):
        manager.directories.follow(changes, placed)
        if len(placed) == REPLICAS_A_STEP:
            yield


def follow_configs(changes: ConfigsDelta, update: Callable[[str], None]) -> Iterator[None]:
    topics = (resource.name for resource in changes.changes if resource.type == ConfigResourceType.TOPIC)
    for names in _pieces(topics, REPLICAS_A_STEP):
        for name in names:
            update(name)
        if len(names) == REPLICAS_A_STEP:
            yield


def _pieces(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while piece := list(islice(rest, size)):
        yield piece
