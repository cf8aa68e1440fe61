"""``barnabas log-dirs move``: move replicas to another directory of their broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ChangeOptions, Flag, NodeId, UsageError
from barnabas.cli.arguments.partition_selection import is_meant, parse_topics
from barnabas.cli.arguments.topic_selection import topic_names
from barnabas.cli.output.advice import UnknownName, nearest, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.progress import showing
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.cli.arguments.partition_selection import Topics
    from barnabas.clients.admin import AdminClient, LogDirDescription, TopicPartitionReplica

__all__ = ["move"]

_RIGHT = "ALTER on Cluster"
_POLL_S = (0.1, 2.0)
Directories = Mapping[int, Mapping[str, "LogDirDescription"]]


def move(
    topic: list[str] | None = None,
    *,
    to: str,
    broker_id: list[NodeId] | None = None,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Move replicas to another directory of their broker. The broker copies them while it serves clients.

    'barnabas reassign execute' moves replicas to directories of other brokers.

    For example:

        barnabas log-dirs move orders:0 --to /data/2 --dry-run
        barnabas log-dirs move orders --broker-id 1 --to /data/2 --wait

    Parameters
    ----------
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    to
        The target directory, as 'barnabas log-dirs describe' shows it.
    broker_id
        Only replicas of this broker. May be repeated. Default: all brokers that have this directory.
    wait
        Return when all replicas are copied.
    """
    topics = parse_topics(topic)
    if not topics:
        raise UsageError("no replicas given: name a topic, or some of its partitions as in orders:0,2")
    for name, _ in topics:
        problem = topic_name_problem(name)
        if problem is not None:
            raise UsageError(f"{name}: {problem}")
    if not to.startswith("/"):
        raise UsageError(f"--to {to}: the path of the directory must be absolute")
    options = options or ChangeOptions()
    dry_run, timeout = options.dry_run, options.timeout

    async def work(admin: AdminClient) -> Answer:
        from barnabas.protocol.api_keys import ApiKey

        await admin.require_api(ApiKey.ALTER_REPLICA_LOG_DIRS)
        found = await admin.describe_log_dirs(broker_id)
        if found.errors:
            return change_answer([], problems_of(found.errors, right="DESCRIBE on Cluster"), dry_run=dry_run)
        at = await _replicas(admin, topics, found.values)
        problems = _objections(found.values, {replica.broker_id for replica in at}, to, is_chosen=broker_id is not None)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        moves = {replica: to for replica, path in at.items() if path != to and to in found.values[replica.broker_id]}
        notes = [f"{replica} is in this directory already" for replica, path in at.items() if path == to]
        done = list(moves)
        if not dry_run and moves:
            results = await admin.alter_replica_log_dirs(moves)
            problems = problems_of(results.errors, right=_RIGHT)
            done = list(results.values)
            if wait:
                problems += await _wait(admin, dict.fromkeys(done, to), timeout)
        changes = [_change(replica, at[replica], to) for replica in sorted(done, key=str)]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work, right=_RIGHT)


async def _replicas(admin: AdminClient, topics: Topics, found: Directories) -> dict[TopicPartitionReplica, str]:
    """Return the directories of the selected replicas. Raise UnknownName for a topic or partition without replicas."""
    from barnabas.clients.admin import TopicPartitionReplica

    every = {
        TopicPartitionReplica(partition.topic, partition.partition, broker): path
        for broker, directories in found.items()
        for path, described in directories.items()
        for partition, info in described.replicas.items()
        if not info.is_future
    }
    at = {
        replica: every[replica]
        for replica in every
        if is_meant(TopicPartition(replica.topic, replica.partition), topics)
    }
    for name, numbers in topics:
        if not any(replica.topic == name for replica in every):
            known = await topic_names(admin)
            text = (
                "the selected brokers don't have a replica of this topic"
                if name in known
                else "no topic of this name exists"
            )
            raise UnknownName(name, text, "" if name in known else nearest(name, known))
        for number in numbers or ():
            if not any((replica.topic, replica.partition) == (name, number) for replica in at):
                raise UnknownName(f"{name}-{number}", "the selected brokers don't have a replica of this partition")
    return at


def _objections(found: Directories, brokers: set[int], to: str, *, is_chosen: bool) -> list[Problem]:
    """Return problems of brokers without the directory. Without --broker-id, only one broker must have it."""
    without = [broker for broker in sorted(brokers) if to not in found[broker]]
    if not is_chosen and len(without) < len(brokers):
        return []
    return [
        Problem(
            f"the broker does not have a directory {to}", f"broker {broker}", "LOG_DIR_NOT_FOUND",
            f"its directories are {_listed(found[broker])}",
        )
        for broker in without
    ]  # fmt: skip


def _listed(directories: Mapping[str, object]) -> str:
    return ", ".join(sorted(directories)) or "none"


async def _wait(
    admin: AdminClient, moves: Mapping[TopicPartitionReplica, str], timeout_s: float | None
) -> list[Problem]:
    """Wait until every replica is in its directory; without --timeout, the wait is unlimited."""
    until = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = _POLL_S[0]
    with showing(len(moves), "moving replicas") as advance:
        while True:
            found = await admin.describe_log_dirs(sorted({replica.broker_id for replica in moves}))
            left = [replica for replica, path in moves.items() if not _is_there(replica, path, found.values)]
            advance(len(moves) - len(left))
            if not left:
                return []
            if until is not None and time.monotonic() > until:
                advice = "the moves continue; 'barnabas log-dirs describe --partitions' shows them"
                return [Problem(f"{left[0]} was not moved within {timeout_s:g} s", advice=advice)]
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_S[1], pause_s * 1.5)


def _is_there(replica: TopicPartitionReplica, path: str, found: Directories) -> bool:
    described = found.get(replica.broker_id, {}).get(path)
    if described is None:
        return False
    return any(
        (partition.topic, partition.partition) == (replica.topic, replica.partition) and not info.is_future
        for partition, info in described.replicas.items()
    )


def _change(replica: TopicPartitionReplica, before: str, to: str) -> Change:
    more = {
        "topic": replica.topic, "partition": replica.partition, "broker": replica.broker_id, "directory": to,
        "directory_before": before,
    }  # fmt: skip
    return Change("replica", str(replica), "sent", f"from {before} to {to}", more)
