"""``barnabas groups reset-offsets|delete-offsets``: where groups go on, and where they are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ChangeOptions, Flag, Long, UsageError
from barnabas.cli.arguments.partition_selection import Topics, is_meant, meant_partitions, parse_topics
from barnabas.cli.arguments.time_options import parse_datetime, parse_duration
from barnabas.cli.groups.offset_reset import Way, wanted_offsets
from barnabas.cli.groups.offsets_file import Plan, read_plan, written_plan
from barnabas.cli.groups.tables import STOP, chosen_groups, group_names
from barnabas.cli.output.advice import nearest, problem_of, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["delete_offsets", "reset_offsets"]

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
    """Say where a group without members goes on. Nothing is changed without --execute, as with Kafka's tool.

    An offset that a partition does not hold becomes the nearest that it holds.

    For example:

        barnabas groups reset-offsets billing --topic orders --to-earliest
        barnabas groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute
        barnabas groups reset-offsets billing --all-topics --to-datetime 2026-01-31T12:30:00.000 --execute
        barnabas groups reset-offsets billing --all-topics --to-current --export > offsets.csv
        barnabas groups reset-offsets billing --from-file offsets.csv --execute

    Parameters
    ----------
    group
        The group by its id. May be repeated.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    all_topics
        All partitions that the group has an offset of.
    all_groups
        All groups that you may see.
    to_earliest
        To the first record that is there.
    to_latest
        Behind the last record.
    to_current
        To where it is; where it has no offset, behind the last record.
    to_offset
        To this offset.
    shift_by
        Forward by so many records, or backward with a negative number.
    to_datetime
        To the first record from this moment on, as in 2026-01-31T12:30:00.000; UTC unless it has a zone.
    by_duration
        To the first record that is not older than this, as in PT12H or P7D.
    from_file
        To the offsets of this file, as --export writes it: rows of topic,partition,offset, with several groups of
        group,topic,partition,offset. - is the standard input.
    export
        Write where the groups go as such rows, instead of a table.
    execute
        Do it, instead of showing what would be done.
    """
    chosen = chosen_groups(group, all_groups=all_groups)
    topics = parse_topics(topic)
    options = options or ChangeOptions()
    if execute and options.dry_run:
        raise UsageError("--execute and --dry-run: only one of them can be meant")
    if export and options.output != "table":
        raise UsageError(f"--export and --output {options.output}: only one of them can be written")
    if from_file is None and bool(topics) == all_topics:
        raise UsageError("which offsets? Give --topic, --all-topics, or --from-file")
    if from_file is not None and (topics or all_topics):
        raise UsageError("--from-file says which offsets: leave --topic and --all-topics out")
    flags = {"to-earliest": to_earliest, "to-latest": to_latest, "to-current": to_current}
    numbers = {"to-offset": to_offset, "shift-by": shift_by}
    way = _way(flags, numbers, to_datetime, by_duration, from_file)
    plan = {} if from_file is None else read_plan(from_file, chosen)
    reset = _Reset(way, topics, plan, all_topics=all_topics, execute=execute)

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


class _Reset:
    """What becomes of one group after the other; ``offsets`` are those that each gets."""

    def __init__(self, way: Way, topics: Topics, plan: Plan, *, all_topics: bool, execute: bool) -> None:
        self._way, self._topics, self._plan = way, topics, plan
        self._all_topics, self._execute = all_topics, execute
        self._changes: list[Change] = []
        self.problems: list[Problem] = []
        self.offsets: Plan = {}

    async def of_group(self, admin: AdminClient, name: str) -> None:
        committed = (await admin.list_group_offsets([name]))[name].values
        if self._plan:
            way, partitions = Way("from-file", offsets=self._plan[name]), sorted(self._plan[name])
        else:
            way = self._way
            partitions = await meant_partitions(admin, self._topics, committed, all_topics=self._all_topics)
        new, errors = await wanted_offsets(admin, way, partitions, committed)
        self.problems += problems_of(errors, right="DESCRIBE on the topic")
        self.problems += await _members_of(admin, name) if not self._execute else []
        if self._execute and new:
            results = await admin.alter_group_offsets(name, new)
            self.problems += problems_of(results.errors, right=f"READ on Group:{name}", advice=_STOP_IT)
            new = {each: new[each] for each in results.values}
        self.offsets[name] = new
        self._changes += [
            _reset(name, each, committed[each].offset if each in committed else None, offset)
            for each, offset in sorted(new.items())
        ]

    def answer(self) -> Answer:
        notes = [] if self._execute or not self._changes else ["--execute does it"]
        if not self._changes and not self.problems:
            notes = ["there is nothing to be reset: no group has offsets there"]
        return change_answer(self._changes, self.problems, dry_run=not self._execute, notes=notes)


def delete_offsets(group: str, *, topic: list[str] | None = None, options: ChangeOptions | None = None) -> int:
    """Forget where a group is in topics that no member of it reads.

    For example:

        barnabas groups delete-offsets --group billing --topic orders --dry-run

    Parameters
    ----------
    group
        The group by its id.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    """
    topics = parse_topics(topic)
    if not topics:
        raise UsageError("which offsets? Give --topic")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        committed = (await admin.list_group_offsets([group]))[group].values
        wanted = [each for each in sorted(committed) if is_meant(each, topics)]
        problems = [] if committed else await _unknown_groups(admin, [group])
        if not dry_run and wanted:
            results = await admin.delete_group_offsets(group, wanted)
            problems = problems_of(results.errors, right=f"DELETE on Group:{group} and READ on the topic")
            wanted = [each for each in wanted if each in results.values]
        changes = [
            Change("offset of", f"{group} in {each}", "deleted", f"offset {committed[each].offset}") for each in wanted
        ]
        notes = [] if changes or problems else [f"group {group} has no offsets there"]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work, right=f"DELETE on Group:{group}")


async def _unknown_groups(admin: AdminClient, groups: Sequence[str] | None) -> list[Problem]:
    """Those that are not there. None is all groups, and they are there."""
    known = await group_names(admin) if groups else []
    return [
        Problem(
            "there is no group of this id that you may see", name, ErrorCode.GROUP_ID_NOT_FOUND.name,
            f"did you mean {near}?" if (near := nearest(name, known)) else "'barnabas groups list' shows them",
        )
        for name in groups or ()
        if name not in known
    ]  # fmt: skip


def _reset(group: str, partition: TopicPartition, before: int | None, after: int) -> Change:
    more = {"topic": partition.topic, "partition": partition.partition, "offset": after, "offset_before": before}
    way = f"to {after}, as it has no offset" if before is None else f"from {before} to {after}"
    return Change("group", group, "reset", f"{partition} {way}", more)


async def _members_of(admin: AdminClient, group: str) -> list[Problem]:
    """A group that is not there yet can be given offsets; one with members can't."""
    found = await admin.describe_groups([group])
    if group in found.values and found.values[group].members:
        return [Problem("the group has members", group, advice=STOP)]
    error = found.errors.get(group)
    return [] if error is None or error.code == ErrorCode.GROUP_ID_NOT_FOUND else [problem_of(error)]


def _way(
    flags: Mapping[str, bool],
    numbers: Mapping[str, int | None],
    moment: str | None,
    duration: str | None,
    file: str | None,
) -> Way:
    ways = [Way(kind) for kind, is_given in flags.items() if is_given]
    ways += [Way(kind, number) for kind, number in numbers.items() if number is not None]
    if moment is not None:
        ways.append(Way("to-datetime", parse_datetime(moment)))
    if duration is not None:
        import time

        back_ms = int(parse_duration(duration).total_seconds() * 1000)
        ways.append(Way("by-duration", int(time.time() * 1000) - back_ms))
    if file is not None:
        ways.append(Way("from-file"))
    if len(ways) != 1:
        known = (
            "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration or "
            "--from-file"
        )
        raise UsageError(f"where to? Give one of {known}")
    return ways[0]
