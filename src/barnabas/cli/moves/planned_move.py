"""The common part of ``cluster rebalance`` and ``cluster drain``: show the plan, confirm, move, end the throttle.

The command keeps no state on this machine, so after an interruption, the same command continues on any machine.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from barnabas.cli.arguments.cluster_options import ChangeOptions, Count, Flag, Long, running_command
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.arguments.partition_selection import broker_ids
from barnabas.cli.moves.reassignment_arguments import parse_rates
from barnabas.cli.output.advice import problem_of, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import show
from barnabas.common.printable import printable

if TYPE_CHECKING:
    from barnabas.cli.moves.cluster_survey import ClusterReplicas
    from barnabas.cli.moves.move_plan import MovePlan
    from barnabas.cli.moves.throttle import CurrentThrottle
    from barnabas.clients.admin import AdminClient, PartitionReassignment

__all__ = ["MoveOptions", "PlannedMoves", "cancel", "confirm_and_execute", "usable_racks"]

_RIGHT = "ALTER on Cluster"
_ROUNDS = 5
_GOES_ON = "ongoing moves continue, with their throttle; run the same command to make the remaining moves"


@Parameter(name="*", group=Group("Moves", sort_key=80))
@dataclass(kw_only=True)
class MoveOptions:
    """Options of commands that plan their moves."""

    broker_list: str | None = None
    """Only these brokers receive replicas, for example 1,2,3. Default: all live brokers."""
    disable_rack_aware: Flag = False
    """Ignore racks."""
    throttle: Long | None = None
    """Bytes per second that each broker may copy from and to others. The limit ends with the moves."""
    at_once: Annotated[Count, Parameter(show_default=True)] = 50
    """Number of partitions that each broker may move concurrently."""
    cancel: Flag = False
    """Cancel the ongoing moves, and remove the throttle."""
    yes: Flag = False
    """Start without confirmation. Without a terminal, the command never asks for confirmation."""

    def brokers(self) -> tuple[int, ...] | None:
        return broker_ids(self.broker_list, "--broker-list")

    def rate(self) -> int | None:
        return parse_rates(self.throttle, None).between_brokers


@dataclass(frozen=True, slots=True)
class PlannedMoves:
    """The moves to make. ``plan`` raises ValueError for an impossible request; ``problems`` prevent any plan.

    ``done`` is the final message. With ``repeats``, plan again until no moves remain. ``first`` runs before the moves,
    and returns its problems.
    """

    plan: Callable[[ClusterReplicas], MovePlan]
    options: MoveOptions
    change: ChangeOptions
    done: Sequence[str] = ()
    repeats: bool = False
    problems: Callable[[ClusterReplicas], list[Problem]] = field(default=lambda _: [])
    notes: Callable[[ClusterReplicas], list[str]] = field(default=lambda _: [])
    first: Callable[[AdminClient, ClusterReplicas], Awaitable[list[Problem]]] | None = None


def usable_racks(found: ClusterReplicas, options: MoveOptions, leaving: Iterable[int] = ()) -> dict[int, str | None]:
    """Return the usable brokers, with the racks to respect. Raise ValueError."""
    chosen = [broker for broker in options.brokers() or sorted(found.brokers) if broker not in leaving]
    unknown = [broker for broker in chosen if broker not in found.brokers]
    alive = ", ".join(map(str, sorted(found.brokers)))
    if unknown:
        raise ValueError(f"--broker-list: broker {unknown[0]} is not alive; the live brokers are {alive}")
    racks = {broker: None if options.disable_rack_aware else found.brokers[broker] for broker in chosen}
    silent = [str(broker) for broker, rack in racks.items() if rack is None]
    if silent and len(silent) < len(racks):
        raise ValueError(
            f"brokers {', '.join(silent)} have no rack, but others do: use --disable-rack-aware, or set broker.rack"
        )
    return racks


async def confirm_and_execute(admin: AdminClient, moves: PlannedMoves) -> Answer:
    """Run the whole command. After Ctrl-C, report that ongoing moves continue."""
    from barnabas.cli.moves.cluster_survey import read_cluster_replicas
    from barnabas.cli.moves.throttle import find_throttle

    found = await read_cluster_replicas(admin)
    problems = [*found.problems, *moves.problems(found)]
    if problems:
        return Answer({}, problems=problems)
    plan = moves.plan(found)
    throttled = await find_throttle(admin)
    answer = _shown(plan, throttled, moves)
    if answer.problems or moves.change.dry_run:
        return answer
    if plan.is_empty and not throttled.settings and moves.first is None:
        answer.notes = [*moves.done, *answer.notes]
        return answer
    if moves.change.output == "table":
        _print(answer)
        if not plan.is_empty and not moves.options.yes and not await _is_agreed():
            return Answer({}, notes=["nothing was changed"])
    try:
        await _move(admin, moves, plan, moves.options.rate() or throttled.rate, answer)
    except asyncio.CancelledError:
        sys.stderr.write(f"\n{running_command.get()}: stopped; {_GOES_ON}, or --cancel to cancel them\n")
        raise
    return answer


async def cancel(admin: AdminClient, is_meant: Callable[[PartitionReassignment], bool], *, dry_run: bool) -> Answer:
    """Cancel ongoing moves. Remove the throttle if no other partition moves."""
    from barnabas.cli.moves.throttle import end_throttle

    under_way = await admin.list_partition_reassignments()
    meant = {partition: going for partition, going in sorted(under_way.items()) if is_meant(going)}
    problems: list[Problem] = []
    taken = list(meant)
    if meant and not dry_run:
        results = await admin.alter_partition_reassignments(dict.fromkeys(meant))
        problems = problems_of(results.errors, right=_RIGHT)
        taken = [partition for partition in meant if partition in results.values]
    changes = [Change("move of", str(partition), "cancelled") for partition in taken]
    if not problems and len(meant) == len(under_way):
        freed, problems = await end_throttle(admin, dry_run=dry_run)
        changes += freed
    notes = [] if changes or problems else ["no moves are in progress"]
    return change_answer(changes, problems, dry_run=dry_run, notes=notes)


def _shown(plan: MovePlan, throttled: CurrentThrottle, moves: PlannedMoves) -> Answer:
    from barnabas.cli.moves.move_plan import without_room

    problems = [*throttled.problems, *without_room(plan)]
    rate, notes = moves.options.rate(), list(moves.notes(plan.survey))
    if throttled.lasting and rate is not None:
        text = f"--throttle: {', '.join(throttled.lasting[:3])} has a permanent throttle with its own rates"
        problems.append(
            Problem(text, advice="omit --throttle: the permanent rates also apply to the moves of such topics")
        )
    if rate is None and throttled.rate is not None and not plan.is_empty:
        rate = throttled.rate
        notes.append(f"the existing throttle stays: {rate} bytes/s for each broker")
    if plan.survey.under_way:
        notes.append(f"{len(plan.survey.under_way)} partitions are moving already; this command waits for them")
    if plan.is_empty:
        notes.append("no moves are needed")
    elif plan.copied_bytes and rate is None:
        notes.append("without --throttle, brokers copy as fast as they can")
    elif plan.copied_bytes and rate is not None:
        notes.append(f"at {rate} bytes/s for each broker, this takes about {_duration(plan.seconds_at(rate))}")
    if moves.change.dry_run:
        notes.append("nothing was changed")
    document = {"dry_run": moves.change.dry_run, "throttle": rate, **plan.document(), "moved": 0, "elected": 0}
    return Answer(document, plan.sheets(), notes, problems)


def _print(answer: Answer) -> None:
    """Print the plan before it starts."""
    for index, sheet in enumerate(answer.sheets):
        if index:
            sys.stdout.write("\n")
        show(sheet)
    sys.stdout.flush()
    sys.stderr.writelines(f"note: {printable(note)}\n" for note in answer.notes)
    sys.stderr.flush()
    answer.sheets, answer.notes = [], []


async def _is_agreed() -> bool:
    """Ask for confirmation on a terminal. Elsewhere, the command line itself is the confirmation."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write("start? [y/N] ")
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[None] = loop.create_future()

    def is_typed() -> None:
        if not typed.done():
            typed.set_result(None)

    loop.add_reader(sys.stdin.fileno(), is_typed)
    try:
        await typed
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _move(admin: AdminClient, moves: PlannedMoves, plan: MovePlan, rate: int | None, answer: Answer) -> None:
    from barnabas.cli.moves.cluster_survey import read_cluster_replicas
    from barnabas.cli.moves.execute import execute
    from barnabas.cli.moves.throttle import end_throttle
    from barnabas.clients.admin.errors import AdminError
    from barnabas.clients.errors import ClientError

    timeout_s = moves.change.timeout
    until = None if timeout_s is None else time.monotonic() + timeout_s
    moved, elected, problems = 0, 0, []
    try:
        if moves.first is not None:
            answer.problems = await moves.first(admin, plan.survey)
            if answer.problems:
                return
        for _ in range(_ROUNDS):
            outcome = await execute(admin, plan, rate=rate, at_once=moves.options.at_once, until=until)
            moved, elected = moved + len(outcome.moved), elected + outcome.elected
            problems = outcome.problems
            if outcome.is_late:
                text = f"{moved} of {len(plan.moves)} partitions were moved within {timeout_s:g} s"
                problems.append(Problem(text, advice=_GOES_ON))
                break
            if problems or not moves.repeats:
                break
            plan = moves.plan(await read_cluster_replicas(admin))
            if plan.is_empty:
                break
        if not await admin.list_partition_reassignments():
            problems += (await end_throttle(admin, dry_run=False))[1]
    except (AdminError, ClientError) as error:
        problems += [problem_of(error, right=_RIGHT), Problem("not all partitions were moved", advice=_GOES_ON)]
    answer.document |= {"moved": moved, "elected": elected}
    answer.problems = problems
    answer.notes = [*answer.notes, f"{moved} partitions were moved, {elected} leaders elected"]
    if not problems:
        answer.notes = [*answer.notes, *moves.done]


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
