"""``barnabas groups list|describe|delete|reset-offsets|delete-offsets|remove-members``: groups of consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.advice import problem_of, problems_of
from barnabas.cli.answer import Answer, Change, Problem, change_answer
from barnabas.cli.cluster_command import cluster_app, main_of
from barnabas.cli.cluster_options import ChangeOptions, ClusterOptions, Flag, UsageError
from barnabas.cli.group_reset import Way, meant_partitions, parse_datetime, parse_duration, parse_topics, wanted_offsets
from barnabas.cli.group_tables import described_answer, group_names
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app("groups", "List, describe and delete groups of consumers, and say where they go on.")
main = main_of(app)

_STOP = "stop the members of the group first; 'barnabas groups describe --members' shows them"
_STOP_IT = dict.fromkeys((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.ILLEGAL_GENERATION), _STOP)


@app.command(name="list")
def list_(
    *,
    state: list[str] | None = None,
    type: list[str] | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """List the groups that you may see.

    For example:

        barnabas groups list
        barnabas groups list --state Empty --output json

    Parameters
    ----------
    state
        Only groups in this state, as in Stable or Empty. May be repeated.
    type
        Only groups of this type: classic, consumer, share or streams. May be repeated.
    """

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.sheet import Sheet

        found = await admin.list_groups(states=_split(state), types=_split(type))
        sheet = Sheet(columns=("group", "state", "type", "protocol"))
        for each in found.groups:
            sheet.add(each.group_id, each.state or "", each.type or "", each.protocol_type)
        document = {
            "groups": [
                {"group": each.group_id, "state": each.state, "type": each.type, "protocol_type": each.protocol_type}
                for each in found.groups
            ]
        }
        notes = [] if found.groups or found.errors else ["there are no such groups to be seen"]
        problems = problems_of(found.errors, right="DESCRIBE on the groups or on Cluster")
        return Answer(document, [sheet] if found.groups else [], notes, problems)

    return (options or ClusterOptions()).run(work)


@app.command
def describe(
    group: list[str] | None = None,
    *,
    all_groups: Flag = False,
    offsets: Flag = False,
    members: Flag = False,
    state: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Show where groups are in the topics that they read, and how far behind.

    For example:

        barnabas groups describe billing
        barnabas groups describe billing --members
        barnabas groups describe --all-groups --state --output yaml

    Parameters
    ----------
    group
        Groups by their ids. May be repeated.
    all_groups
        All that you may see.
    offsets
        Offsets and lags, which is what is shown anyway.
    members
        The members and what each reads instead.
    state
        The state, number of members and lag of each group instead.
    """
    if offsets + members + state > 1:
        raise UsageError("--offsets, --members and --state: only one of them can be shown")
    names = None if all_groups else _require_groups(group)

    async def work(admin: AdminClient) -> Answer:
        wanted = await group_names(admin) if names is None else names
        return await described_answer(admin, wanted, members=members, state=state)

    return (options or ClusterOptions()).run(work)


@app.command
def delete(group: list[str] | None = None, *, options: ChangeOptions | None = None) -> int:
    """Delete groups that have no members, with their offsets.

    For example:

        barnabas groups delete billing --dry-run

    Parameters
    ----------
    group
        Groups by their ids. May be repeated.
    """
    names = _require_groups(group)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        results: Any = await (admin.describe_groups(names) if dry_run else admin.delete_groups(names))
        known = await group_names(admin) if results.errors else []
        problems = problems_of(results.errors, right="DELETE on Group:{item}", names=_others(known, results.errors))
        busy = [name for name, found in results.values.items() if found is not None and found.members]
        problems += [Problem("the group has members", name, ErrorCode.NON_EMPTY_GROUP.name, _STOP) for name in busy]
        changes = [Change("group", name, "deleted") for name in results.values if name not in busy]
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work)


@app.command(name="reset-offsets")
def reset_offsets(
    group: list[str] | None = None,
    *,
    topic: list[str] | None = None,
    all_topics: Flag = False,
    to_earliest: Flag = False,
    to_latest: Flag = False,
    to_current: Flag = False,
    to_offset: int | None = None,
    shift_by: int | None = None,
    to_datetime: str | None = None,
    by_duration: str | None = None,
    execute: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Say where a group without members goes on. Nothing is changed without --execute, as with Kafka's tool.

    An offset that a partition does not hold becomes the nearest that it holds.

    For example:

        barnabas groups reset-offsets billing --topic orders --to-earliest
        barnabas groups reset-offsets billing --topic orders:0,2 --shift-by -100 --execute
        barnabas groups reset-offsets billing --all-topics --to-datetime 2026-01-31T12:30:00.000 --execute

    Parameters
    ----------
    group
        The group by its id. May be repeated.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    all_topics
        All partitions that the group has an offset of.
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
    execute
        Do it, instead of showing what would be done.
    """
    names = _require_groups(group)
    topics = parse_topics(topic)
    if bool(topics) == all_topics:
        raise UsageError("which offsets? Give --topic, or --all-topics")
    options = options or ChangeOptions()
    if execute and options.dry_run:
        raise UsageError("--execute and --dry-run: only one of them can be meant")
    way = _way(
        {"to-earliest": to_earliest, "to-latest": to_latest, "to-current": to_current},
        {"to-offset": to_offset, "shift-by": shift_by},
        to_datetime,
        by_duration,
    )

    async def work(admin: AdminClient) -> Answer:
        changes: list[Change] = []
        problems: list[Problem] = []
        for name in names:
            held = await admin.list_group_offsets([name])
            committed = held[name].values
            partitions = await meant_partitions(admin, topics, committed, all_topics=all_topics)
            new, errors = await wanted_offsets(admin, way, partitions, committed)
            problems += problems_of(errors, right="DESCRIBE on the topic")
            problems += await _members_of(admin, name) if not execute else []
            if execute and new:
                results = await admin.alter_group_offsets(name, new)
                problems += problems_of(results.errors, right=f"READ on Group:{name}", advice=_STOP_IT)
                new = {each: new[each] for each in results.values}
            changes += [
                _reset(name, each, committed[each].offset if each in committed else None, offset)
                for each, offset in sorted(new.items())
            ]
        notes = [] if execute else ["--execute does it"]
        if not changes and not problems:
            notes = ["there is nothing to be reset: the group has no offsets"]
        return change_answer(changes, problems, dry_run=not execute, notes=notes)

    return options.run(work, right="READ on the group and DESCRIBE on the topics")


@app.command(name="delete-offsets")
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
        wanted = [each for each in sorted(committed) if _is_meant(each, topics)]
        problems: list[Problem] = []
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


@app.command(name="remove-members")
def remove_members(
    group: str,
    *,
    member: list[str] | None = None,
    instance: list[str] | None = None,
    all_members: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Put members out of a classic group. A member that is alive joins again.

    For example:

        barnabas groups remove-members --group billing --instance worker-1
        barnabas groups remove-members --group billing --all-members --dry-run

    Parameters
    ----------
    group
        The group by its id.
    member
        A member by its id. May be repeated.
    instance
        A static member by its group.instance.id. May be repeated.
    all_members
        All members.
    """
    if bool(member or instance) == all_members:
        raise UsageError("which members? Give --member, --instance, or --all-members")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import MemberToRemove

        wanted = [MemberToRemove(None, each) for each in member or ()]
        wanted += [MemberToRemove(each, None) for each in instance or ()]
        there = (await admin.describe_groups([group]))[group].members
        if all_members:
            wanted = [MemberToRemove(each.group_instance_id, each.member_id) for each in there]
        if dry_run:
            ids = {each.member_id for each in there} | {each.group_instance_id for each in there}
            missing = [each for each in wanted if (each.group_instance_id or each.member_id) not in ids]
            problems = [Problem("no such member is in the group", str(each)) for each in missing]
            changes = [_put_out(group, each) for each in wanted if each not in missing]
            return change_answer(changes, problems, dry_run=True)
        results = await admin.remove_members(group, wanted)
        problems = problems_of(results.errors, right=f"READ on Group:{group}")
        return change_answer([_put_out(group, each) for each in results.values], problems, dry_run=False)

    return options.run(work, right=f"READ on Group:{group}")


def _put_out(group: str, member: Any) -> Change:
    return Change("member", f"{member.group_instance_id or member.member_id} of group {group}", "removed")


def _reset(group: str, partition: TopicPartition, before: int | None, after: int) -> Change:
    more = {"topic": partition.topic, "partition": partition.partition, "offset": after, "offset_before": before}
    return Change("group", group, "reset", f"{partition} from {before} to {after}", more)


async def _members_of(admin: AdminClient, group: str) -> list[Problem]:
    """A group that is not there yet can be given offsets; one with members can't."""
    found = await admin.describe_groups([group])
    if group in found.values and found.values[group].members:
        return [Problem("the group has members", group, advice=_STOP)]
    error = found.errors.get(group)
    return [] if error is None or error.code == ErrorCode.GROUP_ID_NOT_FOUND else [problem_of(error)]


def _way(flags: Mapping[str, bool], numbers: Mapping[str, int | None], moment: str | None, duration: str | None) -> Way:
    ways = [Way(kind) for kind, is_given in flags.items() if is_given]
    ways += [Way(kind, number) for kind, number in numbers.items() if number is not None]
    if moment is not None:
        ways.append(Way("to-datetime", parse_datetime(moment)))
    if duration is not None:
        import time

        back_ms = int(parse_duration(duration).total_seconds() * 1000)
        ways.append(Way("by-duration", int(time.time() * 1000) - back_ms))
    if len(ways) != 1:
        known = "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime or --by-duration"
        raise UsageError(f"where to? Give one of {known}")
    return ways[0]


def _is_meant(partition: TopicPartition, topics: Sequence[tuple[str, list[int] | None]]) -> bool:
    return any(
        partition.topic == name and (partitions is None or partition.partition in partitions)
        for name, partitions in topics
    )


def _require_groups(group: Sequence[str] | None) -> list[str]:
    if not group:
        raise UsageError("which group? Give its id, or --group with it")
    return list(dict.fromkeys(group))


def _others(known: Sequence[str], errors: Mapping[str, Any]) -> list[str]:
    """A group that is there and can't be deleted was not mistyped."""
    return [name for name in known if name not in errors] if not set(known) & set(errors) else []


def _split(texts: Sequence[str] | None) -> list[str]:
    return [part.strip() for text in texts or () for part in text.split(",") if part.strip()]
