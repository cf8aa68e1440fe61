"""A process of a member of a streams group (KIP-1071). It keeps to the rules of Kafka's client.

It has one heartbeat under way, gives up tasks before it says so, reports all tasks after an error, and joins again when
it was removed. Some of its requests are late, or sent twice, and it may never give up tasks.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster import streams_group_requests as requests
from tests.simulation.cluster.consumer_group_checks import REMOVED, Moment, TopicPartition
from tests.simulation.cluster.member_process import LATE, MemberProcess, ProcessEnded, Removed
from tests.simulation.cluster.streams_group_shape import READER

if TYPE_CHECKING:
    from tests.simulation.cluster.observed_client import Attempt
    from tests.simulation.cluster.streams_group_shape import StreamsMemberShape
    from tests.simulation.cluster.world import World

__all__ = ["StreamsProcess"]

TWICE = 0.03
GIVES_UP_S = (0.0, 0.0, 0.05, 0.4)
"""How long a process takes to close tasks."""
NEVER_S = 3600.0
NEVER_GIVES_UP = 0.15


class StreamsProcess(MemberProcess):
    def __init__(
        self, world: World, shape: StreamsMemberShape, draw: random.Random, number: int, dies_s: float | None
    ) -> None:
        settings = world.shape.streams_groups
        assert settings is not None
        super().__init__(world, shape, settings, world.checks.streams_groups, draw, number, dies_s)
        self.shape = shape
        self.statuses: frozenset[int] = frozenset()
        """What the last answer says besides the tasks."""
        self._tells_all = True
        self._told_held: frozenset[TopicPartition] = frozenset()
        self._gives_up_at_s = 0.0
        self._endpoint_epoch = -1

    def is_join(self, request: Any) -> bool:
        return requests.is_join(request)

    def decided_late(self, attempt: Attempt) -> None:
        self._tells_all = True

    def held_with(self, index: int) -> TopicPartition:
        return TopicPartition(READER, index)

    def due_in_s(self) -> float:
        """Tasks that were given up are reported immediately."""
        if not self.me.must_give_up:
            return super().due_in_s()
        return max(self._gives_up_at_s - self.world.loop.now_s, 0.0)

    # --- joining and leaving

    async def join(self) -> None:
        me, replicas = self.me, self.world.shape.data_replicas
        while True:
            if self.is_due_to_die:
                raise ProcessEnded("dies before it joins")
            request = requests.join(self.shape, me.member_id, self.settings.rebalance_ms, replicas)
            moment = self.checks.moment(me.group)
            attempt, answer = await self.send(request)
            if attempt is not None and self._code_of(attempt, answer, moment) is ErrorCode.NONE:
                self._tells_all = False
                self.checks.joined(me, attempt, answer.member_epoch, moment)
                self._receive(attempt, answer, moment, is_full=True)
                self.world.say(f"{self.name} joins in epoch {me.epoch} with {len(me.held)} tasks")
                return
            await self.pause()

    async def leave(self) -> str:
        request = requests.leave(self.shape, self.me.member_id)
        self.me.forget()
        _, answer = await self.send(request)
        return f"leaves: {'an unknown outcome' if answer is None else ErrorCode(answer.error_code).name}"

    # --- heartbeats

    async def step(self) -> None:
        if self.me.must_give_up and self.world.loop.now_s >= self._gives_up_at_s:
            await self._give_up()
        await self._heartbeat()
        await self.commit()

    async def _give_up(self) -> None:
        me = self.me
        if self.draw.random() < 0.6:
            await self.commit()
        for task in me.must_give_up:
            del me.held[task]
            self.positions.pop(task, None)

    async def _heartbeat(self) -> None:
        me, is_full = self.me, self._tells_all
        held = frozenset(me.held)
        request = requests.heartbeat(self.shape, me.member_id, me.epoch, self._endpoint_epoch)
        if is_full:
            requests.add_process(request, self.shape, self.settings.rebalance_ms)
        if is_full or held != self._told_held:
            requests.add_tasks(request, held)
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
        if code is not None and code not in requests.RETRIED:
            self.world.checks.fail(f"{self.name} receives {code.name} for a heartbeat: {answer.error_message}")
        self.client.forget_coordinator()
        return code

    def _receive(self, attempt: Attempt, answer: Any, moment: Moment, *, is_full: bool) -> None:
        me, now_s = self.me, self.world.loop.now_s
        self.checks.reached(me, answer.member_epoch, moment)
        before, wanted = me.must_give_up, requests.tasks_of(answer)
        if wanted is not None:
            self.checks.assigned(me, attempt, answer.member_epoch, wanted, moment)
            me.wanted = wanted
        me.epoch, me.unknown_outcomes = answer.member_epoch, 0
        self.statuses = frozenset(status.status_code for status in answer.status or ())
        self._endpoint_epoch = answer.endpoint_information_epoch
        if me.must_give_up - before:
            self._begin_to_give_up()
        me.decided(attempt, is_full=is_full)
        for task in me.wanted:
            me.held.setdefault(task, now_s)
        self.checks.holds(me, attempt, moment)
        self._tells_all = self._tells_all or me.is_confused
        self.is_settled = not me.must_give_up and not self._tells_all

    def _begin_to_give_up(self) -> None:
        me = self.me
        never = not self.world.is_healed and self.draw.random() < NEVER_GIVES_UP
        self._gives_up_at_s = self.world.loop.now_s + (NEVER_S if never else self.draw.choice(GIVES_UP_S))
        names = ", ".join(sorted(f"{task.topic}-{task.partition}" for task in me.must_give_up))
        self.world.say(f"{self.name} must give up {names} in epoch {me.epoch}{', but never does' if never else ''}")
