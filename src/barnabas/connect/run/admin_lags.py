"""The lag of sinks: committed offsets of their consumer groups against the log end offsets of partitions.

Two requests cover all groups. A partition of a task without a committed offset counts from where the task begins, which
takes a third request: the first offset of the partition, or with ``auto.offset.reset=latest`` its end. Lag tools omit
such a partition, so that a sink that has written nothing yet seems to have no lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.errors import ClientError
from barnabas.common.error_code import ErrorCode
from barnabas.connect.decide.lag.consumer_lag import GroupLag, PartitionLag, SinkGroup
from barnabas.connect.decide.lag.throughput import Rates

if TYPE_CHECKING:
    from barnabas.clients.admin.client import AdminClient
    from barnabas.common.topic_partition import TopicPartition

__all__ = ["AdminLags"]

_TIMEOUT_S = 10.0
_LATEST = "latest"


class AdminLags:
    """``now_s`` is a monotonic clock."""

    def __init__(self, admin: AdminClient, now_s: Callable[[], float]) -> None:
        self._admin = admin
        self._now_s = now_s
        self._rates = Rates()

    async def lags(self, groups: Mapping[str, SinkGroup]) -> Mapping[str, GroupLag]:
        if not groups:
            return {}
        try:
            positions, problems = await self._positions({sink.group for sink in groups.values()})
            new = {name: sink.partitions - positions.get(sink.group, {}).keys() for name, sink in groups.items()}
            known = {partition for offsets in positions.values() for partition in offsets}
            ends = await self._offsets(known.union(*new.values()), OffsetSpec.latest())
            first = await self._offsets(
                {partition for name, found in new.items() if groups[name].reset != _LATEST for partition in found},
                OffsetSpec.earliest(),
            )
        except (AdminError, ClientError, TimeoutError) as error:
            problem = f"The lag can't be read: {str(error) or 'no broker answered in time'}"
            return {name: GroupLag(problem=problem) for name in groups}
        return {
            name: GroupLag(
                self._partitions(sink.group, positions.get(sink.group, {}), ends)
                + _begun(new[name], ends if sink.reset == _LATEST else first, ends),
                problems.get(sink.group, ""),
            )
            for name, sink in groups.items()
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

    async def _offsets(self, partitions: set[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        """Return the offsets of partitions that still exist."""
        if not partitions:
            return {}
        found = await self._admin.list_offsets(dict.fromkeys(partitions, spec), timeout_s=_TIMEOUT_S)
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


def _begun(
    partitions: Iterable[TopicPartition], begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> tuple[PartitionLag, ...]:
    """Return the lag of partitions without a commit."""
    return tuple(
        PartitionLag(partition.topic, partition.partition, begins[partition], ends[partition], is_committed=False)
        for partition in sorted(partitions)
        if partition in begins and partition in ends
    )
