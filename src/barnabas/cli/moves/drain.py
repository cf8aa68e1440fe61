"""``barnabas cluster drain``: move all replicas of some brokers to the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import ChangeOptions, Flag, NodeId, UsageError
from barnabas.cli.arguments.config_resources import resource_problems
from barnabas.cli.moves.planned_move import MoveOptions, PlannedMoves, cancel, confirm_and_execute, usable_racks
from barnabas.cli.moves.reassignment import ids
from barnabas.cli.output.answer import Answer, Problem

if TYPE_CHECKING:
    from barnabas.cli.moves.cluster_survey import ClusterReplicas
    from barnabas.cli.moves.move_plan import MovePlan
    from barnabas.clients.admin import AdminClient

__all__ = ["drain"]


def drain(
    broker_id: list[NodeId],
    *,
    cordon: Flag = False,
    moves: MoveOptions | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Move all replicas of brokers to others, so that the brokers can be removed. Other replicas don't move.

    The command shows its plan and, on a terminal, asks for confirmation. It ends when the brokers have no replicas and
    the throttle is removed. After an interruption, ongoing moves continue, and the same command makes the others.

    For example:

        barnabas cluster drain 3 --dry-run
        barnabas cluster drain 3 --throttle 50000000
        barnabas cluster drain 3 4 --broker-list 1,2,5,6 --cordon --yes
        barnabas cluster drain 3 --cancel

    Parameters
    ----------
    broker_id
        The brokers to drain.
    cordon
        Also place no replicas of new topics on these brokers (cordoned.log.dirs=*, since Kafka 4.3). With --cancel,
        allow them again.
    """
    moves, options = moves or MoveOptions(), options or ChangeOptions()
    leaving, dry_run = tuple(dict.fromkeys(broker_id)), options.dry_run
    both = [broker for broker in moves.brokers() or () if broker in leaving]
    if both:
        raise UsageError(f"--broker-list: broker {both[0]} is one of those to drain")
    moves.rate()

    async def work(admin: AdminClient) -> Answer:
        if cordon and (moves.cancel or dry_run):
            problems = await _cordon(admin, leaving, None if moves.cancel else "*", dry_run=dry_run)
            if problems:
                return Answer({}, problems=problems)
        if moves.cancel:
            return await cancel(
                admin, lambda going: not set(leaving).isdisjoint(going.removing_replicas), dry_run=dry_run
            )

        async def first(admin: AdminClient, found: ClusterReplicas) -> list[Problem]:
            return await _cordon(admin, [broker for broker in leaving if broker in found.brokers], "*", dry_run=False)

        empty = f"{'brokers' if len(leaving) > 1 else 'broker'} {ids(leaving)} {'have' if len(leaving) > 1 else 'has'}"
        done = [f"{empty} no replicas: stop it, then 'barnabas cluster unregister'"]
        return await confirm_and_execute(
            admin,
            PlannedMoves(
                lambda found: _plan(found, moves, leaving), moves, options, done, repeats=True,
                problems=lambda found: _objections(found, leaving), first=first if cordon else None,
            ),
        )  # fmt: skip

    return options.run(work, right="ALTER on Cluster")


async def _cordon(
    admin: AdminClient, brokers: Sequence[int], directories: str | None, *, dry_run: bool
) -> list[Problem]:
    from barnabas.clients.admin import AlterConfigOp, ConfigResource

    name = "cordoned.log.dirs"
    change = AlterConfigOp.delete(name) if directories is None else AlterConfigOp.set(name, directories)
    changes = {ConfigResource.broker(broker): [change] for broker in brokers}
    results = await admin.incremental_alter_configs(changes, validate_only=dry_run)
    return await resource_problems(admin, results.errors, "ALTER_CONFIGS")


def _objections(found: ClusterReplicas, leaving: tuple[int, ...]) -> list[Problem]:
    held = {broker for brokers in found.replicas.values() for broker in brokers}
    known = sorted({*found.brokers, *held})
    problems = [
        Problem(
            "this broker does not exist, and no replica is assigned to it",
            str(broker),
            advice=f"the brokers are {ids(known)}",
        )
        for broker in leaving
        if broker not in known
    ]
    problems += [
        Problem(
            f"the partition has no leader, so it can't be copied from {ids(brokers)}", str(partition),
            advice="start one of these brokers, or delete the topic",
        )
        for partition, brokers in sorted(found.replicas.items())
        if found.leaders[partition] is None and not set(leaving).isdisjoint(brokers)
    ]  # fmt: skip
    return problems


def _plan(found: ClusterReplicas, moves: MoveOptions, leaving: tuple[int, ...]) -> MovePlan:
    from barnabas.cli.moves.move_plan import MovePlan
    from barnabas.placement.cluster_model import ReplicaAssignments
    from barnabas.placement.replica_balance import drain

    racks = {
        broker: rack for broker, rack in usable_racks(found, moves, leaving).items() if broker not in found.cordoned
    }
    state = ReplicaAssignments(racks, found.replicas, found.sizes, found.leaders)
    return MovePlan(found, drain(state, leaving))
