"""Kafka's CSV format of new offsets of groups.

Rows are ``topic,partition,offset`` for one group, ``group,topic,partition,offset`` for several.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.partition_files import read_text
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition

__all__ = ["Plan", "read_plan", "written_plan"]

Plan = dict[str, dict[TopicPartition, int]]

_OPTION = "--from-file"


def read_plan(path: str, groups: Sequence[str] | None) -> Plan:
    """Read the offsets of each group. Rows without a group are for the only group.

    Raise UsageError for an invalid file or a group without rows. ``groups`` None accepts all groups of the file.
    """
    found: Plan = {}
    reader = csv.reader(io.StringIO(read_text(path, _OPTION)), strict=True)
    try:
        for row in reader:
            if row:
                group, partition, offset = _row(row, groups, f"{_OPTION}: {path}, line {reader.line_num}")
                if partition in found.setdefault(group, {}):
                    raise UsageError(f"{_OPTION}: {path}, line {reader.line_num}: {partition} is listed twice")
                found[group][partition] = offset
    except csv.Error as error:
        raise UsageError(f"{_OPTION}: {path}, line {reader.line_num}: invalid CSV: {error}") from error
    missing = [name for name in groups or () if name not in found]
    if missing or not found:
        raise UsageError(f"{_OPTION}: {path} has no rows" + (f" of group {missing[0]}" if missing else ""))
    return found if groups is None else {name: found[name] for name in groups}


def written_plan(offsets: Mapping[str, Mapping[TopicPartition, int]], *, has_groups: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, partitions in offsets.items():
        for partition, offset in sorted(partitions.items()):
            row: Iterable[object] = (partition.topic, partition.partition, offset)
            writer.writerow((group, *row) if has_groups else row)
    return text.getvalue()


def _row(row: Sequence[str], groups: Sequence[str] | None, where: str) -> tuple[str, TopicPartition, int]:
    if len(row) == 3:
        if groups is None or len(groups) != 1:
            raise UsageError(f"{where}: with several groups, a row must be group,topic,partition,offset")
        row = (groups[0], *row)
    if len(row) != 4:
        raise UsageError(f"{where}: a row must be topic,partition,offset or group,topic,partition,offset")
    group, topic, partition, offset = (part.strip() for part in row)
    problem = topic_name_problem(topic)
    if problem is not None:
        raise UsageError(f"{where}: {topic}: {problem}")
    try:
        numbers = int(partition), int(offset)
    except ValueError:
        raise UsageError(f"{where}: partition and offset must be numbers, not {partition!r} and {offset!r}") from None
    if min(numbers) < 0:
        raise UsageError(f"{where}: partition and offset must be at least 0")
    return group, TopicPartition(topic, numbers[0]), numbers[1]
