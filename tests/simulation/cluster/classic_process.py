"""A process of the classic protocol in a group whose other processes may speak the consumer protocol.

It keeps to the rules of Kafka's client with the ``range`` assignor (eager), or with the ``cooperative-sticky`` one. As
the leader of a classic group it assigns, and lets the group rebalance when topics have changed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster import classic_requests as requests
from tests.simulation.cluster.consumer_group_checks import REMOVED, Moment, TopicPartition
from tests.simulation.cluster.consumer_group_shape import Protocols
from tests.simulation.cluster.member_process import ProcessEnded, Removed
from tests.simulation.cluster.subscribing_process import SubscribingProcess

if TYPE_CHECKING:
    from tests.simulation.cluster.consumer_group_shape import MemberShape
    from tests.simulation.cluster.observed_client import Attempt
    from tests.simulation.cluster.world import World

__all__ = ["ClassicProcess"]


class ClassicProcess(SubscribingProcess):
    uses_classic = True

    def __init__(
        self, world: World, shape: MemberShape, draw: random.Random, number: int, dies_s: float | None
    ) -> None:
        super().__init__(world, shape, draw, number, dies_s)
        self.me.member_id = ""  # The coordinator chooses it.
        self._protocol = requests.PROTOCOLS[shape.protocols]
        self._is_eager = shape.protocols is Protocols.EAGER
        self._must_join = True
        self._led_topics: frozenset[str] = frozenset()
        """The topics of its group, while it is the leader."""
        self._led_counts: dict[str, int] = {}
        """Their numbers of partitions, as it has assigned them."""

    def is_join(self, request: Any) -> bool:
        return requests.is_join(request)

    def decided_late(self, attempt: Attempt) -> None:
        self._must_join = True

    def forget(self) -> None:
        super().forget()
        self._must_join = True

    async def leave(self) -> str:
        """A static member only dies: its successor shall have its partitions."""
        me = self.me
        request = requests.leave(me.group, me.member_id)
        me.forget()
        if me.instance_id is not None:
            return "dies"
        _, answer = await self.send(request)
        return f"leaves: {'an unknown outcome' if answer is None else ErrorCode(answer.error_code).name}"

    # --- joining

    async def join(self) -> None:
        while self._must_join:
            if self.is_due_to_die:
                raise ProcessEnded("dies before it joins")
            self._must_join = not await self._has_joined()
            if self._must_join:
                self.is_settled = False
                await self.pause()

    async def _has_joined(self) -> bool:
        """Send JoinGroup and SyncGroup; return whether both have succeeded."""
        me = self.me
        if self._is_eager:
            self._release(me.held)
        me.told = self.subscription
        request = requests.join(
            me,
            self._protocol,
            [] if self._is_eager else [(self.checks.name_of(held) or "", held.partition) for held in me.held],
            self.settings.session_ms,
            self.settings.rebalance_ms,
        )
        moment = self.checks.moment(me.group)
        timeout_s = self.settings.rebalance_ms / 1000 + 2.0
        attempt, joined = await self.send(request, timeout_s)
        if attempt is None or self._code_of(attempt, joined, moment) is not ErrorCode.NONE:
            return False
        me.member_id = joined.member_id
        self._led_topics, self._led_counts = frozenset(), {}
        assignments = self._assign(joined) if joined.leader == me.member_id else []
        joined_at, joined_attempt = moment, attempt
        moment = self.checks.moment(me.group)
        request = requests.sync(me, joined.generation_id, self._protocol, assignments)
        attempt, synced = await self.send(request, timeout_s)
        if attempt is None or self._code_of(attempt, synced, moment) is not ErrorCode.NONE:
            return False
        if me.joined_s < 0:
            self.checks.joined(me, joined_attempt, joined.generation_id, joined_at)
        self.checks.reached(me, joined.generation_id, joined_at)
        me.epoch = joined.generation_id
        self._receive(attempt, synced, moment)
        return not self._must_join

    def _receive(self, attempt: Attempt, synced: Any, moment: Moment) -> None:
        me, now_s = self.me, self.world.loop.now_s
        wanted = frozenset(self.checks.partition_of(*found) for found in requests.assigned(synced.assignment))
        me.unknown_outcomes = 0
        if not all(self.subscription.covers(self.checks.name_of(found) or "") for found in wanted):
            # A static member that returns to a classic group receives the assignment of the one before it.
            return
        me.wanted, self._must_join = wanted, False
        if me.must_give_up:
            self._must_join = True  # What it gives up can be assigned in the next generation.
            self._release(me.must_give_up)
        me.decided(attempt, is_full=True)
        for partition in wanted:
            me.held.setdefault(partition, now_s)
        self.checks.holds(me, attempt, moment)
        self.world.say(f"{self.name} has {len(me.held)} partitions in generation {me.epoch}")

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            del self.me.held[partition]
            self.positions.pop(partition, None)

    def _code_of(self, attempt: Attempt, answer: Any, moment: Moment) -> ErrorCode | None:
        """Return the code of an answer, None without one. Raise Removed; fail for an error that has no reason."""
        me = self.me
        code = None if answer is None else ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            return code
        self.is_settled = False
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            me.member_id = answer.member_id
            return code
        if code in REMOVED or code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self.checks.refused(me, attempt, code, moment)
            if code is not ErrorCode.ILLEGAL_GENERATION:
                me.member_id = ""
            raise Removed(code.name)
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            me.unknown_outcomes += 1
            self.client.forget_coordinator()
        if code is not None and code not in requests.RETRIED:
            self.world.checks.fail(f"{self.name} receives {code.name} for {type(attempt.request).__name__}")
        return code

    # --- the leader of a classic group

    def _counts(self) -> dict[str, int]:
        """Return the present numbers of partitions of the group's topics."""
        now = self.world.checks.model.now["topics"].values()
        return {name: len(partitions) for name, partitions in sorted(now) if name in self._led_topics}

    def _assign(self, joined: Any) -> list[Any]:
        members = {member.member_id: requests.read(member.metadata) for member in joined.members}
        self._led_topics = frozenset(topic for member in members.values() for topic in member.topics)
        self._led_counts = self._counts()
        owners = {owned: member_id for member_id, member in members.items() for owned in member.owned}
        found: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in members}
        for topic, count in self._led_counts.items():
            subscribed = sorted(member_id for member_id, member in members.items() if topic in member.topics)
            for index in range(count):
                member_id = subscribed[index % len(subscribed)]
                if owners.get((topic, index), member_id) == member_id:
                    found[member_id].append((topic, index))  # Otherwise its owner must give it up first.
        return [requests.assignment(member_id, partitions) for member_id, partitions in found.items()]

    # --- following

    async def step(self) -> None:
        me = self.me
        moment = self.checks.moment(me.group)
        attempt, answer = await self.send(requests.heartbeat(me))
        code = None if attempt is None else self._code_of(attempt, answer, moment)
        if attempt is None or code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.is_settled = False
            return
        me.decided(attempt, is_full=False, must_rejoin=code is not ErrorCode.NONE)
        self.checks.holds(me, attempt, moment)
        self._must_join = (
            self._must_join
            or code is not ErrorCode.NONE
            or me.told != self.subscription
            or self._counts() != self._led_counts
        )
        self.is_settled = not self._must_join
        if not self._must_join or self.draw.random() < 0.6:
            await self.commit()
        await self.join()
