"""A process of a member that a coordinator leads by heartbeats: what consumer and streams groups have in common.

It keeps to the rules of Kafka's clients: it has one heartbeat under way, gives up what it must before it says so, tells
everything that it knows after an error, and joins again when it was removed. Some of its requests are late, or sent
twice, and it may never give up anything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Set
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster.consumer_group_checks import REMOVED, Moment, TopicPartition
from tests.simulation.cluster.member_process import LATE, MemberProcess, ProcessEnded, Removed

if TYPE_CHECKING:
    from tests.simulation.cluster.observed_client import Attempt

__all__ = ["HeartbeatProcess"]

TWICE = 0.03
GIVES_UP_S = (0.0, 0.0, 0.05, 0.4)
"""How long a process takes to give up partitions or tasks."""
NEVER_S = 3600.0
NEVER_GIVES_UP = 0.15


class HeartbeatProcess(MemberProcess):
    what_it_has = "partitions"
    _tells_all = True
    _told_held: frozenset[TopicPartition] = frozenset()
    _gives_up_at_s = 0.0

    # --- what differs

    @abstractmethod
    def join_request(self) -> Any: ...

    @abstractmethod
    def heartbeat_request(self, held: frozenset[TopicPartition], *, is_full: bool) -> Any:
        """Return a request; with what the process has, if it is full or that has changed."""

    @abstractmethod
    def wanted_of(self, answer: Any) -> frozenset[TopicPartition] | None:
        """Return what an answer assigns, None if it assigns nothing new; note what else it says."""

    @abstractmethod
    def name_of(self, found: TopicPartition) -> str: ...

    @property
    @abstractmethod
    def retried(self) -> Set[ErrorCode]:
        """The errors after which a request is sent again."""

    @property
    def has_told_its_wishes(self) -> bool:
        return True

    # --- what is the same

    def decided_late(self, attempt: Attempt) -> None:
        self._tells_all = True

    def due_in_s(self) -> float:
        """What was given up is reported immediately."""
        if not self.me.must_give_up:
            return super().due_in_s()
        return max(self._gives_up_at_s - self.world.loop.now_s, 0.0)

    async def join(self) -> None:
        me = self.me
        while True:
            if self.is_due_to_die:
                raise ProcessEnded("dies before it joins")
            request = self.join_request()
            moment = self.checks.moment(me.group)
            attempt, answer = await self.send(request)
            if attempt is not None and self._code_of(attempt, answer, moment) is ErrorCode.NONE:
                self._tells_all = False
                self.checks.joined(me, attempt, answer.member_epoch, moment)
                self._receive(attempt, answer, moment, is_full=True)
                self.world.say(f"{self.name} joins in epoch {me.epoch} with {len(me.held)} {self.what_it_has}")
                return
            await self.pause()

    async def maybe_give_up(self) -> None:
        me = self.me
        if not me.must_give_up or self.world.loop.now_s < self._gives_up_at_s:
            return
        if self.draw.random() < 0.6:
            await self.commit()
        for found in me.must_give_up:
            del me.held[found]
            self.positions.pop(found, None)

    async def heartbeat(self) -> None:
        me, is_full, held = self.me, self._tells_all, frozenset(self.me.held)
        request = self.heartbeat_request(held, is_full=is_full)
        if not self.world.is_healed and self.draw.random() < LATE:
            # The process gives it up at once, and it arrives later.
            self.client.send_late(request, self.draw.choice((0.01, 0.3, 1.5)))
            me.unknown_outcomes += 1
            self._tells_all, self.is_settled = True, False
            return
        moment = self.checks.moment(me.group)
        self._tells_all = False
        attempt, answer = await self.send(request)
        if self._code_of(attempt, answer, moment) is not ErrorCode.NONE or attempt is None:
            return
        self._told_held = held
        self._receive(attempt, answer, moment, is_full=is_full)
        if not self.world.is_healed and self.draw.random() < TWICE:
            self.client.send_late(request, self.draw.choice((0.0, 0.2, 1.0)))

    def _code_of(self, attempt: Attempt | None, answer: Any, moment: Moment) -> ErrorCode | None:
        """Return the code of an answer, None without one. Raise Removed; fail for an error that has no reason."""
        me = self.me
        code = None if answer is None else ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            return code
        self._tells_all, self.is_settled = True, False
        if attempt is None:
            return None
        if code in REMOVED:
            self.checks.refused(me, attempt, code, moment)
            raise Removed(f"{code.name} {answer.error_message}")
        me.unknown_outcomes += 1
        if code is not None and code not in self.retried:
            self.world.checks.fail(f"{self.name} receives {code.name} for a heartbeat: {answer.error_message}")
        self.client.forget_coordinator()
        return code

    def _receive(self, attempt: Attempt, answer: Any, moment: Moment, *, is_full: bool) -> None:
        me, now_s = self.me, self.world.loop.now_s
        self.checks.reached(me, answer.member_epoch, moment)
        before, wanted = me.must_give_up, self.wanted_of(answer)
        if wanted is not None:
            self.checks.assigned(me, attempt, answer.member_epoch, wanted, moment)
            me.wanted = wanted
        me.epoch, me.unknown_outcomes = answer.member_epoch, 0
        if me.must_give_up - before:
            self._begin_to_give_up()
        me.decided(attempt, is_full=is_full)
        for found in me.wanted:
            me.held.setdefault(found, now_s)
        self.checks.holds(me, attempt, moment)
        self._tells_all = self._tells_all or me.is_confused
        self.is_settled = not me.must_give_up and not self._tells_all and self.has_told_its_wishes

    def _begin_to_give_up(self) -> None:
        me = self.me
        never = not self.world.is_healed and self.draw.random() < NEVER_GIVES_UP
        self._gives_up_at_s = self.world.loop.now_s + (NEVER_S if never else self.draw.choice(GIVES_UP_S))
        names = ", ".join(sorted(map(self.name_of, me.must_give_up)))
        self.world.say(f"{self.name} must give up {names} in epoch {me.epoch}{', but never does' if never else ''}")
