"""What a member of a group reports to its caller, with the meaning of Kafka's ConsumerRebalanceListener."""

from __future__ import annotations

from typing import Protocol

from barnabas.common.topic_partition import TopicPartition

__all__ = ["IgnoredRebalances", "RebalanceListener"]


class RebalanceListener(Protocol):
    """The member waits for each call. It sends heartbeats meanwhile, up to the time that a rebalance may take.

    An exception ends the member with this failure.
    """

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Stop reading the partitions and commit. They belong to the member until this returns."""

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Begin to read the partitions, beside those that the caller has. There may be none."""

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Drop the partitions. They may belong to other members already, so nothing can be committed for them."""


class IgnoredRebalances(RebalanceListener):
    """Takes the place of the listener of a member that leaves: its caller has given up all partitions."""

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        pass

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        pass

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        pass
