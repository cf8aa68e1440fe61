"""Assign topic-partitions to the tasks of a sink: the connector's owner spreads them, and task configs contain them.

So a task config is complete, and a new or grown topic leads to a new set of task configs, committed like any
other. A task config without partitions was created by a worker that does not support them, a Java one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from barnabas.common.topic_partition import TopicPartition

__all__ = ["TASK_PARTITIONS", "assign_partitions", "format_partitions", "parse_partitions", "with_partitions"]

TASK_PARTITIONS = "barnabas.task.partitions"


def assign_partitions(partition_counts: Mapping[str, int], tasks: int) -> list[list[TopicPartition]]:
    """Spread all partitions over at most ``tasks`` tasks, with at least one partition each.

    The loads differ by one at most. The partitions of one topic go to neighbours in turn, so that a busy topic does not
    end up with one task. The same counts give the same result: nothing is published again without a reason.
    """
    partitions = [
        TopicPartition(topic, partition)
        for topic in sorted(partition_counts)
        for partition in range(partition_counts[topic])
    ]
    count = min(tasks, len(partitions))
    return [partitions[first::count] for first in range(count)]


def format_partitions(partitions: Iterable[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return json.dumps(by_topic, separators=(",", ":"))


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse the partitions. Raise ValueError."""
    by_topic = json.loads(text)
    if not isinstance(by_topic, dict) or not all(
        isinstance(partitions, list) and all(type(partition) is int and partition >= 0 for partition in partitions)
        for partitions in by_topic.values()
    ):
        raise ValueError(f'{TASK_PARTITIONS} must be like {{"topic":[0,1]}}, not {text}')
    return [TopicPartition(topic, partition) for topic, partitions in by_topic.items() for partition in partitions]


def with_partitions(
    task_configs: Sequence[Mapping[str, str]], partition_counts: Mapping[str, int]
) -> list[dict[str, str]]:
    """Return the connector's task configs, each with its partitions. Tasks without partitions are dropped."""
    return [
        {**config, TASK_PARTITIONS: format_partitions(partitions)}
        for config, partitions in zip(
            task_configs, assign_partitions(partition_counts, len(task_configs)), strict=False
        )
    ]
