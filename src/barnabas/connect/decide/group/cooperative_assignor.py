"""Incremental cooperative assignment (KIP-415): work moves while all other work continues.

Members keep running while they join again and report their work. Each receives only its new work and the work that it
must give up. Moving work takes two rounds: its owner gives it up in the first, and another member receives it in the
second, so it never has two owners. Work that two members report is revoked from both first.

**Work of a lost member.** By default Kafka leaves it unassigned for up to ``scheduled.rebalance.max.delay.ms`` (five
minutes), because the member may return: no member runs it in this time. Then it goes to the members that were empty
when it was lost, which are those that returned, or else to all members. With ``reassign_immediately``
(``barnabas.connect.reassign.immediately``) it is assigned in the round that shows the loss of the member. That is as
safe as the delay. The coordinator removes a member only when it leaves, which workers do after they have stopped their
work, or when its session has ended. By then the worker has stopped its work, because it could not reach the coordinator
(``membership.py``). The delay was never a guard against two owners: a new leader does not know the earlier assignment,
so in Kafka, too, it assigns everything at once. The cost of immediate reassignment is a second move when the member
returns. The protocol is the same, so Java members are not affected. The leader's setting applies: while a Java worker
leads, Kafka's delay applies to our members' work as well.

**Repeated revocations.** Rounds that revoke work for balance follow at growing intervals (40 ms, 1.6 s, 64 s, then the
maximum delay), because each interrupts work.

**Memory.** Only this leader knows the earlier assignment. If the last generation was not the one that it remembers, it
discards its memory. Connectors and tasks that run but are not configured are always revoked, also by a leader that did
not assign them; Kafka's leader overlooks these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from barnabas.connect.decide.group.assignor import AssignmentRound
from barnabas.connect.decide.group.connect_protocol import NO_ERROR, Assignment
from barnabas.connect.decide.group.worker_loads import WorkerLoad, balancing_revocations, connector, fill, is_connector
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["CooperativeAssignor"]

_REVOCATION_BACKOFF_FACTOR = 40
"""The n-th successive round of revocations waits 40 to the n milliseconds."""

Items = frozenset[ConnectorTaskId]


class CooperativeAssignor:
    def __init__(self, *, max_delay_ms: int, reassign_immediately: bool) -> None:
        self._max_delay_ms = max_delay_ms
        self._reassign_immediately = reassign_immediately
        self._previous: Items = frozenset()
        self._previous_revocation: Items = frozenset()
        self._previous_members: frozenset[str] = frozenset()
        self._previous_generation = -1
        self._candidates: dict[str, None] = {}
        self._scheduled_ms: float | None = None
        self._delay_ms = 0
        self._has_revoked_before = False
        self._successive_revocations = 0

    def assign(self, round_: AssignmentRound) -> dict[str, Assignment]:
        owned = {member: _owned(round_.members[member].allocation) for member in sorted(round_.members)}
        configured = frozenset(_configured(round_))
        active: Items = frozenset(item for items in owned.values() for item in items)
        previous = self._recall(round_, active)
        deleted = (previous | active) - configured
        lost = previous - active - deleted
        created = configured - previous - active

        loads = [WorkerLoad(member, items) for member, items in owned.items()]
        revoked: dict[str, set[ConnectorTaskId]] = {}
        _revoke(loads, revoked, {member: (deleted | _duplicated(owned)) & set(owned[member]) for member in owned})
        reassigned = self._handle_lost(lost, loads, round_.now_ms)
        if self._delay_ms == 0:
            self._balance(configured, loads, revoked, round_.now_ms)
        else:
            self._has_revoked_before = False
        fill(loads, created | reassigned)
        self._remember(round_, loads, revoked, lost)
        return {load.member_id: self._increment(round_, load, owned, revoked) for load in loads}

    # -- memory

    def _recall(self, round_: AssignmentRound, active: Items) -> Items:
        """Return the earlier assignment, as far as it is still valid."""
        previous = self._previous
        if self._previous_generation != round_.last_completed_generation:
            previous = frozenset()
        if self._previous_revocation & active:
            previous = active  # The last revocations were not carried out: start from the reported work.
        return previous

    def _remember(
        self,
        round_: AssignmentRound,
        loads: Sequence[WorkerLoad],
        revoked: Mapping[str, set[ConnectorTaskId]],
        lost: Items,
    ) -> None:
        self._previous_revocation = frozenset().union(*revoked.values())
        assigned = frozenset(item for load in loads for item in load.items)
        self._previous = assigned - self._previous_revocation | lost
        self._previous_generation = round_.generation
        self._previous_members = frozenset(round_.members)

    # -- work of lost members

    def _handle_lost(self, lost: Items, loads: Sequence[WorkerLoad], now_ms: float) -> Items:
        """Return the work that is assigned again now. Candidates receive it here; the rest waits, if ``_delay_ms``."""
        if not lost and not self._has_revoked_before:
            self._reset_delay()
            return lost
        are_all_present = self._previous_members <= {load.member_id for load in loads}
        if self._scheduled_ms is None and are_all_present:
            return lost  # A member did not receive its assignment.
        if self._max_delay_ms == 0:
            return lost
        if self._scheduled_ms is not None and now_ms >= self._scheduled_ms:
            return self._hand_out_expired(lost, loads)
        if self._reassign_immediately:
            # Wait only for the members that delay revocations.
            self._delay_ms = self._remaining_delay_ms(now_ms) if self._scheduled_ms is not None else 0
            return lost
        self._candidates.update((load.member_id, None) for load in loads if load.is_empty)
        self._delay_ms = self._max_delay_ms if self._scheduled_ms is None else self._remaining_delay_ms(now_ms)
        self._scheduled_ms = now_ms + self._delay_ms
        return frozenset()

    def _hand_out_expired(self, lost: Items, loads: Sequence[WorkerLoad]) -> Items:
        by_member = {load.member_id: load for load in loads}
        candidates = [by_member[member] for member in self._candidates if member in by_member]
        self._reset_delay()
        self._has_revoked_before = False
        if not candidates:
            return lost
        for kind in (True, False):
            for index, item in enumerate(sorted(unit for unit in lost if is_connector(unit) is kind)):
                candidates[index % len(candidates)].add(item)
        return frozenset()

    def _remaining_delay_ms(self, now_ms: float) -> int:
        remaining_ms = 0 if self._scheduled_ms is None else self._scheduled_ms - now_ms
        return int(min(max(remaining_ms, 1), self._max_delay_ms))

    def _reset_delay(self) -> None:
        self._candidates.clear()
        self._scheduled_ms = None
        self._delay_ms = 0

    # -- balance

    def _balance(
        self,
        configured: Items,
        loads: Sequence[WorkerLoad],
        revoked: dict[str, set[ConnectorTaskId]],
        now_ms: float,
    ) -> None:
        revocations = balancing_revocations(loads, configured)
        if not revocations:
            self._has_revoked_before = False
            self._successive_revocations = 0
            return
        if self._has_revoked_before:
            self._successive_revocations += 1
            self._delay_ms = min(self._max_delay_ms, _REVOCATION_BACKOFF_FACTOR ** min(self._successive_revocations, 9))
            if self._delay_ms > 0:
                self._scheduled_ms = now_ms + self._delay_ms
                return
        self._has_revoked_before = True
        _revoke(loads, revoked, revocations)

    # -- the assignment of each member

    def _increment(
        self,
        round_: AssignmentRound,
        load: WorkerLoad,
        owned: Mapping[str, Sequence[ConnectorTaskId]],
        revoked: Mapping[str, set[ConnectorTaskId]],
    ) -> Assignment:
        has = set(owned[load.member_id])
        gives_up = sorted(revoked.get(load.member_id, ()))
        return Assignment(
            round_.version,
            NO_ERROR,
            round_.leader_id,
            round_.leader_url,
            round_.config.offset,
            tuple(item.connector for item in load.connectors if item not in has),
            tuple(item for item in load.tasks if item not in has),
            tuple(item.connector for item in gives_up if is_connector(item)),
            tuple(item for item in gives_up if not is_connector(item)),
            self._delay_ms,
        )


def _owned(allocation: Assignment | None) -> tuple[ConnectorTaskId, ...]:
    if allocation is None:
        return ()
    return (*dict.fromkeys(map(connector, allocation.connectors)), *dict.fromkeys(allocation.tasks))


def _configured(round_: AssignmentRound) -> Iterable[ConnectorTaskId]:
    for name in round_.config.connectors():
        yield connector(name)
        yield from round_.config.tasks(name)


def _duplicated(owned: Mapping[str, Iterable[ConnectorTaskId]]) -> Items:
    owners = Counter(item for items in owned.values() for item in items)
    return frozenset(item for item, count in owners.items() if count > 1)


def _revoke(
    loads: Sequence[WorkerLoad],
    revoked: dict[str, set[ConnectorTaskId]],
    more: Mapping[str, Iterable[ConnectorTaskId]],
) -> None:
    for load in loads:
        items = set(more.get(load.member_id, ()))
        if items:
            revoked.setdefault(load.member_id, set()).update(items)
            load.remove(items)
