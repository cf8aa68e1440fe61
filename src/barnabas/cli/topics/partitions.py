"""``barnabas topics elect-leaders|delete-records``: elect leaders of partitions, and delete their oldest records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_options import ChangeOptions, Flag, Long, NodeId, UsageError
from barnabas.cli.arguments.partition_files import read_offsets, read_partitions
from barnabas.cli.arguments.partition_selection import Topics, parse_topics
from barnabas.cli.arguments.topic_selection import topic_names
from barnabas.cli.output.advice import UnknownName, nearest, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, TopicPartitionInfo

__all__ = ["delete_records", "elect_leaders"]

_ELECTING = "ALTER on Cluster"
_DELETING = "DELETE on Topic:{item}"
_ELECTION_ADVICE = {
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "its broker must be alive and in sync: "
    "'barnabas topics describe' shows the replicas in sync",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "no replica can become the leader: 'barnabas topics describe' lists them",
}
_DELETION_ADVICE = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "use an offset between the log start and the log end offset, or -1 for all",
    ErrorCode.POLICY_VIOLATION: "records can only be deleted from topics whose cleanup.policy contains delete",
}
_ALL = -1


class Election(Enum):
    """Election types. Names are those of Kafka's tool, in any letter case."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def elect_leaders(
    topic: list[str] | None = None,
    *,
    election_type: Election = Election.PREFERRED,
    partition: list[NodeId] | None = None,
    all_topic_partitions: Flag = False,
    path_to_json_file: str | None = None,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Elect leaders of partitions: the preferred replicas, or any live replica of a partition without a leader.

    An unclean election can lose records, because a replica that was not in sync becomes the leader.

    For example:

        barnabas topics elect-leaders orders
        barnabas topics elect-leaders orders:0,2 --election-type unclean --dry-run
        barnabas topics elect-leaders --all-topic-partitions --election-type preferred
        barnabas topics elect-leaders --path-to-json-file partitions.json

    Parameters
    ----------
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    election_type
        preferred: elect the first replica, if another one leads. unclean: elect any replica, if none leads.
    partition
        A partition of the only topic. May be repeated.
    all_topic_partitions
        All partitions of the cluster that need an election.
    path_to_json_file
        A file in Kafka's format: {"partitions": [{"topic": "orders", "partition": 0}]}. - is the standard input.
    wait
        Return when every live broker has the new leaders.
    """
    if (bool(topic) + all_topic_partitions + (path_to_json_file is not None)) != 1:
        raise UsageError("no partitions given: name topics, or use --all-topic-partitions or --path-to-json-file")
    topics = _with_partitions(_topics(topic), partition)
    named = None if path_to_json_file is None else read_partitions(path_to_json_file, "--path-to-json-file")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import ElectionType

        wanted = None if all_topic_partitions else named or await _meant(admin, topics)
        if dry_run:
            names = await topic_names(admin) if wanted is None else [partition.topic for partition in wanted]
            return await _rehearsed(admin, names, wanted, is_unclean=election_type is Election.UNCLEAN)
        kind = ElectionType.UNCLEAN if election_type is Election.UNCLEAN else ElectionType.PREFERRED
        results = await admin.elect_leaders(kind, wanted, wait=wait)
        elected = [partition for partition, is_new in results.values.items() if is_new]
        problems = problems_of(results.errors, right=_ELECTING, advice=_ELECTION_ADVICE)
        changes = [_elected(partition, election_type.value) for partition in sorted(elected)]
        notes = _needless(len(results.values) - len(elected))
        if not changes and not problems and not notes:
            notes = ["no partition needs an election"]
        return change_answer(changes, problems, dry_run=False, notes=notes)

    return options.run(work, right=_ELECTING)


def delete_records(
    topic: list[str] | None = None,
    *,
    before_offset: Long | None = None,
    offset_json_file: str | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Delete the oldest records of partitions, up to an offset. This can't be undone.

    For example:

        barnabas topics delete-records orders:0 --before-offset 5000 --dry-run
        barnabas topics delete-records orders --before-offset -1
        barnabas topics delete-records --offset-json-file offsets.json

    Parameters
    ----------
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    before_offset
        The first offset to keep; -1 deletes all records.
    offset_json_file
        A file in Kafka's format: {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 5000}]}.
        - is the standard input.
    """
    if bool(topic) == (offset_json_file is not None):
        raise UsageError("no records given: name topics with --before-offset, or use --offset-json-file")
    if (before_offset is None) == bool(topic):
        raise UsageError("--before-offset needs topics: a file contains the offset of each partition")
    if before_offset is not None and before_offset < _ALL:
        raise UsageError(f"--before-offset {before_offset}: the offset must be at least 0, or -1 for all records")
    topics = _topics(topic)
    from_file = {} if offset_json_file is None else read_offsets(offset_json_file, "--offset-json-file")
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        before = from_file
        if before_offset is not None:
            before = dict.fromkeys(await _meant(admin, topics), before_offset)
        bounds, problems = await _bounds(admin, before)
        if dry_run:
            return await _rehearsed_deletion(admin, before, bounds, problems)
        results = await admin.delete_records(before)
        names = await topic_names(admin) if results.errors else []
        failed = [*_by_topic(results.errors, names)]
        changes = [
            _deleted(partition, start, bounds.get(partition)) for partition, start in sorted(results.values.items())
        ]
        return change_answer(changes, failed, dry_run=False)

    return options.run(work, right="DELETE on the topics")


def _topics(texts: Sequence[str] | None) -> Topics:
    topics = parse_topics(texts)
    for name, _ in topics:
        problem = topic_name_problem(name)
        if problem is not None:
            raise UsageError(f"{name}: {problem}")
    return topics


def _with_partitions(topics: Topics, partitions: Sequence[int] | None) -> Topics:
    """Add the partitions of ``--topic orders --partition 0``, as in Kafka's tool."""
    if not partitions:
        return topics
    if len(topics) != 1 or topics[0][1] is not None:
        raise UsageError("--partition needs a single topic; for several topics write orders:0,2")
    return [(topics[0][0], list(partitions))]


async def _meant(admin: AdminClient, topics: Topics) -> list[TopicPartition]:
    """Return the partitions of the topics. Raise UnknownName or AdminError."""
    described = await admin.describe_topics(list(dict.fromkeys(name for name, _ in topics)))
    for name, error in described.errors.items():
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        near = nearest(str(name), await topic_names(admin))
        raise UnknownName(str(name), "no topic of this name exists, or you may not see it", near)
    counts = {topic.name: len(topic.partitions) for topic in described.values.values()}
    for name, numbers in topics:
        for number in numbers or ():
            if not 0 <= number < counts[name]:
                raise UnknownName(f"{name}-{number}", f"topic {name} has the partitions 0 to {counts[name] - 1}")
    return sorted(
        {
            TopicPartition(name, number)
            for name, numbers in topics
            for number in (range(counts[name]) if numbers is None else numbers)
        }
    )


async def _rehearsed(
    admin: AdminClient, names: Iterable[str], wanted: Sequence[TopicPartition] | None, *, is_unclean: bool
) -> Answer:
    """Predict the result from the state of the partitions, because the protocol has no dry run for elections."""
    described = await admin.describe_topics(list(dict.fromkeys(names)))
    found = {
        TopicPartition(topic.name, info.partition): info
        for topic in described.values.values()
        for info in topic.partitions
    }
    problems = problems_of(described.errors, right="DESCRIBE on Topic:{item}")
    changes = []
    needless = 0
    for partition in sorted(found if wanted is None else wanted):
        if partition not in found:
            if partition.topic in described.values:
                problems.append(Problem("no such partition exists", str(partition), "UNKNOWN_TOPIC_OR_PARTITION"))
            continue
        at = found[partition]
        if is_unclean or at.leader != at.replicas[0]:
            outcome = _outlook(partition, at, is_unclean=is_unclean)
        else:
            outcome = None
        match outcome:
            case Change():
                changes.append(outcome)
            case Problem() if wanted is not None:
                problems.append(outcome)
            case _:
                needless += 1
    return change_answer(changes, problems, dry_run=True, notes=_needless(needless if wanted is not None else 0))


def _outlook(partition: TopicPartition, at: TopicPartitionInfo, *, is_unclean: bool) -> Change | Problem | None:
    if is_unclean:
        return None if at.leader is not None else _elected(partition, "unclean")
    if at.replicas[0] in at.isr:
        return _elected(partition, "preferred", f"{at.replicas[0]} instead of {at.leader}")
    return Problem(
        f"its preferred leader {at.replicas[0]} is not in sync", str(partition), "PREFERRED_LEADER_NOT_AVAILABLE",
        "its broker must be alive and in sync first",
    )  # fmt: skip


def _elected(partition: TopicPartition, kind: str, details: str = "") -> Change:
    more = {"topic": partition.topic, "partition": partition.partition, "election_type": kind}
    return Change("leader of", str(partition), "elected", details or kind, more)


def _needless(count: int) -> list[str]:
    return [f"{count} partitions need no election"] if count else []


async def _bounds(
    admin: AdminClient, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[int, int]], list[Problem]]:
    """Return the log start offset and log end offset of each partition."""
    from barnabas.clients.admin import OffsetSpec

    wanted = list(partitions)
    first = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.earliest()))
    end = await admin.list_offsets(dict.fromkeys(first.values, OffsetSpec.latest()))
    errors = first.errors | end.errors
    names = await topic_names(admin) if errors else []
    return (
        {partition: (first.values[partition].offset, listed.offset) for partition, listed in end.values.items()},
        _by_topic(errors, names),
    )


def _by_topic(errors: Mapping[TopicPartition, Any], names: Sequence[str]) -> list[Problem]:
    """Return problems, with the nearest name for an unknown topic. Other errors are about partitions."""
    problems = []
    for partition, error in errors.items():
        is_unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and partition.topic not in names
        meant = nearest(partition.topic, names) if is_unknown else ""
        right = _DELETING.replace("{item}", partition.topic)
        (problem,) = problems_of({partition: error}, right=right, advice=_DELETION_ADVICE)
        advice = f"did you mean {meant}?" if meant else problem.advice
        problems.append(Problem(problem.text, problem.item or str(partition), problem.code, advice))
    return problems


async def _rehearsed_deletion(
    admin: AdminClient,
    before: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    problems: Sequence[Problem],
) -> Answer:
    kept = await _topics_that_keep(admin, [partition.topic for partition in bounds])
    all_problems = list(problems)
    changes = []
    for partition, (first, end) in sorted(bounds.items()):
        offset = end if before[partition] == _ALL else before[partition]
        if partition.topic in kept:
            text = f"its cleanup.policy is {kept[partition.topic]}"
            advice = _DELETION_ADVICE[ErrorCode.POLICY_VIOLATION]
            all_problems.append(Problem(text, str(partition), "POLICY_VIOLATION", advice))
        elif offset > end:
            text = f"it ends at {end}, before {offset}"
            advice = _DELETION_ADVICE[ErrorCode.OFFSET_OUT_OF_RANGE]
            all_problems.append(Problem(text, str(partition), "OFFSET_OUT_OF_RANGE", advice))
        else:
            changes.append(_deleted(partition, max(first, offset), (first, end)))
    return change_answer(changes, all_problems, dry_run=True)


async def _topics_that_keep(admin: AdminClient, topics: Iterable[str]) -> dict[str, str]:
    """Return compacted topics with their cleanup policies, if the caller may see them."""
    from barnabas.clients.admin import ConfigResource

    key = "cleanup.policy"
    found = await admin.describe_configs([ConfigResource.topic(name) for name in dict.fromkeys(topics)], keys=[key])
    policies = {resource.name: config.get(key) or "" for resource, config in found.values.items()}
    return {name: policy for name, policy in policies.items() if policy and "delete" not in policy.split(",")}


def _deleted(partition: TopicPartition, start: int, bounds: tuple[int, int] | None) -> Change:
    gone = None if bounds is None else max(0, start - bounds[0])
    count = "" if gone is None else f", {gone} offsets"
    more = {"topic": partition.topic, "partition": partition.partition, "first_offset": start, "offsets": gone}
    return Change("records of", str(partition), "deleted", f"before {start}{count}", more)
