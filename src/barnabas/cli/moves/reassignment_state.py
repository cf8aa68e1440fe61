"""Report the progress of moves, for ``verify``, ``list``, ``cancel`` and ``execute --wait``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.cli.arguments.partition_files import RequestedReplicas
from barnabas.cli.moves.reassignment import (
    ALTER,
    ReassignmentState,
    directory_change,
    ids,
    read_reassignment_state,
    unthrottle,
)
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.exit_status import DENIED, DONE
from barnabas.cli.output.table import Sheet
from barnabas.clients.admin import TopicPartitionReplica
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.cli.moves.reassignment_arguments import RequestedMoves
    from barnabas.clients.admin import AdminClient, PartitionReassignment, TopicPartitionReplica

__all__ = ["cancelled_answer", "listed_answer", "ongoing_reassignments", "verified_answer"]

_COMPLETE, _MOVING, _ELSEWHERE = "complete", "on its way", "elsewhere"


async def verified_answer(admin: AdminClient, wanted: RequestedMoves, *, frees: bool, dry_run: bool) -> Answer:
    stage = await read_reassignment_state(admin, wanted.topic_names)
    problems = list(stage.problems)
    missing = {problem.item for problem in problems}
    sheet = Sheet(columns=("topic", "partition", "state", "replicas", "wanted"), keep=3)
    documents = []
    counts = dict.fromkeys((_COMPLETE, _MOVING, _ELSEWHERE), 0)
    for partition in [] if problems and not wanted.by_file else wanted.partitions(stage):
        if partition.topic in missing:
            continue
        move = wanted.by_file.get(partition)
        state = _state(stage, partition, move)
        counts[state] += 1
        now = stage.replicas.get(partition, ())
        then = list(move.replicas) if move is not None else None
        sheet.add(partition.topic, str(partition.partition), state, ids(now), ids(then or ()))
        documents.append(
            {
                "topic": partition.topic, "partition": partition.partition, "state": state, "replicas": list(now),
                "wanted": then,
            }
        )  # fmt: skip
        if state == _ELSEWHERE:
            problems.append(_elsewhere(partition, now, then or ()))
    directories, more = await _directories(admin, wanted.by_file)
    for name, state in directories.items():
        counts[state] += 1
        documents.append({"replica": name, "state": state})
    problems += more
    sheet.drop_last_column_if_empty()
    notes = [f"replica {name} is {state}" for name, state in directories.items()]
    document: dict[str, object] = {"dry_run": dry_run, "partitions": documents, "changes": []}
    if not counts[_MOVING] and frees and not stage.under_way and not stage.problems:
        changes, failed = await unthrottle(admin, wanted.topic_names, dry_run=dry_run)
        problems += failed
        freed = change_answer(changes, dry_run=dry_run)
        document["changes"] = freed.document["changes"]
        if changes:
            notes.append(f"{len(changes)} throttles {'would be' if dry_run else 'were'} removed")
    status = DENIED if counts[_MOVING] else DONE
    return Answer(document, [sheet] if sheet.rows else [], notes, problems, status=status)


def listed_answer(moving: Mapping[TopicPartition, PartitionReassignment]) -> Answer:
    sheet = Sheet(columns=("topic", "partition", "replicas", "adding", "removing"), keep=5)
    for partition, reassignment in sorted(moving.items()):
        sheet.add(
            partition.topic, str(partition.partition), ids(reassignment.replicas), ids(reassignment.adding_replicas),
            ids(reassignment.removing_replicas),
        )  # fmt: skip
    document = {
        "reassignments": [
            {
                "topic": partition.topic, "partition": partition.partition, "replicas": list(reassignment.replicas),
                "adding": list(reassignment.adding_replicas), "removing": list(reassignment.removing_replicas),
            }
            for partition, reassignment in sorted(moving.items())
        ]
    }  # fmt: skip
    return Answer(document, [sheet] if moving else [], [] if moving else ["no moves are in progress"])


async def cancelled_answer(admin: AdminClient, wanted: RequestedMoves | None, *, frees: bool, dry_run: bool) -> Answer:
    """Cancel the moves of ``wanted``, or with None all moves. Notes list partitions that do not move."""
    problems: list[Problem] = []
    notes: list[str] = []
    if wanted is None:
        moving = await admin.list_partition_reassignments()
        topics = list(dict.fromkeys(partition.topic for partition in moving))
    else:
        stage = await read_reassignment_state(admin, wanted.topic_names)
        problems += stage.problems
        meant = [] if problems and not wanted.by_file else wanted.partitions(stage)
        moving = {partition: stage.under_way[partition] for partition in meant if partition in stage.under_way}
        topics = [name for name in wanted.topic_names if name not in {problem.item for problem in problems}]
        notes = [
            f"{partition} is not moving" for partition in meant if partition not in moving and partition.topic in topics
        ]
    changes = [_cancelled(partition, moving[partition]) for partition in sorted(moving)]
    if not dry_run and moving:
        results = await admin.alter_partition_reassignments(dict.fromkeys(moving))
        problems += problems_of(results.errors, right=ALTER)
        changes = [_cancelled(partition, moving[partition]) for partition in sorted(results.values)]
    if wanted is not None and wanted.by_file:
        back, failed = await _send_back(admin, wanted.by_file, dry_run=dry_run)
        changes += back
        problems += failed
    if frees and not problems:
        freed, failed = await unthrottle(admin, topics, dry_run=dry_run)
        changes += freed
        problems += failed
    if not changes and not problems and not notes:
        notes = ["no moves are in progress"]
    return change_answer(changes, problems, dry_run=dry_run, notes=notes)


async def ongoing_reassignments(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas]
) -> list[TopicPartition]:
    """Return the moves that are not complete yet."""
    under_way = await admin.list_partition_reassignments(moves)
    directories, _ = await _future_replicas(admin, moves)
    return sorted({*under_way, *(TopicPartition(replica.topic, replica.partition) for replica in directories)})


def _state(stage: ReassignmentState, partition: TopicPartition, move: RequestedReplicas | None) -> str:
    if partition in stage.under_way:
        return _MOVING
    if move is None or stage.replicas.get(partition) == move.replicas:
        return _COMPLETE
    return _ELSEWHERE


def _elsewhere(partition: TopicPartition, now: tuple[int, ...], wanted: Iterable[int]) -> Problem:
    if not now:
        return Problem("no such partition exists", str(partition), "UNKNOWN_TOPIC_OR_PARTITION")
    return Problem(
        f"its replicas are on {ids(now)}, not on {ids(wanted)}, and it is not moving", str(partition),
        advice="'barnabas reassign execute' with the same file starts it again",
    )  # fmt: skip


async def _future_replicas(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas]
) -> tuple[dict[TopicPartitionReplica, tuple[str, bool]], dict[TopicPartitionReplica, str]]:
    """Return the replicas with a given directory that are still copied to another one, and the directory of each."""
    wanted = {
        TopicPartitionReplica(partition.topic, partition.partition, broker): path
        for partition, move in moves.items()
        for broker, path in move.directories()
    }
    if not wanted:
        return {}, {}
    found = await admin.describe_log_dirs(sorted({replica.broker_id for replica in wanted}), partitions=moves)
    moving: dict[TopicPartitionReplica, tuple[str, bool]] = {}
    at: dict[TopicPartitionReplica, str] = {}
    for broker, directories in found.values.items():
        for path, described in directories.items():
            for partition, info in described.replicas.items():
                replica = TopicPartitionReplica(partition.topic, partition.partition, broker)
                if replica not in wanted:
                    continue
                if info.is_future:
                    moving[replica] = (path, path == wanted[replica])
                else:
                    at[replica] = path
    return moving, at


async def _directories(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas]
) -> tuple[dict[str, str], list[Problem]]:
    """Return the state of each replica with a given directory."""
    moving, at = await _future_replicas(admin, moves)
    states: dict[str, str] = {}
    problems = []
    for partition, move in sorted(moves.items()):
        for broker, path in move.directories():
            replica = TopicPartitionReplica(partition.topic, partition.partition, broker)
            if replica in moving:
                states[str(replica)] = _MOVING
            elif at.get(replica) == path:
                states[str(replica)] = _COMPLETE
            else:
                states[str(replica)] = _ELSEWHERE
                where = f"it is in {at[replica]}" if replica in at else "it does not exist"
                problems.append(Problem(f"{where} and not in {path}, and it is not moving", str(replica)))
    return states, problems


async def _send_back(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas], *, dry_run: bool
) -> tuple[list[Change], list[Problem]]:
    """Cancel copies to the directories of the file: the replicas stay in their current directories."""
    moving, at = await _future_replicas(admin, moves)
    back = {replica: at[replica] for replica, (_, is_there) in moving.items() if is_there and replica in at}
    if dry_run or not back:
        return [directory_change(replica, path) for replica, path in back.items()], []
    results = await admin.alter_replica_log_dirs(back)
    changes = [directory_change(replica, back[replica]) for replica in results.values]
    return changes, problems_of(results.errors, right=ALTER)


def _cancelled(partition: TopicPartition, move: PartitionReassignment) -> Change:
    stays = [broker for broker in move.replicas if broker not in move.adding_replicas]
    more = {"topic": partition.topic, "partition": partition.partition, "replicas": stays}
    return Change("move of", str(partition), "cancelled", f"it stays on {ids(stays)}", more)
