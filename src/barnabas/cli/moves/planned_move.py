"""What ``cluster rebalance`` and ``cluster drain`` do alike: show the plan, ask, move, and end the throttle.

Nothing of it is kept on this machine: a command that was stopped is gone on with by the same command, from anywhere.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from barnabas.cli.arguments.cluster_options import ChangeOptions, Count, Flag, Long, running_command
from barnabas.cli.arguments.partition_selection import broker_ids
from barnabas.cli.moves.reassignment_arguments import parse_rates
from barnabas.cli.output.advice import problem_of, problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import show
from barnabas.common.printable import printable

if TYPE_CHECKING:
    from barnabas.cli.moves.cluster_survey import Survey
    from barnabas.cli.moves.move_plan import MovePlan
    from barnabas.cli.moves.throttle import FoundThrottle
    from barnabas.clients.admin import AdminClient, PartitionReassignment

__all__ = ["MoveOptions", "Moves", "cancel", "carry_out", "usable_racks"]

_RIGHT = "ALTER on Cluster"
_ROUNDS = 5
_GOES_ON = "moves that are under way go on, with their throttle; the same command does what is left"


@Parameter(name="*", group=Group("Moves", sort_key=80))
@dataclass(kw_only=True)
class MoveOptions:
    """How to move, for every command that plans its moves itself."""

    broker_list: str | None = None
    """Only these brokers get replicas, as in 1,2,3; without it, all that are alive."""
    disable_rack_aware: Flag = False
    """Pay no regard to racks."""
    throttle: Long | None = None
    """How many bytes a second each broker may copy from and to others. It ends with the moves."""
    at_once: Annotated[Count, Parameter(show_default=True)] = 50
    """How many partitions each broker may have on their way."""
    cancel: Flag = False
    """Take back the moves that are under way, and end the throttle."""
    yes: Flag = False
    """Begin without asking. It is only asked on a terminal."""

    def brokers(self) -> tuple[int, ...] | None:
        return broker_ids(self.broker_list, "--broker-list")

    def rate(self) -> int | None:
        return parse_rates(self.throttle, None).between_brokers


@dataclass(frozen=True, slots=True)
class Moves:
    """``plan`` raises ValueError for what can't be, ``problems`` are what speaks against any plan.

    ``done`` is said at the end. With ``repeats`` it is planned again until nothing is left to be moved. ``first`` is
    done before anything moves, and returns why it can't be.
    """

    plan: Callable[[Survey], MovePlan]
    options: MoveOptions
    change: ChangeOptions
    done: Sequence[str] = ()
    repeats: bool = False
    problems: Callable[[Survey], list[Problem]] = field(default=lambda _: [])
    notes: Callable[[Survey], list[str]] = field(default=lambda _: [])
    first: Callable[[AdminClient, Survey], Awaitable[list[Problem]]] | None = None


def usable_racks(found: Survey, options: MoveOptions, leaving: Iterable[int] = ()) -> dict[int, str | None]:
    """The brokers that may be used, with the racks that are to be heeded. Raises ValueError."""
    chosen = [each for each in options.brokers() or sorted(found.brokers) if each not in leaving]
    unknown = [each for each in chosen if each not in found.brokers]
    alive = ", ".join(map(str, sorted(found.brokers)))
    if unknown:
        raise ValueError(f"--broker-list: broker {unknown[0]} is not there; the brokers that are alive are {alive}")
    racks = {each: None if options.disable_rack_aware else found.brokers[each] for each in chosen}
    silent = [str(each) for each, rack in racks.items() if rack is None]
    if silent and len(silent) < len(racks):
        raise ValueError(
            f"brokers {', '.join(silent)} tell no rack, and others do: give --disable-rack-aware, or set broker.rack"
        )
    return racks


async def carry_out(admin: AdminClient, moves: Moves) -> Answer:
    """The answer of the whole command. On a Ctrl-C it says what goes on by itself."""
    from barnabas.cli.moves.cluster_survey import survey
    from barnabas.cli.moves.throttle import find_throttle

    found = await survey(admin)
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
        sys.stderr.write(f"\n{running_command.get()}: stopped; {_GOES_ON}, and --cancel takes them back\n")
        raise
    return answer


async def cancel(admin: AdminClient, is_meant: Callable[[PartitionReassignment], bool], *, dry_run: bool) -> Answer:
    """Take back moves that are under way. The throttle ends if nothing else moves."""
    from barnabas.cli.moves.throttle import end_throttle

    under_way = await admin.list_partition_reassignments()
    meant = {each: going for each, going in sorted(under_way.items()) if is_meant(going)}
    problems: list[Problem] = []
    taken = list(meant)
    if meant and not dry_run:
        results = await admin.alter_partition_reassignments(dict.fromkeys(meant))
        problems = problems_of(results.errors, right=_RIGHT)
        taken = [each for each in meant if each in results.values]
    changes = [Change("move of", str(each), "cancelled") for each in taken]
    if not problems and len(meant) == len(under_way):
        freed, problems = await end_throttle(admin, dry_run=dry_run)
        changes += freed
    notes = [] if changes or problems else ["nothing is under way"]
    return change_answer(changes, problems, dry_run=dry_run, notes=notes)


def _shown(plan: MovePlan, throttled: FoundThrottle, moves: Moves) -> Answer:
    from barnabas.cli.moves.move_plan import without_room

    problems = [*throttled.problems, *without_room(plan)]
    rate, notes = moves.options.rate(), list(moves.notes(plan.survey))
    if throttled.lasting and rate is not None:
        text = f"--throttle: {', '.join(throttled.lasting[:3])} is throttled for good, with rates of its own"
        problems.append(Problem(text, advice="leave --throttle out: these rates hold for the moves of such topics"))
    if rate is None and throttled.rate is not None and not plan.is_empty:
        rate = throttled.rate
        notes.append(f"the throttle that is there goes on: {rate} bytes/s for each broker")
    if plan.survey.under_way:
        notes.append(f"{len(plan.survey.under_way)} partitions are on their way already, and are waited for")
    if plan.is_empty:
        notes.append("nothing is to be moved")
    elif plan.copied_bytes and rate is None:
        notes.append("without --throttle brokers copy as fast as they can")
    elif plan.copied_bytes and rate is not None:
        notes.append(f"at {rate} bytes/s for each broker it takes about {_duration(plan.seconds_at(rate))}")
    if moves.change.dry_run:
        notes.append("nothing was changed")
    document = {"dry_run": moves.change.dry_run, "throttle": rate, **plan.document(), "moved": 0, "elected": 0}
    return Answer(document, plan.sheets(), notes, problems)


def _print(answer: Answer) -> None:
    """The plan, before anything of it is begun."""
    for index, sheet in enumerate(answer.sheets):
        if index:
            sys.stdout.write("\n")
        show(sheet)
    sys.stdout.flush()
    sys.stderr.writelines(f"note: {printable(note)}\n" for note in answer.notes)
    sys.stderr.flush()
    answer.sheets, answer.notes = [], []


async def _is_agreed() -> bool:
    """Asked where somebody is; elsewhere whoever wrote the command line has agreed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write("begin? [y/N] ")
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


async def _move(admin: AdminClient, moves: Moves, plan: MovePlan, rate: int | None, answer: Answer) -> None:
    from barnabas.cli.moves.cluster_survey import survey
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
                text = f"{moved} of {len(plan.moves)} partitions were moved in {timeout_s:g} s"
                problems.append(Problem(text, advice=_GOES_ON))
                break
            if problems or not moves.repeats:
                break
            plan = moves.plan(await survey(admin))
            if plan.is_empty:
                break
        if not await admin.list_partition_reassignments():
            problems += (await end_throttle(admin, dry_run=False))[1]
    except (AdminError, ClientError) as error:
        problems += [problem_of(error, right=_RIGHT), Problem("not everything was moved", advice=_GOES_ON)]
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
