"""Read a cluster for a plan of moves: replicas, ongoing moves, sizes and free space.

The target replicas of a moving partition count as its replicas, so a new plan builds on the moves of an earlier one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.arguments.topic_selection import topic_names
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Problem
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, LogDirDescription, PartitionReassignment, TopicPartitionInfo

__all__ = ["ClusterReplicas", "read_cluster_replicas"]

_LOOKS = 5
_PAUSE_S = 0.3


@dataclass(frozen=True, slots=True)
class ClusterReplicas:
    """Brokers and replicas. ``brokers`` are the live brokers, with racks. ``under_way`` are the ongoing moves.

    ``replicas`` include the targets of ongoing moves. ``room`` is the free space of a broker's disks in bytes, if
    known. ``cordoned`` brokers don't accept new replicas.
    """

    brokers: Mapping[int, str | None]
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    leaders: Mapping[TopicPartition, int | None]
    under_way: Mapping[TopicPartition, PartitionReassignment]
    sizes: Mapping[TopicPartition, int]
    room: Mapping[int, int]
    cordoned: frozenset[int]
    problems: Sequence[Problem]


async def read_cluster_replicas(admin: AdminClient) -> ClusterReplicas:
    brokers = {node.id: node.rack for node in (await admin.describe_cluster()).nodes}
    partitions, under_way, problems = await _settled_partitions(admin)
    directories = await admin.describe_log_dirs(brokers)
    problems = [*problems, *problems_of(directories.errors, right="DESCRIBE on Cluster")]
    replicas = {}
    for partition, info in partitions.items():
        going = under_way.get(partition)
        replicas[partition] = tuple(info.replicas) if going is None else _target(going)
    return ClusterReplicas(
        brokers,
        replicas,
        {partition: info.leader for partition, info in partitions.items()},
        under_way,
        _sizes(directories.values, partitions),
        {broker: room for broker, found in directories.values.items() if (room := _room(found)) is not None},
        frozenset(
            broker
            for broker, found in directories.values.items()
            if found and all(directory.is_cordoned or directory.error is not None for directory in found.values())
        ),
        problems,
    )


async def _settled_partitions(
    admin: AdminClient,
) -> tuple[dict[TopicPartition, TopicPartitionInfo], dict[TopicPartition, PartitionReassignment], list[Problem]]:
    """Read partitions and ongoing moves.

    A broker shows the end of a move a moment after the controller. So a partition that has more replicas than others of
    its topic, but no ongoing move, is read again.
    """
    for _ in range(_LOOKS):
        before = await admin.list_partition_reassignments()
        described = await admin.describe_topics(await topic_names(admin))
        under_way = await admin.list_partition_reassignments()
        partitions = {
            TopicPartition(topic.name, info.partition): info
            for topic in described.values.values()
            for info in topic.partitions
        }
        usual = _usual_factors(partitions)
        doubtful = before.keys() != under_way.keys() or any(
            len(info.replicas) > usual[partition.topic]
            for partition, info in partitions.items()
            if partition not in under_way
        )
        if not doubtful:
            break
        await asyncio.sleep(_PAUSE_S)
    moving = {partition: under_way[partition] for partition in under_way if partition in partitions}
    return partitions, moving, problems_of(described.errors, right="DESCRIBE on Topic:{item}")


def _usual_factors(partitions: Mapping[TopicPartition, TopicPartitionInfo]) -> dict[str, int]:
    counts: dict[str, Counter[int]] = {}
    for partition, info in partitions.items():
        counts.setdefault(partition.topic, Counter())[len(info.replicas)] += 1
    return {topic: min(found, key=lambda factor: (-found[factor], factor)) for topic, found in counts.items()}


def _target(going: PartitionReassignment) -> tuple[int, ...]:
    return tuple(broker for broker in going.replicas if broker not in going.removing_replicas)


def _sizes(
    found: Mapping[int, Mapping[str, LogDirDescription]], partitions: Mapping[TopicPartition, object]
) -> dict[TopicPartition, int]:
    """Return the size of the largest replica of each partition: others are incomplete, or more compacted."""
    sizes = dict.fromkeys(partitions, 0)
    for directories in found.values():
        for directory in directories.values():
            for partition, replica in directory.replicas.items():
                if partition in sizes and not replica.is_future:
                    sizes[partition] = max(sizes[partition], replica.size)
    return sizes


def _room(directories: Mapping[str, LogDirDescription]) -> int | None:
    """Return the free space of a broker. Directories with equal sizes count as one disk."""
    disks = {
        (directory.total_bytes, directory.usable_bytes)
        for directory in directories.values()
        if directory.error is None and directory.usable_bytes is not None
    }
    return sum(usable or 0 for _, usable in disks) if disks else None
