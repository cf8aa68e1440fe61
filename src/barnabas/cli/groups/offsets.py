"""``barnabas groups reset-offsets|delete-offsets``: change and delete committed offsets of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ChangeOptions, Flag, Long, UsageError
from barnabas.cli.arguments.partition_selection import Topics, is_meant, meant_partitions, parse_topics
from barnabas.cli.arguments.time_options import parse_datetime, parse_duration
from barnabas.cli.groups.group_offsets import SHARE, alter_offsets, committed_offsets, forget_offsets, known_group
from barnabas.cli.groups.offset_reset import OffsetTarget, wanted_offsets
from barnabas.cli.groups.offsets_file import Plan, read_plan, written_plan
from barnabas.cli.groups.tables import STOP, chosen_groups, group_names
from barnabas.cli.output.advice import nearest, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["OffsetReset", "chosen_target", "delete_offsets", "reset_offsets"]

_STOP_IT = dict.fromkeys((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.ILLEGAL_GENERATION), STOP)


def reset_offsets(
    group: list[str] | None = None,
    *,
    topic: list[str] | None = None,
    all_topics: Flag = False,
    all_groups: Flag = False,
    to_earliest: Flag = False,
    to_latest: Flag = False,
    to_current: Flag = False,
    to_offset: Long | None = None,
    shift_by: Long | None = None,
    to_datetime: str | None = None,
    by_duration: str | None = None,
    from_file: str | None = None,
    export: Flag = False,
    execute: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Set the offsets of a group without members. As in Kafka's tool, only --execute changes them.

    A share group delivers again what it has settled from the new offset on.

    An offset outside the range of a partition becomes the nearest offset inside it.

    For example:

        barnabas groups reset-offsets billing --topic orders --to-earliest
        barnabas groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute
        barnabas groups reset-offsets billing --all-topics --to-datetime 2026-01-31T12:30:00.000 --execute
        barnabas groups reset-offsets billing --all-topics --to-current --export > offsets.csv
        barnabas groups reset-offsets billing --from-file offsets.csv --execute

    Parameters
    ----------
    group
        The id of a group. May be repeated.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    all_topics
        All partitions with a committed offset of the group.
    all_groups
        All groups that you may see.
    to_earliest
        Reset to the first record.
    to_latest
        Reset to the end, after the last record.
    to_current
        Reset to the committed offset; without one, to the end.
    to_offset
        Reset to this offset.
    shift_by
        Move forward by this number of records, or backward with a negative number.
    to_datetime
        Reset to the first record from this time on, for example 2026-01-31T12:30:00.000; UTC unless it has a zone.
    by_duration
        Reset to the first record that is not older than this, for example PT12H or P7D.
    from_file
        Reset to the offsets of a file that --export wrote: rows of topic,partition,offset, or for several groups of
        group,topic,partition,offset. - is the standard input.
    export
        Print the new offsets as such rows, instead of a table.
    execute
        Change the offsets, instead of showing the changes.
    """
    chosen = chosen_groups(group, all_groups=all_groups)
    topics = parse_topics(topic)
    options = options or ChangeOptions()
    if execute and options.dry_run:
        raise UsageError("--execute and --dry-run can't be used together")
    if export and options.output != "table":
        raise UsageError(f"--export and --output {options.output} can't be used together")
    if from_file is None and bool(topics) == all_topics:
        raise UsageError("no partitions given: use --topic, --all-topics, or --from-file")
    if from_file is not None and (topics or all_topics):
        raise UsageError("--from-file contains the partitions: omit --topic and --all-topics")
    flags = {"to-earliest": to_earliest, "to-latest": to_latest, "to-current": to_current}
    numbers = {"to-offset": to_offset, "shift-by": shift_by}
    way = chosen_target(flags, numbers, to_datetime, by_duration, from_file)
    plan = {} if from_file is None else read_plan(from_file, chosen)
    reset = OffsetReset(way, topics, plan, all_topics=all_topics, execute=execute)

    async def work(admin: AdminClient) -> Answer:
        if all_topics:
            reset.problems += await _unknown_groups(admin, chosen)
        for name in list(plan) if plan else await group_names(admin) if chosen is None else chosen:
            await reset.of_group(admin, name)
        answer = reset.answer()
        if export:
            has_groups = chosen is None or len(chosen) != 1
            answer.sheets, answer.text = [], written_plan(reset.offsets, has_groups=has_groups)
        return answer

    return options.run(work, right="READ on the group and DESCRIBE on the topics")


class OffsetReset:
    """Resets one group after the other, and collects the results. ``offsets`` are the new offsets."""

    def __init__(self, way: OffsetTarget, topics: Topics, plan: Plan, *, all_topics: bool, execute: bool) -> None:
        self._way, self._topics, self._plan = way, topics, plan
        self._all_topics, self._execute = all_topics, execute
        self._changes: list[Change] = []
        self.problems: list[Problem] = []
        self.offsets: Plan = {}

    async def of_group(self, admin: AdminClient, name: str) -> None:
        group = await known_group(admin, name)
        committed = await committed_offsets(admin, name, group)
        if self._plan:
            way, partitions = OffsetTarget("from-file", offsets=self._plan[name]), sorted(self._plan[name])
        else:
            way = self._way
            partitions = await meant_partitions(admin, self._topics, committed, all_topics=self._all_topics)
        new, errors = await wanted_offsets(admin, way, partitions, committed)
        self.problems += problems_of(errors, right="DESCRIBE on the topic")
        if not self._execute and group is not None and group.members:
            self.problems.append(Problem("the group has members", name, advice=STOP))
        if self._execute and new:
            results = await alter_offsets(admin, name, group, new)
            right = f"READ on Group:{name} and on the topics"
            self.problems += problems_of(results.errors, right=right, advice=_STOP_IT)
            new = {partition: new[partition] for partition in results.values}
        self.offsets[name] = new
        self._changes += [
            _reset(name, partition, committed.get(partition), offset) for partition, offset in sorted(new.items())
        ]

    def answer(self) -> Answer:
        notes = [] if self._execute or not self._changes else ["--execute makes the changes"]
        if not self._changes and not self.problems:
            notes = ["nothing to reset: the groups have no committed offsets in these partitions"]
        return change_answer(self._changes, self.problems, dry_run=not self._execute, notes=notes)


def delete_offsets(group: str, *, topic: list[str] | None = None, options: ChangeOptions | None = None) -> int:
    """Delete offsets of a group, for topics that none of its members reads; of a share group, for whole topics.

    For example:

        barnabas groups delete-offsets --group billing --topic orders --dry-run

    Parameters
    ----------
    group
        The id of the group.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    """
    topics = parse_topics(topic)
    if not topics:
        raise UsageError("no topic given: use --topic")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        found = await known_group(admin, group)
        committed = await committed_offsets(admin, group, found)
        wanted = [partition for partition in sorted(committed) if is_meant(partition, topics)]
        problems = [] if committed else await _unknown_groups(admin, [group])
        if found is not None and found.type == SHARE:
            problems += _parts_of_topics(topics)
        if not dry_run and wanted and not problems:
            errors = await forget_offsets(admin, group, found, wanted)
            problems = problems_of(errors, right=f"DELETE on Group:{group} and READ on the topic", advice=_STOP_IT)
            wanted = [partition for partition in wanted if partition not in errors and partition.topic not in errors]
        changes = [
            Change("offset of", f"{group} in {partition}", "deleted", f"offset {committed[partition]}")
            for partition in (() if problems and dry_run else wanted)
        ]
        notes = [] if changes or problems else [f"group {group} has no offsets in these partitions"]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work, right=f"DELETE on Group:{group}")


def _parts_of_topics(topics: Topics) -> list[Problem]:
    """Return a problem for each topic of which only some partitions are meant."""
    return [
        Problem("a share group forgets whole topics only", topic, advice=f"--topic {topic}, without partitions")
        for topic, partitions in topics
        if partitions is not None
    ]


async def _unknown_groups(admin: AdminClient, groups: Sequence[str] | None) -> list[Problem]:
    """Return problems for groups that do not exist. None means all groups, which exist."""
    known = await group_names(admin) if groups else []
    return [
        Problem(
            "no group with this id exists, or you may not see it", name, ErrorCode.GROUP_ID_NOT_FOUND.name,
            f"did you mean {near}?" if (near := nearest(name, known)) else "'barnabas groups list' shows the groups",
        )
        for name in groups or ()
        if name not in known
    ]  # fmt: skip


def _reset(group: str, partition: TopicPartition, before: int | None, after: int) -> Change:
    more = {"topic": partition.topic, "partition": partition.partition, "offset": after, "offset_before": before}
    way = f"to {after}, because it has no offset" if before is None else f"from {before} to {after}"
    return Change("group", group, "reset", f"{partition} {way}", more)


def chosen_target(
    flags: Mapping[str, bool],
    numbers: Mapping[str, int | None],
    moment: str | None,
    duration: str | None,
    file: str | None,
) -> OffsetTarget:
    """Return the new offsets that the options choose. Raise UsageError unless one is chosen."""
    ways = [OffsetTarget(kind) for kind, is_given in flags.items() if is_given]
    ways += [OffsetTarget(kind, number) for kind, number in numbers.items() if number is not None]
    if moment is not None:
        ways.append(OffsetTarget("to-datetime", parse_datetime(moment)))
    if duration is not None:
        import time

        back_ms = int(parse_duration(duration).total_seconds() * 1000)
        ways.append(OffsetTarget("by-duration", int(time.time() * 1000) - back_ms))
    if file is not None:
        ways.append(OffsetTarget("from-file"))
    if len(ways) != 1:
        known = (
            "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration or "
            "--from-file"
        )
        raise UsageError(f"no new offset given: use one of {known}")
    return ways[0]
