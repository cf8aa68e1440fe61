"""``barnabas reassign generate|execute|verify|list|cancel``: move partitions to other brokers and directories."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Count, Flag, Long, UsageError
from barnabas.cli.arguments.partition_files import RequestedReplicas, moves_document
from barnabas.cli.arguments.partition_selection import is_meant
from barnabas.cli.moves.reassignment import (
    ALTER,
    ReassignmentState,
    ThrottleRates,
    ids,
    move_directories,
    problems_of_moves,
    read_reassignment_state,
    throttle,
    throttles,
    unthrottle,
)
from barnabas.cli.moves.reassignment_arguments import parse_rates, read_requested_moves
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app(
    "reassign",
    "Move partitions to other brokers and directories, and change their replication factor.\n\n"
    "`generate` proposes new replicas; `execute` starts the moves; `verify` checks whether they are complete.",
)
main = main_of(app)

_DESCRIBE = "DESCRIBE on Cluster"
_POLL_S = (0.2, 2.0)


@app.command
def generate(
    *,
    topics_to_move_json_file: str | None = None,
    topic: list[str] | None = None,
    broker_list: str | None = None,
    replication_factor: Count | None = None,
    disable_rack_aware: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Propose replicas so that all brokers have the same number, with as few moves as possible.

    --output json writes a file for execute and for Kafka's tool. Its "current" part contains the current replicas.

    For example:

        barnabas reassign generate --topic orders --broker-list 1,2,3
        barnabas reassign generate --topics-to-move-json-file topics.json --broker-list 2,3 --output json > plan.json
        barnabas reassign generate --topic orders --replication-factor 3

    Parameters
    ----------
    topics_to_move_json_file
        A file in Kafka's format: {"version": 1, "topics": [{"topic": "orders"}]}. - is the standard input.
    topic
        A topic, or some of its partitions as in orders:0,2. May be repeated.
    broker_list
        The brokers to use, for example 1,2,3. Default: all live brokers.
    replication_factor
        The new replication factor. Default: unchanged.
    disable_rack_aware
        Ignore racks.
    """
    wanted = read_requested_moves(
        topics_to_move_json_file=topics_to_move_json_file, topic=topic, broker_list=broker_list,
        replication_factor=replication_factor, disable_rack_aware=disable_rack_aware,
    )  # fmt: skip

    async def work(admin: AdminClient) -> Answer:
        stage = await read_reassignment_state(admin, wanted.topic_names)
        if stage.problems:
            return Answer({}, problems=stage.problems)
        moves = wanted.moves(stage)
        planned = {partition: move.replicas for partition, move in moves.items()}
        document = moves_document(planned) | {
            "current": moves_document({partition: stage.replicas[partition] for partition in moves})
        }
        different = sorted(partition for partition in moves if planned[partition] != stage.replicas[partition])
        notes = [f"{len(moves) - len(different)} of {len(moves)} partitions do not change"]
        if different:
            notes.append("--output json writes a file for 'barnabas reassign execute --reassignment-json-file'")
        return Answer(document, [_plan_sheet(stage, moves, different)] if different else [], notes)

    return (options or ClusterOptions()).run(work, right=_DESCRIBE)


@app.command
def execute(
    *,
    reassignment_json_file: str | None = None,
    topic: list[str] | None = None,
    broker_list: str | None = None,
    replicas: str | None = None,
    replication_factor: Count | None = None,
    disable_rack_aware: Flag = False,
    additional: Flag = False,
    disallow_replication_factor_change: Flag = False,
    throttle: Long | None = None,
    replica_alter_log_dirs_throttle: Long | None = None,
    rollback_file: str | None = None,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Start to move the partitions of a file or of topics.

    No move starts if one of them is invalid. Moves continue after this command ends; --wait waits for them.

    For example:

        barnabas reassign execute --reassignment-json-file plan.json --throttle 50000000
        barnabas reassign execute --topic orders --broker-list 2,3 --wait
        barnabas reassign execute --topic orders:0 --replicas 3,1 --dry-run
        barnabas reassign execute --topic orders --replication-factor 3 --rollback-file before.json

    Parameters
    ----------
    reassignment_json_file
        A file in Kafka's format or of generate: {"version": 1, "partitions": [{"topic": "orders", "partition": 0,
        "replicas": [1, 2], "log_dirs": ["any", "/data/2"]}]}; log_dirs is optional. - is the standard input.
    topic
        Instead of a file: a topic, or some of its partitions as in orders:0,2. May be repeated.
    broker_list
        With --topic: the brokers to spread replicas over, as generate does. Default: all live brokers.
    replicas
        With --topic: exactly these brokers for each partition, the preferred leader first, for example 3,1.
    replication_factor
        With --topic: the new replication factor.
    disable_rack_aware
        With --topic: ignore racks.
    additional
        Allow other ongoing moves; those of the same partitions are replaced. Also changes throttles.
    disallow_replication_factor_change
        Refuse moves that change the replication factor.
    throttle
        Bytes per second that each broker may copy from and to others, until verify or --wait finds the moves complete.
    replica_alter_log_dirs_throttle
        The same limit for copies between the directories of a broker.
    rollback_file
        Write the current replicas to this file, with which execute can undo the moves. The file must not exist yet.
    wait
        Return when all moves are complete, and remove the throttles.
    """
    options = options or ChangeOptions()
    dry_run, timeout = options.dry_run, options.timeout
    rates = parse_rates(throttle, replica_alter_log_dirs_throttle)
    wanted = read_requested_moves(
        reassignment_json_file=reassignment_json_file, topic=topic, broker_list=broker_list, replicas=replicas,
        replication_factor=replication_factor, disable_rack_aware=disable_rack_aware,
    )  # fmt: skip

    async def work(admin: AdminClient) -> Answer:
        from barnabas.protocol.api_keys import ApiKey

        stage = await read_reassignment_state(admin, wanted.topic_names)
        moves = {} if stage.problems and not wanted.by_file else wanted.moves(stage)
        problems = problems_of_moves(
            stage, moves, additional=additional, keeps_factor=disallow_replication_factor_change
        )
        if any(list(move.directories()) for move in moves.values()):
            await admin.require_api(ApiKey.ALTER_REPLICA_LOG_DIRS)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        if rollback_file is not None and not dry_run:
            _write_rollback(rollback_file, stage, moves)
        answer = await _begin(admin, stage, moves, rates, dry_run=dry_run, keeps=disallow_replication_factor_change)
        if wait and not dry_run and not answer.problems:
            left = await _wait(admin, moves, timeout)
            answer.problems = left
            if not left:
                await admin.await_replicas({partition: move.replicas for partition, move in moves.items()})
                _, answer.problems = await unthrottle(admin, wanted.topic_names, dry_run=False)
                answer.notes = [*answer.notes, "all partitions have their target replicas"]
        elif not dry_run and answer.document["changes"] and not answer.problems:
            answer.notes = [*answer.notes, "'barnabas reassign list' shows the ongoing moves"]
        return answer

    return options.run(work, right=ALTER)


@app.command
def verify(
    *,
    reassignment_json_file: str | None = None,
    topic: list[str] | None = None,
    preserve_throttles: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Check whether each move is complete, and remove the throttles when all moves have ended.

    The exit status is 3 while a move is in progress.

    For example:

        barnabas reassign verify --reassignment-json-file plan.json
        barnabas reassign verify --topic orders --preserve-throttles

    Parameters
    ----------
    reassignment_json_file
        The file that was given to execute. - is the standard input.
    topic
        Instead of a file: a topic, or some of its partitions as in orders:0,2. May be repeated.
    preserve_throttles
        Keep the throttles.
    """
    from barnabas.cli.moves.reassignment_state import verified_answer

    options = options or ChangeOptions()
    dry_run = options.dry_run
    wanted = read_requested_moves(reassignment_json_file=reassignment_json_file, topic=topic)

    async def work(admin: AdminClient) -> Answer:
        return await verified_answer(admin, wanted, frees=not preserve_throttles, dry_run=dry_run)

    return options.run(work, right=_DESCRIBE)


@app.command(name="list")
def list_(*, topic: list[str] | None = None, options: ClusterOptions | None = None) -> int:
    """List ongoing moves.

    For example:

        barnabas reassign list
        barnabas reassign list --topic orders --output json

    Parameters
    ----------
    topic
        Only moves of this topic, or of some of its partitions as in orders:0,2. May be repeated.
    """
    from barnabas.cli.moves.reassignment_state import listed_answer

    topics = read_requested_moves(topic=topic).topics if topic else None

    async def work(admin: AdminClient) -> Answer:
        moving = await admin.list_partition_reassignments()
        return listed_answer(
            {tp: reassignment for tp, reassignment in moving.items() if topics is None or is_meant(tp, topics)}
        )

    return (options or ClusterOptions()).run(work, right=_DESCRIBE)


@app.command
def cancel(
    *,
    reassignment_json_file: str | None = None,
    topic: list[str] | None = None,
    all: Flag = False,
    preserve_throttles: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Cancel ongoing moves: the partitions stay on their original brokers. Removes the throttles.

    For example:

        barnabas reassign cancel --reassignment-json-file plan.json
        barnabas reassign cancel --topic orders:0 --dry-run
        barnabas reassign cancel --all

    Parameters
    ----------
    reassignment_json_file
        The file that was given to execute. - is the standard input.
    topic
        Instead of a file: a topic, or some of its partitions as in orders:0,2. May be repeated.
    all
        All ongoing moves.
    preserve_throttles
        Keep the throttles.
    """
    from barnabas.cli.moves.reassignment_state import cancelled_answer

    if all and (reassignment_json_file or topic):
        raise UsageError("--all includes every move: omit --reassignment-json-file and --topic")
    wanted = None if all else read_requested_moves(reassignment_json_file=reassignment_json_file, topic=topic)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        return await cancelled_answer(admin, wanted, frees=not preserve_throttles, dry_run=dry_run)

    return options.run(work, right=ALTER)


async def _begin(
    admin: AdminClient,
    stage: ReassignmentState,
    moves: Mapping[TopicPartition, RequestedReplicas],
    rates: ThrottleRates,
    *,
    dry_run: bool,
    keeps: bool,
) -> Answer:
    """Set throttles and directories of new replicas, then start the moves. If no move starts, remove the throttles."""
    needed = {
        partition: move.replicas
        for partition, move in moves.items()
        if move.replicas != stage.replicas[partition] or partition in stage.under_way
    }
    settings = throttles(stage, moves, rates)
    changes, problems = await throttle(admin, settings, dry_run=True)
    if problems:
        return change_answer([], problems, dry_run=dry_run)
    notes = _unchanged_notes(moves, needed)
    if dry_run:
        changes += [_reassigned(stage, partition, brokers) for partition, brokers in sorted(needed.items())]
        changes += [
            Change("replica", f"{partition} on broker {broker}", "sent", f"to {path}")
            for partition, move in sorted(moves.items())
            for broker, path in move.directories()
        ]
        return change_answer(changes, dry_run=True, notes=notes)
    changes, problems = await throttle(admin, settings, dry_run=False)
    if problems:
        return change_answer(changes, problems, dry_run=False)
    await _announce_directories(admin, moves, needed)
    results = await admin.alter_partition_reassignments(needed, allow_replication_factor_change=not keeps)
    changes += [_reassigned(stage, partition, needed[partition]) for partition in sorted(results.values)]
    problems = problems_of(results.errors, right=ALTER)
    if needed and not results.values and not stage.under_way:
        undone = {resource: dict.fromkeys(given) for resource, given in settings.items()}
        _, failed = await throttle(admin, undone, dry_run=False)
        return change_answer([], [*problems, *failed], dry_run=False, notes=notes)
    begun = {partition: move for partition, move in moves.items() if partition not in results.errors}
    sent, failed = await move_directories(admin, begun)
    return change_answer([*changes, *sent], [*problems, *failed], dry_run=False, notes=notes)


async def _announce_directories(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas], needed: Mapping[TopicPartition, object]
) -> None:
    """Send the directories of new replicas. A broker stores them, but responds that the replica does not exist yet."""
    await move_directories(
        admin, {partition: move for partition, move in moves.items() if partition in needed}, waits=False
    )


def _unchanged_notes(
    moves: Mapping[TopicPartition, RequestedReplicas], needed: Mapping[TopicPartition, object]
) -> list[str]:
    same = len(moves) - len(needed)
    return [f"{same} of {len(moves)} partitions are already on these brokers"] if same else []


def _reassigned(stage: ReassignmentState, partition: TopicPartition, brokers: Sequence[int]) -> Change:
    before = stage.replicas[partition]
    details = f"from {ids(before)} to {ids(brokers)}"
    more = {
        "topic": partition.topic, "partition": partition.partition, "replicas": list(brokers),
        "replicas_before": list(before),
    }  # fmt: skip
    return Change("move of", str(partition), "begun", details, more)


def _write_rollback(path: str, stage: ReassignmentState, moves: Mapping[TopicPartition, RequestedReplicas]) -> None:
    document = moves_document({partition: stage.replicas[partition] for partition in moves})
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise ValueError(f"--rollback-file: can't write {path}: {error.strerror}; no move was started") from error


async def _wait(
    admin: AdminClient, moves: Mapping[TopicPartition, RequestedReplicas], timeout_s: float | None
) -> list[Problem]:
    """Wait until none of the moves is in progress; without --timeout, the wait is unlimited."""
    from barnabas.cli.moves.reassignment_state import ongoing_reassignments
    from barnabas.cli.output.progress import showing

    until = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = _POLL_S[0]
    with showing(len(moves), "moving partitions") as advance:
        while True:
            left = await ongoing_reassignments(admin, moves)
            advance(len(moves) - len(left))
            if not left:
                return []
            if until is not None and time.monotonic() > until:
                named = ", ".join(map(str, left[:3])) + (", ..." if len(left) > 3 else "")
                advice = "the moves continue; 'barnabas reassign verify' checks whether they are complete"
                return [Problem(f"{named} not moved within {timeout_s:g} s", advice=advice)]
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_S[1], pause_s * 1.5)


def _plan_sheet(
    stage: ReassignmentState, moves: Mapping[TopicPartition, RequestedReplicas], different: Sequence[TopicPartition]
) -> Any:
    sheet = Sheet(columns=("topic", "partition", "now", "then", "copied to"), keep=4)
    for partition in different:
        now, then = stage.replicas[partition], moves[partition].replicas
        new = [broker for broker in then if broker not in now]
        sheet.add(partition.topic, str(partition.partition), ids(now), ids(then), ids(new))
    sheet.drop_last_column_if_empty()
    return sheet
