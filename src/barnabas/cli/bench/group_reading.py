"""Read a topic as a member of a group, for ``barnabas bench consume --group``: the group assigns the partitions.

Reading begins at the committed offsets, else where the measurement begins. What was read is committed when partitions
are given up, and at the end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.clients.consumer.group_member import group_member
from barnabas.clients.membership.consumer_membership import Subscription
from barnabas.common.uuid import Uuid

if TYPE_CHECKING:
    from barnabas.clients.consumer.completed_fetch import Fetched
    from barnabas.clients.consumer.config import GroupConfig
    from barnabas.clients.consumer.fetcher import Fetcher
    from barnabas.clients.consumer.group_member import GroupMember
    from barnabas.clients.network_client import NetworkClient
    from barnabas.common.topic_partition import TopicPartition

__all__ = ["GroupReading"]


class GroupReading:
    """``joined_at`` is when the group had assigned partitions, on the loop's clock; 0 before."""

    def __init__(self, starts: Mapping[TopicPartition, int], fetcher: Fetcher) -> None:
        self.joined_at = 0.0
        self._starts = starts
        self._fetcher = fetcher
        self._positions: dict[TopicPartition, int] = {}
        self._member: GroupMember

    async def join(self, network: NetworkClient, group: str, topic: str, config: GroupConfig) -> GroupMember:
        """Begin to join the group. Raise AdminError, ClientError."""
        self._member = await group_member(
            network, group, Subscription(frozenset({topic})), config, self, member_id=str(Uuid(os.urandom(16)))
        )
        self._member.start()
        return self._member

    async def leave(self) -> None:
        await self._member.commit(self._positions)
        await self._member.leave()

    def take(self, partition: TopicPartition, fetched: Fetched) -> None:
        if partition in self._positions:
            self._positions[partition] = fetched.batches[-1].next_offset

    async def partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        starts = {partition: self._starts[partition] for partition in partitions}
        starts |= await self._member.committed(partitions) if partitions else {}
        self._positions |= starts
        self._fetcher.add(starts)
        if self._positions and not self.joined_at:
            self.joined_at = asyncio.get_running_loop().time()

    async def partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self._fetcher.remove(partitions)
        await self._member.commit(self._drop(partitions))

    async def partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._fetcher.remove(partitions)
        self._drop(partitions)

    def _drop(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._positions.pop(partition) for partition in partitions if partition in self._positions}
