"""A broker makes its share-partitions when a member needs them."""

from __future__ import annotations

from typing import Any

from barnabas.broker.share.share_partition_config import SharePartitionConfig
from barnabas.server.broker.deferred_share_partitions import DeferredSharePartitions


def deferred() -> DeferredSharePartitions:
    unused: Any = None
    return DeferredSharePartitions(
        SharePartitionConfig(max_share_sessions=7),
        replicas=unused,
        metadata=unused,
        clock=unused,
        new_persister=lambda: unused,
    )


def test_nothing_is_made_before_it_is_needed() -> None:
    share_partitions = deferred()
    unused: Any = None
    share_partitions.publish(unused, unused, unused)
    share_partitions.stop()
    assert share_partitions.made is None
    assert share_partitions.get() is share_partitions.get() is share_partitions.made
