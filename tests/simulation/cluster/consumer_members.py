"""Members of groups of the consumer protocol (KIP-848), as processes that follow each other.

A process keeps to the rules of Kafka's client: it has one heartbeat under way, tells everything that it knows after an
error, gives up partitions before it says so, and joins again when it was removed. Processes die, hang, leave, return,
change their subscriptions, and take too long to give up partitions; some of their requests are late, or sent twice.

After the faults all members stay, except those that have died for good and second processes of an instance id.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster import consumer_group_requests as requests
from tests.simulation.cluster.consumer_group_checks import REMOVED, Membership, Moment, TopicPartition
from tests.simulation.cluster.consumer_group_shape import DATA_TOPIC, MemberShape, Subscription, draw_subscription
from tests.simulation.cluster.observed_client import Attempt, ObservedClient
from tests.simulation.cluster.producers import Unavailable, report_end

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["ConsumerMember", "start_consumer_members", "unsettled_members"]

CLIENT_TIMEOUTS_S = (0.3, 1.5)
"""Clients with the shorter time-out give up requests that arrive and are carried out later."""
HEARTBEAT_S = 0.3
PAUSE_S = 0.1
LATE = 0.04
TWICE = 0.03
HANGS = 0.02
ENDS = 0.02
CHANGES = 0.05
GIVES_UP_S = (0.0, 0.0, 0.05, 0.4)
"""How long a process takes to give up partitions."""
NEVER_S = 3600.0
NEVER_GIVES_UP = 0.15


class _Removed(Exception):
    """The process is no member of its group any more."""


class _Ended(Exception):
    """The process has ended."""


class ConsumerMember:
    def __init__(self, world: World, shape: MemberShape) -> None:
        settings = world.shape.consumer_groups
        assert settings is not None
        self.world = world
        self.shape = shape
        self.name = shape.name
        self.subscription = Subscription(frozenset(), "")
        self.me: Membership | None = None
        self.is_over = False
        """Whether it has died for good."""
        self.is_settled = False
        """Whether its last heartbeat was accepted, and it has nothing to give up or to tell."""
        self._settings = settings
        self._checks = world.checks.consumer_groups
        self._draw = random.Random(f"{shape.name} {world.seed}")
        self._pace_s = self._draw.uniform(0.6, 1.6) * HEARTBEAT_S
        self._process_number = 0
        ends_s = world.plan.faults_end_ms / 1000
        self._dies_s: float | None = None
        if shape.is_second:
            self._dies_s = ends_s
        elif shape.number and self._draw.random() < 0.2:
            self._dies_s = self._draw.uniform(1.5, ends_s)
        self._begin()

    def _begin(self) -> None:
        """Begin a process."""
        self._process_number += 1
        self._timeout_s = self._draw.choice(CLIENT_TIMEOUTS_S)
        me = self._checks.begun(
            self.shape.group, self.name, f"{self.name} {self._process_number}", self.shape.instance_id
        )
        self.me = me
        self._client = ObservedClient(
            self.world, self.shape.group, self._draw, self._timeout_s, partial(self._decided_late, me)
        )
        self.subscription = draw_subscription(self._draw, self._settings)
        self._tells_all = True
        self._told_held: frozenset[TopicPartition] = frozenset()
        self._gives_up_at_s = 0.0
        self._positions: dict[TopicPartition, int] = {}
        self.is_settled = False

    @property
    def _me(self) -> Membership:
        assert self.me is not None
        return self.me

    # --- processes

    async def run(self) -> None:
        if not self._settings.is_in_step:
            await asyncio.sleep(self._draw.uniform(0.0, 1.5))
        while True:
            try:
                await self._live()
            except _Ended as reason:
                self.world.say(f"{self.name} {reason}")
            self._checks.ended(self._me)
            self.me, self.is_settled = None, False
            if self._is_due_to_die():
                self.is_over = True
                return
            await asyncio.sleep(self._draw.choice((0.05, 0.5, 3.0)))
            self._begin()

    def _is_due_to_die(self) -> bool:
        return self._dies_s is not None and self.world.loop.now_s >= self._dies_s

    async def _live(self) -> None:
        while True:
            try:
                await self._join()
                while True:
                    await self._rest()
                    await self._maybe_end()
                    self._maybe_change()
                    await self._step()
            except _Removed as reason:
                self.world.say(f"{self.name} is removed: {reason}")
                self._me.forget()
                self._positions, self.is_settled = {}, False
                self._client.forget_coordinator()
                await self._pause()

    async def _pause(self) -> None:
        if self._settings.is_in_step:
            await asyncio.sleep(self._until_next(PAUSE_S))
        else:
            await asyncio.sleep(self._draw.uniform(0.5, 1.5) * PAUSE_S)

    def _until_next(self, period_s: float) -> float:
        """Return the time until just after the next multiple of a period."""
        return period_s - self.world.loop.now_s % period_s + self._draw.uniform(0.001, 0.003)

    def _wait_s(self) -> float:
        if self._settings.is_in_step:
            return self._until_next(HEARTBEAT_S)
        return self._pace_s * self._draw.uniform(0.7, 1.3)

    async def _rest(self) -> None:
        """Wait for the next heartbeat; partitions that were given up are reported immediately."""
        wait_s = self._wait_s()
        if self._me.must_give_up:
            wait_s = min(wait_s, max(self._gives_up_at_s - self.world.loop.now_s, 0.0))
        await asyncio.sleep(wait_s)
        if self._draw.random() < HANGS and not self.world.is_healed:
            await asyncio.sleep(self._draw.choice((0.5, 4.0)))

    async def _maybe_end(self) -> None:
        if self._is_due_to_die() or (self._draw.random() < ENDS and not self.world.is_healed):
            if self._draw.random() < 0.5:
                raise _Ended("dies")
            await self._leave()

    async def _leave(self) -> None:
        me = self._me
        returns = me.instance_id is not None and self._draw.random() < 0.7
        request = requests.leave(me.group, me.member_id, me.instance_id, returns=returns)
        me.forget()
        try:
            _, answer = await self._client.send(request)
        except Unavailable:
            raise _Ended("ends without a coordinator") from None
        code = "an unknown outcome" if answer is None else ErrorCode(answer.error_code).name
        raise _Ended(f"leaves{' for a short time' if returns else ''}: {code}")

    def _maybe_change(self) -> None:
        if self._draw.random() < CHANGES and not self.world.is_healed:
            self.subscription = draw_subscription(self._draw, self._settings)
            self.is_settled = False

    # --- heartbeats

    async def _join(self) -> None:
        me = self._me
        while True:
            if self._is_due_to_die():
                raise _Ended("dies before it joins")
            me.told = self.subscription
            request = requests.join(
                me.group,
                me.member_id,
                me.instance_id,
                self.subscription,
                self.shape.assignor,
                self._settings.rebalance_ms,
            )
            moment = self._checks.moment(me.group)
            attempt, answer = await self._send(request)
            code = self._code_of(attempt, answer, moment)
            if code is ErrorCode.NONE and attempt is not None:
                self._tells_all = False
                self._checks.joined(me, attempt, answer, moment)
                self._receive(attempt, answer, moment, is_full=True)
                self.world.say(f"{self.name} joins in epoch {me.epoch} with {len(me.held)} partitions")
                return
            await self._pause()

    async def _step(self) -> None:
        """Give up what is due, then send a heartbeat, and commit before, after, or meanwhile."""
        if self._me.must_give_up and self.world.loop.now_s >= self._gives_up_at_s:
            await self._give_up()
        if self._draw.random() < 0.25:
            await asyncio.gather(self._heartbeat(), self._commit())
        else:
            await self._heartbeat()
            await self._commit()
        await self._fetch()

    async def _give_up(self) -> None:
        me = self._me
        if self._draw.random() < 0.6:
            await self._commit()
        for partition in me.must_give_up:
            del me.held[partition]
            self._positions.pop(partition, None)

    async def _heartbeat(self) -> None:
        me = self._me
        is_full, held = self._tells_all, frozenset(me.held)
        request = requests.heartbeat(me.group, me.member_id, me.epoch, me.instance_id)
        if is_full or self.subscription != me.told:
            requests.add_subscription(request, self.subscription, self.shape.assignor)
            me.told = self.subscription
        if is_full or held != self._told_held:
            requests.add_partitions(request, held)
        if is_full:
            request.rebalance_timeout_ms = self._settings.rebalance_ms
        if not self.world.is_healed and self._draw.random() < LATE:
            # The process gives it up at once, and it arrives later.
            self._client.send_late(request, self._draw.choice((0.01, 0.3, 1.5)))
            me.unknown_outcomes += 1
            self._tells_all, self.is_settled = True, False
            return
        moment = self._checks.moment(me.group)
        self._tells_all = False
        attempt, answer = await self._send(request)
        code = self._code_of(attempt, answer, moment)
        if code is not ErrorCode.NONE or attempt is None:
            return
        self._told_held = held
        self._receive(attempt, answer, moment, is_full=is_full)
        if not self.world.is_healed and self._draw.random() < TWICE:
            self._client.send_late(request, self._draw.choice((0.0, 0.2, 1.0)))

    async def _send(self, request: Any) -> tuple[Attempt | None, Any]:
        try:
            return await self._client.send(request)
        except Unavailable:
            return None, None

    def _code_of(self, attempt: Attempt | None, answer: Any, moment: Moment) -> ErrorCode | None:
        """Return the code of an answer, None without one. Raise _Removed; fail for an error that has no reason."""
        me = self._me
        code = None if answer is None else ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            return code
        self._tells_all, self.is_settled = True, False
        if attempt is None:
            return None
        if code in REMOVED:
            self._checks.refused(me, attempt, code, moment)
            raise _Removed(f"{code.name} {answer.error_message}")
        me.unknown_outcomes += 1
        if code is not None and code not in requests.RETRIED:
            self.world.checks.fail(f"{self.name} receives {code.name} for a heartbeat: {answer.error_message}")
        self._client.forget_coordinator()
        return code

    def _receive(self, attempt: Attempt, answer: Any, moment: Moment, *, is_full: bool) -> None:
        me, now_s = self._me, self.world.loop.now_s
        self._checks.answered(me, attempt, answer, moment)
        me.epoch, me.unknown_outcomes = answer.member_epoch, 0
        if answer.assignment is not None:
            self._want(requests.partitions_of(answer.assignment))
        me.decided(attempt, is_full=is_full)
        for partition in me.wanted:
            me.held.setdefault(partition, now_s)
        self._checks.holds(me, attempt, moment)
        self._tells_all = self._tells_all or me.is_confused
        self.is_settled = not me.must_give_up and not self._tells_all and me.told == self.subscription

    def _want(self, wanted: frozenset[TopicPartition]) -> None:
        me = self._me
        before = me.must_give_up
        me.wanted = wanted
        if me.must_give_up - before:
            never = not self.world.is_healed and self._draw.random() < NEVER_GIVES_UP
            self._gives_up_at_s = self.world.loop.now_s + (NEVER_S if never else self._draw.choice(GIVES_UP_S))
            names = ", ".join(sorted(str(partition.index) for partition in me.must_give_up))
            self.world.say(f"{self.name} must give up {names} in epoch {me.epoch}")

    def _decided_late(self, me: Membership, attempt: Attempt) -> None:
        """Note a request that this process, or an earlier one, has given up."""
        request = attempt.request
        if requests.is_commit(request):
            epoch = request.generation_id_or_member_epoch
            self._checks.commit_decided_late(me, epoch, requests.committed_offsets(request))
            return
        me.decided_late(attempt)
        if me is self.me:
            self._tells_all = True

    # --- offsets

    def _data(self) -> list[TopicPartition]:
        """Return the partitions of the topic that is never deleted."""
        topics = self.world.checks.model.now["topics"]
        return sorted(
            (held for held in self._me.held if held.topic_id in topics and topics[held.topic_id][0] == DATA_TOPIC),
            key=lambda partition: partition.index,
        )

    async def _fetch(self) -> None:
        """Fetch the offsets of the partitions that are new."""
        me = self._me
        new = [partition for partition in self._data() if partition not in self._positions]
        if not new:
            return
        floor = self._checks.floor(me.group, [partition.index for partition in new])
        moment = self._checks.moment(me.group)
        attempt, answer = await self._send(requests.fetch(me.group, me.member_id, me.epoch, new))
        if attempt is None or answer is None:
            return
        found = answer.groups[0]
        code = requests.code_of_fetched(found)
        if code is not ErrorCode.NONE:
            self._check_offset_error(code, "OffsetFetch")
            self._client.forget_coordinator()
            return
        offsets = {partition.partition_index: partition.committed_offset for partition in found.topics[0].partitions}
        if moment == self._checks.moment(me.group)._replace(epoch=moment.epoch):
            self._checks.fetched(me, offsets, floor)
        self._positions.update({partition: offsets[partition.index] for partition in new if partition in me.held})

    async def _commit(self) -> None:
        """Commit offsets that are some records greater than before."""
        me = self._me
        positions = {partition: self._positions[partition] for partition in self._data() if partition in self._positions}
        if not positions:
            return
        offsets = {partition: at + self._draw.randrange(1, 9) for partition, at in positions.items()}
        self._positions.update(offsets)
        self._checks.commit_sent(me.group, {partition.index: offset for partition, offset in offsets.items()})
        request = requests.commit(me.group, me.member_id, me.instance_id, me.epoch, offsets)
        if not self.world.is_healed and self._draw.random() < LATE:
            self._client.send_late(request, self._draw.choice((0.01, 0.3, 1.5)))
            return
        moment = self._checks.moment(me.group)
        was_certain = not me.unknown_outcomes
        attempt, answer = await self._send(request)
        if attempt is None or answer is None:
            return
        code = requests.code_of_committed(answer)
        if code is ErrorCode.NONE:
            self._checks.committed(me, attempt, offsets, moment)
            return
        self._check_offset_error(code, "OffsetCommit")
        if was_certain and not me.unknown_outcomes and offsets.keys() <= me.held.keys():
            # Also after a heartbeat that has overtaken it (KIP-1251).
            self._checks.refused(me, attempt, code, moment)
        if code not in REMOVED:
            self._client.forget_coordinator()

    def _check_offset_error(self, code: ErrorCode, what: str) -> None:
        if code not in REMOVED and code not in requests.RETRIED:
            self.world.checks.fail(f"{self.name} receives {code.name} for {what}")


# --- all members


def start_consumer_members(world: World) -> list[ConsumerMember]:
    """Start all members. Call this outside the context of any node, because clients outlive every node."""
    shape = world.shape.consumer_groups
    members = [ConsumerMember(world, member) for member in shape.members] if shape is not None else []
    for member in members:
        task = world.loop.create_task(member.run())
        task.add_done_callback(partial(report_end, world, member))  # type: ignore[arg-type]
    return members


def unsettled_members(world: World, members: list[ConsumerMember]) -> str | None:
    """Return a problem unless each group has reached its target, in which each subscribed partition has one member."""
    shape = world.shape.consumer_groups
    for group in shape.groups if shape is not None else ():
        present = [member for member in members if member.shape.group == group and not member.is_over]
        problem = _problem(world, group, present)
        if problem is not None:
            return problem
    return None


def _problem(world: World, group: str, members: list[ConsumerMember]) -> str | None:
    for member in members:
        if not member.is_settled or member.me is None:
            return f"{member.name} is not settled"
    epochs = {member.me.epoch for member in members if member.me is not None}
    if len(epochs) > 1:
        return f"the members of {group} are in the epochs {sorted(epochs)}"
    for topic_id, (name, partitions) in world.checks.model.now["topics"].items():
        subscribed = [member for member in members if member.subscription.covers(name)]
        for index in partitions if subscribed else ():
            partition = TopicPartition(topic_id, index)
            owners = [member.name for member in members if member.me is not None and partition in member.me.held]
            if len(owners) != 1:
                return f"{name}-{index} has the members {owners} of {group}"
    return _imbalance(world, group, members)


def _imbalance(world: World, group: str, members: list[ConsumerMember]) -> str | None:
    """Return a problem if members with one subscription and one assignor do not share the partitions evenly."""
    assignors = {member.shape.assignor for member in members}
    if len({member.subscription for member in members}) > 1 or len(assignors) > 1:
        return None
    counts = {member.name: len(member.me.held) for member in members if member.me is not None}
    topics = sum(members[0].subscription.covers(name) for name, _ in world.checks.model.now["topics"].values())
    allowed = topics if assignors == {"range"} else 1
    if max(counts.values()) - min(counts.values()) > allowed:
        return f"the members of {group} have {counts} partitions"
    return None
