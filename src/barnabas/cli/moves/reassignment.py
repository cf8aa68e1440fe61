"""The parts of a partition reassignment: current state, validation, throttles, directories.

Throttles are Kafka's settings, so Kafka's tool and ours can see and remove each other's throttles. Settings of brokers
contain rates. Settings of topics contain the replicas that the rates apply to: leaders (copied from) and followers
(copied to).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.config_resources import resource_problems
from barnabas.cli.arguments.partition_files import RequestedReplicas
from barnabas.cli.arguments.topic_selection import topic_names
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Change, Problem
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, ConfigResource, PartitionReassignment

__all__ = [
    "ALTER",
    "FOLLOWERS",
    "FOLLOWER_RATE",
    "LEADERS",
    "LEADER_RATE",
    "ReassignmentState",
    "ThrottleRates",
    "directory_change",
    "ids",
    "move_directories",
    "problems_of_moves",
    "read_reassignment_state",
    "throttle",
    "throttles",
    "unthrottle",
]

ALTER = "ALTER on Cluster"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
_DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
_RATES = (LEADER_RATE, FOLLOWER_RATE, _DIRECTORY_RATE)
_DIRECTORIES_BEGIN_S = 10.0
_DIRECTORIES_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class ReassignmentState:
    """The state before moves. ``replicas`` cover all partitions of the selected topics.

    ``under_way`` are all ongoing moves of the cluster. ``brokers`` are the live brokers, with their racks.
    """

    replicas: Mapping[TopicPartition, tuple[int, ...]]
    under_way: Mapping[TopicPartition, PartitionReassignment]
    brokers: Mapping[int, str | None]
    problems: Sequence[Problem]


@dataclass(frozen=True, slots=True)
class ThrottleRates:
    """Bytes per second that each broker may copy to and from others, and between its own directories."""

    between_brokers: int | None = None
    between_directories: int | None = None


async def read_reassignment_state(admin: AdminClient, topics: Iterable[str]) -> ReassignmentState:
    """Read the state. Unknown topics become problems, with the nearest name."""
    under_way = await admin.list_partition_reassignments()
    described = await admin.describe_topics(list(dict.fromkeys(topics)))
    known = await topic_names(admin) if described.errors else []
    partitions = {
        TopicPartition(topic.name, info.partition): info
        for topic in described.values.values()
        for info in topic.partitions
    }
    return ReassignmentState(
        {partition: tuple(info.replicas) for partition, info in partitions.items()},
        under_way,
        {node.id: node.rack for node in (await admin.describe_cluster()).nodes},
        problems_of(described.errors, right="DESCRIBE on Topic:{item}", names=known),
    )


def problems_of_moves(
    stage: ReassignmentState, moves: Mapping[TopicPartition, RequestedReplicas], *, additional: bool, keeps_factor: bool
) -> list[Problem]:
    """Return all problems of the moves, so that no move starts if one is impossible."""
    missing_topics = {problem.item for problem in stage.problems}
    problems = list(stage.problems)
    brokers = ", ".join(map(str, sorted(stage.brokers)))
    for partition, move in moves.items():
        if partition.topic in missing_topics:
            continue
        now = stage.replicas.get(partition)
        if now is None:
            count = sum(1 for other in stage.replicas if other.topic == partition.topic)
            advice = f"topic {partition.topic} has the partitions 0 to {count - 1}"
            problems.append(Problem("no such partition exists", str(partition), "UNKNOWN_TOPIC_OR_PARTITION", advice))
            continue
        unknown = [broker for broker in move.replicas if broker not in stage.brokers and broker not in now]
        if unknown:
            problems.append(
                Problem(
                    f"broker {ids(unknown)} is not alive", str(partition), "INVALID_REPLICA_ASSIGNMENT",
                    f"the live brokers are {brokers}",
                )
            )  # fmt: skip
        if keeps_factor and len(move.replicas) != len(now) and partition not in stage.under_way:
            problems.append(
                Problem(
                    f"it has {len(now)} replicas and would have {len(move.replicas)}", str(partition),
                    "INVALID_REPLICATION_FACTOR", "omit --disallow-replication-factor-change to allow it",
                )
            )  # fmt: skip
    if stage.under_way and not additional:
        named = ", ".join(map(str, sorted(stage.under_way)[:3])) + (", ..." if len(stage.under_way) > 3 else "")
        text = f"other moves are in progress: {named}"
        problems.append(Problem(text, advice="wait until they end, or use --additional to add moves or replace them"))
    return problems


def throttles(
    stage: ReassignmentState, moves: Mapping[TopicPartition, RequestedReplicas], rates: ThrottleRates
) -> dict[ConfigResource, dict[str, str | None]]:
    """Return the throttle settings of topics and brokers, including those of ongoing moves."""
    from barnabas.clients.admin import ConfigResource

    wanted: dict[ConfigResource, dict[str, str | None]] = {}
    if rates.between_brokers is not None:
        leaders: dict[str, list[str]] = {}
        followers: dict[str, list[str]] = {}
        involved: set[int] = set()
        for partition, (sources, targets) in sorted(_copies(stage, moves).items()):
            involved |= {*sources, *targets}
            leaders.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in sources)
            followers.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in targets)
        for topic in leaders:
            wanted[ConfigResource.topic(topic)] = {
                LEADERS: ",".join(leaders[topic]),
                FOLLOWERS: ",".join(followers[topic]),
            }
        rate = str(rates.between_brokers)
        for broker in sorted(involved):
            wanted[ConfigResource.broker(broker)] = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
    if rates.between_directories is not None:
        for broker in sorted({broker for move in moves.values() for broker, _ in move.directories()}):
            settings = wanted.setdefault(ConfigResource.broker(broker), {})
            settings[_DIRECTORY_RATE] = str(rates.between_directories)
    return wanted


def _copies(
    stage: ReassignmentState, moves: Mapping[TopicPartition, RequestedReplicas]
) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the source and the target brokers of each copied partition."""
    copies = {}
    for partition in {*moves, *stage.under_way}:
        going = stage.under_way.get(partition)
        held = stage.replicas.get(partition, ()) if going is None else going.replicas
        arriving = () if going is None else going.adding_replicas
        sources = tuple(broker for broker in held if broker not in arriving)
        wanted = moves[partition].replicas if partition in moves else arriving
        targets = tuple(broker for broker in wanted if broker not in sources)
        if targets:
            copies[partition] = sources, targets
    return copies


async def throttle(
    admin: AdminClient, wanted: Mapping[ConfigResource, Mapping[str, str | None]], *, dry_run: bool
) -> tuple[list[Change], list[Problem]]:
    """Set the settings, or delete those with the value None."""
    from barnabas.clients.admin import AlterConfigOp

    changes = {
        resource: [AlterConfigOp.delete(k) if v is None else AlterConfigOp.set(k, v) for k, v in settings.items()]
        for resource, settings in wanted.items()
    }
    if not changes:
        return [], []
    results = await admin.incremental_alter_configs(changes, validate_only=dry_run)
    made = [_throttled(resource, wanted[resource]) for resource in results.values]
    advice = {
        ErrorCode.INVALID_CONFIG: "this cluster does not support throttles: omit --throttle and "
        "--replica-alter-log-dirs-throttle"
    }
    return made, await resource_problems(admin, results.errors, "ALTER_CONFIGS", advice=advice)


async def unthrottle(admin: AdminClient, topics: Iterable[str], *, dry_run: bool) -> tuple[list[Change], list[Problem]]:
    """Remove the throttle settings of these topics, and the rates of all brokers."""
    from barnabas.clients.admin import ConfigResource, ConfigSource

    brokers = [node.id for node in (await admin.describe_cluster()).nodes]
    resources = [*map(ConfigResource.topic, dict.fromkeys(topics)), *map(ConfigResource.broker, brokers)]
    found = await admin.describe_configs(resources, keys=[LEADERS, FOLLOWERS, *_RATES])
    own = (ConfigSource.TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
    wanted: dict[ConfigResource, dict[str, str | None]] = {}
    for resource, config in found.values.items():
        settings = dict.fromkeys(entry.name for entry in config.entries.values() if entry.source in own)
        if settings:
            wanted[resource] = settings
    made, problems = await throttle(admin, wanted, dry_run=dry_run)
    return made, [*await resource_problems(admin, found.errors, "DESCRIBE_CONFIGS"), *problems]


def _throttled(resource: ConfigResource, settings: Mapping[str, str | None]) -> Change:
    from barnabas.clients.admin import ConfigResourceType

    kind = "topic" if resource.type == ConfigResourceType.TOPIC else "broker"
    if None in settings.values():
        return Change(kind, resource.name, "freed", "throttle ended", {"configs": dict(settings)})
    rates = dict.fromkeys(f"{value} bytes/s" for key, value in settings.items() if key in _RATES)
    return Change(kind, resource.name, "throttled", ", ".join(rates), {"configs": dict(settings)})


async def move_directories(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas], *, waits: bool = True
) -> tuple[list[Change], list[Problem]]:
    """Move replicas to directories of their brokers. Retry for a replica that is still being created."""
    from barnabas.clients.admin import TopicPartitionReplica

    left = {
        TopicPartitionReplica(partition.topic, partition.partition, broker): path
        for partition, move in moves.items()
        for broker, path in move.directories()
    }
    until = time.monotonic() + _DIRECTORIES_BEGIN_S
    changes: list[Change] = []
    while left:
        results = await admin.alter_replica_log_dirs(left)
        changes += [directory_change(replica, left[replica]) for replica in results.values]
        soon = {
            replica: left[replica]
            for replica, error in results.errors.items()
            if waits and error.code == ErrorCode.REPLICA_NOT_AVAILABLE
        }
        others = {replica: error for replica, error in results.errors.items() if replica not in soon}
        if others or not soon or time.monotonic() > until:
            return changes, problems_of(results.errors, right=ALTER)
        left = soon
        await asyncio.sleep(_DIRECTORIES_PAUSE_S)
    return changes, []


def directory_change(replica: Any, path: str) -> Change:
    more = {"topic": replica.topic, "partition": replica.partition, "broker": replica.broker_id, "directory": path}
    return Change("replica", str(replica), "sent", f"to {path}", more)


def ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
