"""``barnabas queue list|describe|offsets|reset|delete``: the share groups behind queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, Long, UsageError
from barnabas.cli.arguments.partition_selection import parse_topics
from barnabas.cli.groups.offset_reset import OffsetTarget
from barnabas.cli.groups.offsets import OffsetReset, chosen_target
from barnabas.cli.groups.tables import MEMBERS, OFFSETS, STATE, described_answer, group_names, other_type
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.clients.admin import AdminClient

__all__ = ["delete", "describe", "list_", "offsets", "reset"]

_SHARE = "share"
_NO_GROUP = "no group given: pass its id as an argument or with --group"


def list_(*, options: ClusterOptions | None = None) -> int:
    """List the share groups that you may see.

    For example:

        barnabas queue list
    """

    async def work(admin: AdminClient) -> Answer:
        found = await admin.list_groups(types=[_SHARE])
        sheet = Sheet(columns=("group", "state"))
        for listing in found.groups:
            sheet.add(listing.group_id, listing.state or "")
        document = {"groups": [{"group": listing.group_id, "state": listing.state} for listing in found.groups]}
        notes = [] if found.groups or found.errors else ["no share groups exist, or you may not see them"]
        problems = problems_of(found.errors, right="DESCRIBE on the groups or on Cluster")
        return Answer(document, [sheet] if found.groups else [], notes, problems)

    return (options or ClusterOptions()).run(work)


def describe(group: list[str] | None = None, *, state: Flag = False, options: ClusterOptions | None = None) -> int:
    """Show the members of share groups, and the partitions from which each receives records.

    For example:

        barnabas queue describe billing
        barnabas queue describe billing --state

    Parameters
    ----------
    group
        The id of a share group. May be repeated. Default: all.
    state
        Show the state, number of members and lag of each group instead.
    """
    return _described(group, STATE if state else MEMBERS, options)


def offsets(group: list[str] | None = None, *, options: ClusterOptions | None = None) -> int:
    """Show where the delivery of share groups begins in each partition, and how many records are left.

    For example:

        barnabas queue offsets billing

    Parameters
    ----------
    group
        The id of a share group. May be repeated. Default: all.
    """
    return _described(group, OFFSETS, options)


def _described(group: list[str] | None, what: str, options: ClusterOptions | None) -> int:
    async def work(admin: AdminClient) -> Answer:
        names = list(dict.fromkeys(group)) if group else await group_names(admin, _SHARE)
        return await described_answer(admin, names, what, only_type=_SHARE)

    return (options or ClusterOptions()).run(work)


def reset(
    group: list[str] | None = None,
    *,
    topic: list[str] | None = None,
    all_topics: Flag = False,
    to_earliest: Flag = False,
    to_latest: Flag = False,
    to_offset: Long | None = None,
    to_datetime: str | None = None,
    by_duration: str | None = None,
    execute: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Set where the delivery of a share group without members begins. Only --execute changes it.

    Records from there on are delivered again, whatever became of them before. An agent of 'barnabas queue receive' is
    a member: 'barnabas queue agents --stop' ends it.

    For example:

        barnabas queue reset billing --topic orders --to-earliest
        barnabas queue reset billing --all-topics --to-datetime 2026-01-31T12:30:00.000 --execute

    Parameters
    ----------
    group
        The id of a share group. May be repeated.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    all_topics
        All partitions in which the group has a start offset.
    to_earliest
        Begin with the first record.
    to_latest
        Begin at the end, after the last record.
    to_offset
        Begin at this offset.
    to_datetime
        Begin with the first record from this time on, for example 2026-01-31T12:30:00.000; UTC unless it has a zone.
    by_duration
        Begin with the first record that is not older than this, for example PT12H or P7D.
    execute
        Change the offsets, instead of showing the changes.
    """
    names = _named(group)
    options = options or ChangeOptions()
    if execute and options.dry_run:
        raise UsageError("--execute and --dry-run can't be used together")
    topics = parse_topics(topic)
    if bool(topics) == all_topics:
        raise UsageError("no partitions given: use --topic or --all-topics")
    flags = {"to-earliest": to_earliest, "to-latest": to_latest}
    target: OffsetTarget = chosen_target(flags, {"to-offset": to_offset}, to_datetime, by_duration, None)
    resetting = OffsetReset(target, topics, {}, all_topics=all_topics, execute=execute)

    async def work(admin: AdminClient) -> Answer:
        resetting.problems += await _others(admin, names)
        for name in names:
            if name not in _items(resetting.problems):
                await resetting.of_group(admin, name)
        return resetting.answer()

    return options.run(work, right="READ on the group and on the topics")


def delete(group: list[str] | None = None, *, options: ChangeOptions | None = None) -> int:
    """Delete share groups without members, with what they have delivered.

    For example:

        barnabas queue delete billing --dry-run

    Parameters
    ----------
    group
        The id of a share group. May be repeated.
    """
    names = _named(group)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        problems = await _others(admin, names, has_members=dry_run)
        wanted = [name for name in names if name not in _items(problems)]
        if not dry_run and wanted:
            results = await admin.delete_groups(wanted)
            problems += problems_of(results.errors, right="DELETE on Group:{item}", advice=_STOP)
            wanted = list(results.values)
        return change_answer([Change("group", name, "deleted") for name in wanted], problems, dry_run=dry_run)

    return options.run(work)


_STOP = {
    ErrorCode.NON_EMPTY_GROUP: "stop its members first: 'barnabas queue describe' shows them, and 'barnabas queue "
    "agents --stop' ends those of 'barnabas queue receive'"
}


def _named(group: list[str] | None) -> list[str]:
    if not group:
        raise UsageError(_NO_GROUP)
    return list(dict.fromkeys(group))


def _items(problems: Sequence[Problem]) -> set[str]:
    return {problem.item for problem in problems}


async def _others(admin: AdminClient, names: Sequence[str], *, has_members: bool = False) -> list[Problem]:
    """Return problems for groups that do not exist or are of another kind; with ``has_members``, also for busy ones."""
    found = await admin.describe_groups(names)
    known = await group_names(admin, _SHARE) if found.errors else []
    problems = problems_of(found.errors, right="DESCRIBE on Group:{item}", names=known)
    for name, description in found.values.items():
        if description.type != _SHARE:
            problems.append(other_type(description, _SHARE))
        elif has_members and description.members:
            code = ErrorCode.NON_EMPTY_GROUP
            problems.append(Problem("the group has members", name, code.name, _STOP[code]))
    return problems
