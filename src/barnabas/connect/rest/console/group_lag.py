"""The lag of sinks: committed offsets of their consumer groups against the log end offsets of partitions.

Two requests cover all groups. A partition without a committed offset is omitted, as lag tools do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.errors import ClientError
from barnabas.common.error_code import ErrorCode
from barnabas.connect.rest.console.consumer_lag import GroupLag, PartitionLag
from barnabas.connect.rest.console.throughput import Rates

if TYPE_CHECKING:
    from barnabas.clients.admin.client import AdminClient
    from barnabas.common.topic_partition import TopicPartition

__all__ = ["AdminLags"]

_TIMEOUT_S = 10.0


class AdminLags:
    """``now_s`` is a monotonic clock."""

    def __init__(self, admin: AdminClient, now_s: Callable[[], float]) -> None:
        self._admin = admin
        self._now_s = now_s
        self._rates = Rates()

    async def lags(self, groups: Mapping[str, str]) -> Mapping[str, GroupLag]:
        if not groups:
            return {}
        try:
            positions, problems = await self._positions(set(groups.values()))
            ends = await self._ends({partition for offsets in positions.values() for partition in offsets})
        except (AdminError, ClientError, TimeoutError) as error:
            problem = f"The lag can't be read: {str(error) or 'no broker answered in time'}"
            return {name: GroupLag(problem=problem) for name in groups}
        return {
            name: GroupLag(self._partitions(group, positions.get(group, {}), ends), problems.get(group, ""))
            for name, group in groups.items()
        }

    async def _positions(self, groups: set[str]) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, str]]:
        found = await self._admin.list_group_offsets(sorted(groups), timeout_s=_TIMEOUT_S)
        positions = {
            group: {partition: offset.offset for partition, offset in results.values.items()}
            for group, results in found.values.items()
        }
        problems = {
            group: f"The offsets of group {group} can't be read: {error}"
            for group, error in found.errors.items()
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND
        }
        return positions, problems

    async def _ends(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offsets of partitions that still exist."""
        if not partitions:
            return {}
        latest = OffsetSpec.latest()
        found = await self._admin.list_offsets(dict.fromkeys(partitions, latest), timeout_s=_TIMEOUT_S)
        return {partition: offset.offset for partition, offset in found.values.items()}

    def _partitions(
        self, group: str, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[PartitionLag, ...]:
        now_s = self._now_s()
        return tuple(
            PartitionLag(
                partition.topic,
                partition.partition,
                position,
                ends[partition],
                self._rates.observe((group, partition), position, now_s),
            )
            for partition, position in sorted(positions.items())
            if partition in ends
        )
