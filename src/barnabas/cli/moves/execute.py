"""Execute the moves of a plan, a limited number at a time, until all have ended.

The cluster has all state: ongoing moves, replicas, and the throttle. So the execution can be interrupted at any moment,
and a new plan continues it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.arguments.partition_files import RequestedReplicas as Target
from barnabas.cli.moves.move_plan import MovePlan
from barnabas.cli.moves.progress import is_watched, showing_moves
from barnabas.cli.moves.reassignment import ALTER, ReassignmentState, ThrottleRates, ids, throttle, throttles
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Problem
from barnabas.clients.admin import ElectionType
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.cluster_model import ReplicaMove

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, PartitionReassignment

__all__ = ["MoveResult", "execute"]

_POLL_S = (0.1, 2.0)
_SIZES_EVERY_S = 1.0
_SHOWN_S = 15.0


@dataclass(slots=True)
class MoveResult:
    """The result of an execution. ``moved`` partitions have their target replicas."""

    moved: list[TopicPartition] = field(default_factory=list)
    elected: int = 0
    problems: list[Problem] = field(default_factory=list)
    is_late: bool = False


async def execute(
    admin: AdminClient, plan: MovePlan, *, rate: int | None, at_once: int, until: float | None
) -> MoveResult:
    """Set the throttle, move replicas, and elect leaders. The caller removes the throttle when all moves have ended.

    ``at_once`` is the number of partitions that a broker may move concurrently. ``until`` is a deadline of
    ``time.monotonic``.
    """
    outcome = MoveResult()
    outcome.problems += await _hold_back(admin, plan, rate)
    if outcome.problems:
        return outcome
    moving = _Moving(admin, plan, at_once, outcome)
    with showing_moves({broker: count for broker, count in plan.received.items() if count}) as show_progress:
        pause_s = _POLL_S[0]
        while await moving.step():
            show_progress(await moving.received(), moving.description())
            if until is not None and time.monotonic() > until:
                outcome.is_late = True
                return outcome
            await asyncio.sleep(pause_s)
            pause_s = _POLL_S[0] if moving.has_more else min(_POLL_S[1], pause_s * 1.5)
    await _reorder(admin, plan, outcome)
    await _check(admin, plan, outcome)
    await _elect(admin, plan, outcome)
    return outcome


async def _hold_back(admin: AdminClient, plan: MovePlan, rate: int | None) -> list[Problem]:
    if rate is None:
        return []
    survey = plan.survey
    stage = ReassignmentState(survey.replicas, survey.under_way, survey.brokers, ())
    wanted = throttles(
        stage, {move.partition: Target(move.after) for move in plan.moves if move.adds}, ThrottleRates(rate)
    )
    _, problems = await throttle(admin, wanted, dry_run=True)
    if not problems:
        _, problems = await throttle(admin, wanted, dry_run=False)
    return problems


class _Moving:
    """Starts waiting moves in the order of the plan, if their brokers have fewer ongoing moves than the limit."""

    def __init__(self, admin: AdminClient, plan: MovePlan, at_once: int, outcome: MoveResult) -> None:
        self._admin, self._plan, self._at_once, self._outcome = admin, plan, at_once, outcome
        self._waiting = deque(move for move in plan.moves if move.adds)
        self._count = len(self._waiting) + len(plan.survey.under_way)
        self._begun: dict[TopicPartition, ReplicaMove] = {}
        self._ended: Counter[int] = Counter()
        self._under_way: Mapping[TopicPartition, PartitionReassignment] = plan.survey.under_way
        self._sizes_at = 0.0
        self._received: Counter[int] = Counter()

    @property
    def has_more(self) -> bool:
        """Whether moves are waiting for others to end."""
        return bool(self._waiting)

    async def step(self) -> bool:
        """Start further moves. Return whether a move is waiting or ongoing."""
        self._under_way = await self._admin.list_partition_reassignments()
        for partition in [begun for begun in self._begun if begun not in self._under_way]:
            move = self._begun.pop(partition)
            self._outcome.moved.append(partition)
            self._ended.update(dict.fromkeys(move.adds, move.size))
        await self._begin()
        return bool(self._waiting or self._begun or self._under_way)

    async def _begin(self) -> None:
        busy: Counter[int] = Counter()
        for partition, going in self._under_way.items():
            busy.update(self._copying(partition, going.adding_replicas))
        chosen: list[ReplicaMove] = []
        for _ in range(len(self._waiting)):
            move = self._waiting.popleft()
            brokers = self._copying(move.partition, move.adds)
            if all(busy[broker] < self._at_once for broker in brokers):
                busy.update(brokers)
                chosen.append(move)
            else:
                self._waiting.append(move)
        if chosen:
            results = await self._admin.alter_partition_reassignments({move.partition: move.after for move in chosen})
            self._outcome.problems += problems_of(results.errors, right=ALTER)
            self._begun |= {move.partition: move for move in chosen if move.partition in results.values}

    def _copying(self, partition: TopicPartition, targets: Iterable[int]) -> set[int]:
        leader = self._plan.survey.leaders.get(partition)
        return {*targets} if leader is None else {*targets, leader}

    async def received(self) -> Mapping[int, int]:
        """Return the bytes of the new replicas that each broker has received."""
        if not is_watched() or time.monotonic() < self._sizes_at:
            return self._received
        self._sizes_at = time.monotonic() + _SIZES_EVERY_S
        received = Counter(self._ended)
        targets = {broker for move in self._begun.values() for broker in move.adds}
        if targets:
            found = await self._admin.describe_log_dirs(sorted(targets), partitions=list(self._begun))
            for broker, directories in found.values.items():
                for described in directories.values():
                    for partition, replica in described.replicas.items():
                        move = self._begun.get(partition)
                        if move is not None and broker in move.adds:
                            received[broker] += min(replica.size, move.size)
        self._received = received
        return received

    def description(self) -> str:
        left = len(self._waiting) + len(self._under_way)
        return f"{max(0, self._count - left)} of {self._count} partitions, {len(self._under_way)} in progress"


async def _reorder(admin: AdminClient, plan: MovePlan, outcome: MoveResult) -> None:
    """Make moves that only change the preferred leader, without copies."""
    order = {move.partition: move.after for move in plan.moves if not move.adds}
    if order:
        results = await admin.alter_partition_reassignments(order)
        outcome.problems += problems_of(results.errors, right=ALTER)
        outcome.moved += results.values


async def _check(admin: AdminClient, plan: MovePlan, outcome: MoveResult) -> None:
    """Check the results. Brokers show the end of a move a moment after the controller; others may have cancelled it."""
    wanted = {partition: plan.after[partition] for partition in outcome.moved}
    until = time.monotonic() + _SHOWN_S
    while wanted:
        described = await admin.describe_topics(list(dict.fromkeys(partition.topic for partition in wanted)))
        there = {
            TopicPartition(topic.name, info.partition): tuple(info.replicas)
            for topic in described.values.values()
            for info in topic.partitions
        }
        # A topic that was deleted in the meantime does not need a move.
        wanted = {
            partition: after for partition, after in wanted.items() if partition in there and there[partition] != after
        }
        if time.monotonic() > until:
            break
        if wanted:
            await asyncio.sleep(_POLL_S[0])
    for partition, after in sorted(wanted.items()):
        outcome.moved.remove(partition)
        text = f"its replicas are on {ids(there[partition])}, not on {ids(after)}, and it is not moving"
        outcome.problems.append(
            Problem(
                text, str(partition), advice="the move was probably cancelled; run the same command to start it again"
            )
        )


async def _elect(admin: AdminClient, plan: MovePlan, outcome: MoveResult) -> None:
    """Elect the preferred leaders where possible."""
    wanted = {*plan.elections, *(move.partition for move in plan.moves)} & {*plan.elections, *outcome.moved}
    if not wanted:
        return
    results = await admin.elect_leaders(ElectionType.PREFERRED, sorted(wanted), wait=True)
    outcome.elected = sum(results.values.values())
    missing = {
        partition: error
        for partition, error in results.errors.items()
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # The topic was deleted in the meantime.
    }
    advice = {
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "when the replica has caught up, run the same command to elect it"
    }
    outcome.problems += problems_of(missing, right=ALTER, advice=advice)
