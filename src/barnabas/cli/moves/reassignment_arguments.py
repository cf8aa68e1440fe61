"""Arguments that select moves: the partitions of a file, or topics with the brokers to spread them over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.partition_files import RequestedReplicas, read_moves, read_topics
from barnabas.cli.arguments.partition_selection import Topics, broker_ids, is_meant, parse_topics
from barnabas.cli.moves.reassignment import ThrottleRates
from barnabas.cli.output.advice import UnknownName
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.cli.moves.reassignment import ReassignmentState

__all__ = ["RequestedMoves", "parse_rates", "read_requested_moves"]

_RATE_MIN = 1024


@dataclass(frozen=True, slots=True)
class RequestedMoves:
    """The moves of a file (``by_file``); otherwise, move ``topics`` to exactly ``replicas``, or spread them."""

    by_file: Mapping[TopicPartition, RequestedReplicas]
    topics: Topics
    brokers: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    factor: int | None = None
    ignores_racks: bool = False

    @property
    def topic_names(self) -> list[str]:
        named = (partition.topic for partition in self.by_file) if self.by_file else (name for name, _ in self.topics)
        return list(dict.fromkeys(named))

    def partitions(self, stage: ReassignmentState) -> list[TopicPartition]:
        """Return the partitions to move. Raise UnknownName for a partition that a topic does not have."""
        if self.by_file:
            return sorted(self.by_file)
        for name, numbers in self.topics:
            for number in numbers or ():
                if TopicPartition(name, number) not in stage.replicas:
                    count = sum(1 for partition in stage.replicas if partition.topic == name)
                    raise UnknownName(f"{name}-{number}", f"topic {name} has the partitions 0 to {count - 1}")
        return sorted(partition for partition in stage.replicas if is_meant(partition, self.topics))

    def moves(self, stage: ReassignmentState) -> dict[TopicPartition, RequestedReplicas]:
        """Return the target of each partition. Raise ValueError for impossible moves, or UnknownName."""
        if self.by_file:
            return dict(self.by_file)
        partitions = self.partitions(stage)
        if self.replicas is not None:
            return dict.fromkeys(partitions, RequestedReplicas(self.replicas))
        from barnabas.placement.replica_spread import spread

        current = {partition: _settled(stage, partition) for partition in partitions}
        return {
            partition: RequestedReplicas(brokers)
            for partition, brokers in spread(current, self._racks(stage), self.factor).items()
        }

    def _racks(self, stage: ReassignmentState) -> dict[int, str | None]:
        chosen = sorted(stage.brokers) if self.brokers is None else self.brokers
        unknown = [broker for broker in chosen if broker not in stage.brokers]
        if unknown:
            known = ", ".join(map(str, sorted(stage.brokers)))
            raise ValueError(f"--broker-list: broker {unknown[0]} is not alive; the live brokers are {known}")
        racks = {broker: None if self.ignores_racks else stage.brokers[broker] for broker in chosen}
        with_rack = [broker for broker, rack in racks.items() if rack is not None]
        if with_rack and len(with_rack) < len(racks):
            silent = ", ".join(str(broker) for broker, rack in racks.items() if rack is None)
            raise ValueError(
                f"brokers {silent} have no rack, but others do: use --disable-rack-aware, or set broker.rack"
            )
        return racks


def read_requested_moves(
    *,
    reassignment_json_file: str | None = None,
    topics_to_move_json_file: str | None = None,
    topic: Sequence[str] | None = None,
    broker_list: str | None = None,
    replicas: str | None = None,
    replication_factor: int | None = None,
    disable_rack_aware: bool = False,
) -> RequestedMoves:
    """Return the requested moves. Raise UsageError for options that exclude each other."""
    file = reassignment_json_file or topics_to_move_json_file
    if bool(file) == bool(topic):
        raise UsageError("use either a file or --topic")
    if reassignment_json_file is not None:
        if broker_list is not None or replicas is not None or replication_factor is not None:
            raise UsageError(
                "--broker-list, --replicas and --replication-factor need --topic: a file contains the target replicas"
            )
        return RequestedMoves(read_moves(reassignment_json_file, "--reassignment-json-file"), [])
    if replicas is not None and (broker_list is not None or replication_factor is not None):
        raise UsageError("--replicas lists the exact replicas: omit --broker-list and --replication-factor")
    topics: Topics = (
        parse_topics(topic)
        if topics_to_move_json_file is None
        else [(name, None) for name in read_topics(topics_to_move_json_file, "--topics-to-move-json-file")]
    )
    for name, _ in topics:
        problem = topic_name_problem(name)
        if problem is not None:
            raise UsageError(f"--topic {name}: {problem}")
    return RequestedMoves(
        {}, topics, broker_ids(broker_list, "--broker-list"), broker_ids(replicas, "--replicas"), replication_factor,
        disable_rack_aware,
    )  # fmt: skip


def parse_rates(between_brokers: int | None, between_directories: int | None) -> ThrottleRates:
    for option, rate in (
        ("--throttle", between_brokers),
        ("--replica-alter-log-dirs-throttle", between_directories),
    ):
        if rate is not None and rate < _RATE_MIN:
            raise UsageError(f"{option} {rate}: the rate is in bytes per second, at least {_RATE_MIN}")
    return ThrottleRates(between_brokers, between_directories)


def _settled(stage: ReassignmentState, partition: TopicPartition) -> tuple[int, ...]:
    """Return the target replicas of a moving partition, or the current replicas."""
    going = stage.under_way.get(partition)
    if going is None:
        return stage.replicas[partition]
    return tuple(broker for broker in going.replicas if broker not in going.removing_replicas)
