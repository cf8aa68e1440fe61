"""A sink's positions: the committed offsets of its consumer group, where every tool looks for its lag.

A task starts at the committed offset if the partition still has it, otherwise, like a consumer, where
``auto.offset.reset`` says. The cluster refuses a commit while the group has members: then another consumer, such as a
task on a Java worker, reads with the group, and this task must not continue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.clients.admin.group_offsets import OffsetAndMetadata
from barnabas.clients.admin.partitions import IsolationLevel, OffsetSpec
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError
from barnabas.connect.settings.plugin_config_def import ConfigException

if TYPE_CHECKING:
    from barnabas.clients.admin.sync_client import SyncAdminClient

__all__ = ["GroupPositions", "check_reset", "first_positions", "from_kafka_json", "kafka_json"]

_RESETS = ("earliest", "latest", "none")
_PLANNED = "barnabas-batch-end="
_PLANNED_END = re.compile(rf"{_PLANNED}(\d{{1,18}})")

Positions = dict[TopicPartition, int]


def check_reset(reset: str, name: str = "consumer.auto.offset.reset") -> None:
    """Raise ConfigException for a policy that a sink does not have. ``name`` is the setting that has it."""
    if reset not in _RESETS:
        raise ConfigException(name, reset, f"Write one of {', '.join(_RESETS)}")


def first_positions(
    partitions: Sequence[TopicPartition],
    known: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    reset: str,
) -> tuple[Positions, list[str]]:
    """Return where to begin in each partition, and a note for the operator. Raise TerminalError for ``none``."""
    check_reset(reset)
    positions: Positions = {}
    warnings: list[str] = []
    for partition in partitions:
        first, end = bounds[partition]
        position = known.get(partition)
        if position is not None and first <= position <= end:
            positions[partition] = position
            continue
        if reset == "none":
            raise TerminalError(
                f"{partition}: no position to continue from"
                + ("" if position is None else f" (offset {position} is not in the partition: it has {first} to {end})")
                + ", and auto.offset.reset is none. Set offsets for the connector, or another auto.offset.reset."
            )
        positions[partition] = first if reset == "earliest" else end
        if position is not None:
            warnings.append(
                f"{partition}: offset {position} is not in the partition (it has {first} to {end}): "
                f"continuing at {positions[partition]}, as auto.offset.reset={reset} says"
            )
    return positions, warnings


def kafka_json(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Format offsets as Spark's Kafka source does: ``{"topic": {"0": 5}}``."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return by_topic


def from_kafka_json(offsets: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


class GroupPositions:
    """The offsets of one group. Its methods block: call them from the threads of tasks."""

    def __init__(self, admin: SyncAdminClient, group: str) -> None:
        self._admin = admin
        self.group = group

    def committed(self, partitions: Sequence[TopicPartition]) -> Positions:
        """Return the committed offsets. Raise AdminError or ClientError."""
        found = self._admin.list_group_offsets({self.group: partitions})[self.group].raise_for_errors()
        return {partition: committed.offset for partition, committed in found.items()}

    def planned(self, partitions: Sequence[TopicPartition], positions: Mapping[TopicPartition, int]) -> Positions:
        """Return where the batch ends that was begun at these positions (``plan``) and never committed.

        Raise AdminError or ClientError.
        """
        found = self._admin.list_group_offsets({self.group: partitions})[self.group].raise_for_errors()
        ends = {partition: _PLANNED_END.fullmatch(committed.metadata or "") for partition, committed in found.items()}
        return {
            partition: int(end[1])
            for partition, end in ends.items()
            if end is not None and found[partition].offset == positions[partition] < int(end[1])
        }

    def plan(self, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Note the ends of a batch beside its start, before the batch is written. Raise as ``commit``."""
        self._commit(
            {
                partition: OffsetAndMetadata(offsets.start, metadata=f"{_PLANNED}{offsets.end}")
                for partition, offsets in ranges.items()
            }
        )

    def bounds(
        self, partitions: Sequence[TopicPartition], *, is_committed: bool = False
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset of each partition, and the one after its last (or last committed) record.

        Raise AdminError or ClientError.
        """
        level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
        first, end = (
            self._admin.list_offsets(dict.fromkeys(partitions, spec), isolation_level=level).raise_for_errors()
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        return {partition: (first[partition].offset, end[partition].offset) for partition in partitions}

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. Raise AdminError or ClientError; TerminalError if the group has another member."""
        self._commit(positions)

    def _commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
        results = self._admin.alter_group_offsets(self.group, positions)
        taken = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.ILLEGAL_GENERATION)
        if any(error.code in taken for error in results.errors.values()):
            raise TerminalError(
                f"consumer group {self.group} has members: another consumer reads the connector's topics with it, "
                "so its offsets can't be committed. Stop that consumer, or give the connector another group with "
                "consumer.override.group.id."
            )
        results.raise_for_errors()
