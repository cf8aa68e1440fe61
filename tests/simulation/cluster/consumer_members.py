"""Members of groups of the consumer protocol (KIP-848), as processes that follow each other.

In some groups a process may also speak the classic protocol: such a group is converted while it has members, in both
directions. After the faults all members stay, except those that have died for good and second processes of an instance
id.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster.classic_process import ClassicProcess
from tests.simulation.cluster.consumer_group_shape import MemberShape, Protocols
from tests.simulation.cluster.consumer_process import ConsumerProcess
from tests.simulation.cluster.producers import report_end
from tests.simulation.cluster.subscribing_process import SubscribingProcess

if TYPE_CHECKING:
    from tests.simulation.cluster.consumer_group_checks import Membership
    from tests.simulation.cluster.world import World

__all__ = ["ConsumerMember", "start_consumer_members", "unsettled_members"]

CLASSIC_AT_FIRST, CLASSIC_LATER = 0.8, 0.3
"""The shares of processes of the classic protocol in the first half of a run, and later."""


class ConsumerMember:
    def __init__(self, world: World, shape: MemberShape) -> None:
        self.world = world
        self.shape = shape
        self.name = shape.name
        self.process: SubscribingProcess | None = None
        self.is_over = False
        """Whether it has died for good."""
        self._draw = random.Random(f"{shape.name} {world.seed}")
        ends_s = world.plan.faults_end_ms / 1000
        self._dies_s: float | None = None
        if shape.is_second:
            self._dies_s = ends_s
        elif shape.number and self._draw.random() < 0.2:
            self._dies_s = self._draw.uniform(1.5, ends_s)

    async def run(self) -> None:
        settings = self.world.shape.consumer_groups
        assert settings is not None
        if not settings.is_in_step:
            await asyncio.sleep(self._draw.uniform(0.0, 1.5))
        number = 0
        while True:
            number += 1
            kind = ClassicProcess if self._is_next_classic() else ConsumerProcess
            self.process = kind(self.world, self.shape, self._draw, number, self._dies_s)
            await self.process.live()
            if self.process.is_due_to_die:
                self.is_over = True
                return
            await asyncio.sleep(self._draw.choice((0.05, 0.5, 3.0)))

    def _is_next_classic(self) -> bool:
        if self.shape.protocols is Protocols.CONSUMER:
            return False
        is_early = self.world.loop.now_s < self.world.plan.faults_end_ms / 2000
        return self._draw.random() < (CLASSIC_AT_FIRST if is_early else CLASSIC_LATER)


def start_consumer_members(world: World) -> list[ConsumerMember]:
    """Start all members. Call this outside the context of any node, because clients outlive every node."""
    shape = world.shape.consumer_groups
    members = [ConsumerMember(world, member) for member in shape.members] if shape is not None else []
    for member in members:
        task = world.loop.create_task(member.run())
        task.add_done_callback(partial(report_end, world, member))
    return members


def unsettled_members(world: World, members: list[ConsumerMember]) -> str | None:
    """Return a problem unless each group has reached its target, in which each subscribed partition has one member."""
    shape = world.shape.consumer_groups
    for group in shape.groups if shape is not None else ():
        present = [member for member in members if member.shape.group == group and not member.is_over]
        for member in present:
            if member.process is None or not member.process.is_settled:
                return f"{member.name} is not settled"
        problem = _problem(world, group, [member.process for member in present if member.process is not None])
        if problem is not None:
            return problem
    return None


def _problem(world: World, group: str, processes: list[SubscribingProcess]) -> str | None:
    epochs = {process.me.epoch for process in processes}
    if len(epochs) > 1:
        return f"the members of {group} are in the epochs {sorted(epochs)}"
    for topic_id, (name, partitions) in world.checks.model.now["topics"].items():
        subscribed = [process for process in processes if process.subscription.covers(name)]
        for index in partitions if subscribed else ():
            owners = [process.name for process in subscribed if _has(process.me, topic_id, name, index)]
            if len(owners) != 1:
                return f"{name}-{index} has the members {owners} of {group}"
    return _imbalance(world, group, processes)


def _has(me: Membership, topic_id: object, name: str, index: int) -> bool:
    return any(held.partition == index and held.topic in (topic_id, name) for held in me.held)


def _imbalance(world: World, group: str, processes: list[SubscribingProcess]) -> str | None:
    """Return a problem if members with one subscription and one assignor do not share the partitions evenly."""
    assignors = {process.shape.assignor for process in processes}
    subscriptions = {process.subscription for process in processes}
    if len(subscriptions) > 1 or len(assignors) > 1 or any(process.uses_classic for process in processes):
        return None
    counts = {process.name: len(process.me.held) for process in processes}
    topics = sum(subscriptions.copy().pop().covers(name) for name, _ in world.checks.model.now["topics"].values())
    allowed = topics if assignors == {"range"} else 1
    if max(counts.values()) - min(counts.values()) > allowed:
        return f"the members of {group} have {counts} partitions"
    return None
