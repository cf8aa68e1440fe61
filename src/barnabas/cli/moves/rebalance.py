"""``barnabas cluster rebalance``: spread replicas and leaders equally over all brokers, with the fewest copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ChangeOptions, UsageError
from barnabas.cli.moves.planned_move import MoveOptions, PlannedMoves, cancel, confirm_and_execute, usable_racks
from barnabas.cli.output.advice import nearest
from barnabas.cli.output.answer import Answer, Problem
from barnabas.common.topic_name import topic_name_problem

if TYPE_CHECKING:
    from barnabas.cli.moves.cluster_survey import ClusterReplicas
    from barnabas.cli.moves.move_plan import MovePlan
    from barnabas.clients.admin import AdminClient

__all__ = ["rebalance"]


def rebalance(
    *,
    topic: list[str] | None = None,
    moves: MoveOptions | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Balance replicas, bytes and leaders over the brokers, with as few copies as possible.

    The command shows its plan and, on a terminal, asks for confirmation. It ends when all moves are complete and the
    throttle is removed. After an interruption, ongoing moves continue, and the same command makes the remaining ones.

    For example:

        barnabas cluster rebalance --dry-run
        barnabas cluster rebalance --throttle 50000000
        barnabas cluster rebalance --topic orders --topic payments --yes
        barnabas cluster rebalance --cancel

    Parameters
    ----------
    topic
        Move only partitions of this topic. Other topics still count as load. May be repeated.
    """
    moves, options = moves or MoveOptions(), options or ChangeOptions()
    for name in topic or ():
        problem = topic_name_problem(name)
        if problem is not None:
            raise UsageError(f"--topic {name}: {problem}")
    moves.brokers(), moves.rate()
    chosen, dry_run = None if topic is None else set(topic), options.dry_run

    def unknown(found: ClusterReplicas) -> list[Problem]:
        known = {partition.topic for partition in found.replicas}
        return [
            Problem("no topic of this name exists", name, advice=f"did you mean {near}?" if near else "")
            for name in sorted((chosen or set()) - known)
            for near in [nearest(name, known)]
        ]

    async def work(admin: AdminClient) -> Answer:
        if moves.cancel:
            return await cancel(admin, lambda _: True, dry_run=dry_run)
        done = ["the brokers are balanced, as far as racks and sizes allow"]
        wanted = PlannedMoves(
            lambda found: _plan(found, moves, chosen), moves, options, done, problems=unknown, notes=_absent
        )
        return await confirm_and_execute(admin, wanted)

    return options.run(work, right="ALTER on Cluster")


def _absent(found: ClusterReplicas) -> list[str]:
    held = {broker for brokers in found.replicas.values() for broker in brokers}
    return [
        f"broker {broker} is not alive and keeps its replicas; 'barnabas cluster drain {broker}' would move them"
        for broker in sorted(held - found.brokers.keys())
    ]


def _plan(found: ClusterReplicas, moves: MoveOptions, topics: set[str] | None) -> MovePlan:
    from barnabas.cli.moves.move_plan import MovePlan
    from barnabas.placement.cluster_model import ReplicaAssignments
    from barnabas.placement.replica_balance import rebalance

    usable = usable_racks(found, moves)
    racks = {broker: None if moves.disable_rack_aware else rack for broker, rack in found.brokers.items()}
    stays = {
        partition
        for partition in found.replicas
        if partition in found.under_way
        or found.leaders[partition] is None
        or (topics is not None and partition.topic not in topics)
    }
    closed = found.cordoned | (found.brokers.keys() - usable.keys())
    planned = rebalance(ReplicaAssignments(racks, found.replicas, found.sizes, found.leaders, frozenset(stays), closed))
    after = {**found.replicas, **{move.partition: move.after for move in planned}}
    moved = {move.partition for move in planned}
    elections = [
        partition
        for partition in sorted(after)
        if partition not in moved and partition not in stays and found.leaders[partition] != after[partition][0]
        and after[partition][0] in found.brokers
    ]  # fmt: skip
    return MovePlan(found, planned, elections)
