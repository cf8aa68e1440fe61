"""One process of a member of a group: its requests, and the offsets that it fetches and commits.

A process ends by dying or leaving, or hangs, while it is a member. After all faults it does neither.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster import group_offset_requests as offset_requests
from tests.simulation.cluster.consumer_group_checks import (
    REMOVED,
    ConsumerGroupChecks,
    GroupMember,
    GroupSettings,
    Moment,
    TopicPartition,
)
from tests.simulation.cluster.consumer_group_shape import DATA_TOPIC
from tests.simulation.cluster.observed_client import Attempt, ObservedClient
from tests.simulation.cluster.producers import Unavailable

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["HEARTBEAT_S", "LATE", "MemberProcess", "ProcessEnded", "Removed"]

CLIENT_TIMEOUTS_S = (0.3, 1.5)
"""Clients with the shorter time-out give up requests that arrive and are carried out later."""
HEARTBEAT_S = 0.3
PAUSE_S = 0.1
LATE = 0.04
HANGS = 0.02
ENDS = 0.02


class Removed(Exception):
    """The process is no member of its group any more."""


class ProcessEnded(Exception):
    """The process has ended."""


class MemberProcess(ABC):
    uses_classic = False

    def __init__(
        self,
        world: World,
        shape: GroupMember,
        settings: GroupSettings,
        checks: ConsumerGroupChecks,
        draw: random.Random,
        number: int,
        dies_s: float | None,
    ) -> None:
        self.world = world
        self.name = shape.name
        self.settings = settings
        self.checks = checks
        self.draw = draw
        self.me = self.checks.begun(shape, f"{self.name} {number}", uses_classic=self.uses_classic)
        self.client = ObservedClient(world, shape.group, draw, draw.choice(CLIENT_TIMEOUTS_S), self._decided)
        self.is_settled = False
        """Whether its last heartbeat was accepted, and it has nothing to give up or to tell."""
        self.positions: dict[TopicPartition, int] = {}
        self._dies_s = dies_s
        self._is_over = False

    # --- life

    async def live(self) -> None:
        """Join, and follow the group until the process ends."""
        self._pace_s = self.draw.uniform(0.6, 1.6) * HEARTBEAT_S
        try:
            while True:
                try:
                    await self._be_a_member()
                except Removed as reason:
                    self.world.say(f"{self.name} is removed: {reason}")
                    self.forget()
                    self.client.forget_coordinator()
                    await self.pause()
        except ProcessEnded as reason:
            self.world.say(f"{self.name} {reason}")
        self._is_over = True
        self.is_settled = False
        self.checks.ended(self.me)

    async def _be_a_member(self) -> None:
        await self.join()
        while True:
            await self._rest()
            await self._maybe_end()
            self.maybe_change()
            await self.step()
            await self._fetch()

    @abstractmethod
    async def join(self) -> None:
        """Become a member. Raise ProcessEnded if it is due to die."""

    @abstractmethod
    async def step(self) -> None:
        """Give up what is due, send a heartbeat, and commit. Raise Removed if it is no member any more."""

    @abstractmethod
    async def leave(self) -> str:
        """Leave the group; return a description of how."""

    @abstractmethod
    def decided_late(self, attempt: Attempt) -> None:
        """Note that a request was decided that this process has given up. It may have ended."""

    def forget(self) -> None:
        self.me.forget()
        self.positions, self.is_settled = {}, False

    @property
    def is_due_to_die(self) -> bool:
        return self._dies_s is not None and self.world.loop.now_s >= self._dies_s

    async def _maybe_end(self) -> None:
        if not self.is_due_to_die and (self.draw.random() >= ENDS or self.world.is_healed):
            return
        if self.draw.random() < 0.5:
            raise ProcessEnded("dies")
        raise ProcessEnded(await self.leave())

    def maybe_change(self) -> None:  # noqa: B027
        """Change what the process wants of its group, if it ever does."""

    # --- time

    async def pause(self) -> None:
        if self.settings.is_in_step:
            await asyncio.sleep(self._until_next(PAUSE_S))
        else:
            await asyncio.sleep(self.draw.uniform(0.5, 1.5) * PAUSE_S)

    async def _rest(self) -> None:
        """Wait for the next heartbeat."""
        wait_s = self._pace_s * self.draw.uniform(0.7, 1.3)
        if self.settings.is_in_step:
            wait_s = self._until_next(HEARTBEAT_S)
        await asyncio.sleep(min(wait_s, self.due_in_s()))
        if self.draw.random() < HANGS and not self.world.is_healed:
            await asyncio.sleep(self.draw.choice((0.5, 4.0)))

    def due_in_s(self) -> float:
        """Return the time until the next heartbeat is due, whatever the interval."""
        return HEARTBEAT_S * 10

    def _until_next(self, period_s: float) -> float:
        """Return the time until just after the next multiple of a period."""
        return period_s - self.world.loop.now_s % period_s + self.draw.uniform(0.001, 0.003)

    # --- requests

    def _decided(self, attempt: Attempt) -> None:
        if self.is_join(attempt.request):
            self.checks.join_decided(self.me)
        if not attempt.is_given_up:
            return
        if offset_requests.is_commit(attempt.request):
            epoch = attempt.request.generation_id_or_member_epoch
            offsets = offset_requests.committed_offsets(attempt.request)
            self.checks.commit_decided_late(
                self.me, epoch, {self.held_with(index): offset for index, offset in offsets.items()}
            )
        else:
            self.me.decided_late(attempt)
            self.decided_late(attempt)

    @abstractmethod
    def is_join(self, request: Any) -> bool:
        """Return whether a request lets this process become a member."""

    async def send(self, request: Any, timeout_s: float | None = None) -> tuple[Attempt | None, Any]:
        """Send a request; return None twice if no coordinator is known, and once if the outcome is unknown."""
        try:
            return await self.client.send(request, timeout_s)
        except Unavailable:
            return None, None

    # --- offsets

    def data_id(self) -> Any:
        """Return the id of the topic that is never deleted, None before it exists."""
        topics = self.world.checks.model.now["topics"]
        return next((topic_id for topic_id, (name, _) in topics.items() if name == DATA_TOPIC), None)

    def held_with(self, index: int) -> TopicPartition:
        """Return what a member must have to read a partition of that topic."""
        return TopicPartition(self.data_id(), index)

    def _data(self) -> list[TopicPartition]:
        """Return what the process has of that topic."""
        found = (held for held in self.me.held if held == self.held_with(held.partition))
        return sorted(found, key=lambda held: held.partition) if self.data_id() is not None else []

    async def _fetch(self) -> None:
        """Fetch the offsets of the partitions that are new."""
        me = self.me
        new = [partition for partition in self._data() if partition not in self.positions]
        if not new:
            return
        floor = self.checks.floor(me.group, [partition.partition for partition in new])
        moment = self.checks.moment(me.group)
        member_id, epoch = (None, -1) if self.uses_classic else (me.member_id, me.epoch)
        attempt, answer = await self.send(
            offset_requests.fetch(
                me.group, member_id, epoch, self.data_id(), [partition.partition for partition in new]
            )
        )
        if attempt is None or answer is None:
            return
        found = answer.groups[0]
        code = offset_requests.code_of_fetched(found)
        if code is not ErrorCode.NONE:
            self._check_offset_error(code, "OffsetFetch")
            self.client.forget_coordinator()
            return
        offsets = {partition.partition_index: partition.committed_offset for partition in found.topics[0].partitions}
        if moment.losses == self.checks.moment(me.group).losses:
            self.checks.fetched(me, offsets, floor)
        self.positions.update({partition: offsets[partition.partition] for partition in new if partition in me.held})

    async def commit(self) -> None:
        """Commit offsets that are some records greater than before."""
        me = self.me
        positions = {partition: self.positions[partition] for partition in self._data() if partition in self.positions}
        if not positions:
            return
        offsets = {partition: at + self.draw.randrange(1, 9) for partition, at in positions.items()}
        self.positions.update(offsets)
        by_index = {partition.partition: offset for partition, offset in offsets.items()}
        self.checks.commit_sent(me.group, by_index)
        request = offset_requests.commit(me.group, me.member_id, me.instance_id, me.epoch, self.data_id(), by_index)
        if not self.world.is_healed and self.draw.random() < LATE:
            self.client.send_late(request, self.draw.choice((0.01, 0.3, 1.5)))
            return
        moment = self.checks.moment(me.group)
        was_certain, joined_s = not me.unknown_outcomes, me.joined_s
        attempt, answer = await self.send(request)
        if attempt is not None and answer is not None:
            code = offset_requests.code_of_committed(answer)
            # A heartbeat that was sent with it may have ended the membership, and the process may have joined again.
            was_certain = was_certain and me.joined_s == joined_s
            self._committed(attempt, code, offsets, moment, was_certain=was_certain)

    def _committed(
        self,
        attempt: Attempt,
        code: ErrorCode,
        offsets: dict[TopicPartition, int],
        moment: Moment,
        *,
        was_certain: bool,
    ) -> None:
        me = self.me
        if code is ErrorCode.NONE:
            self.checks.committed(me, attempt, offsets, moment)
            return
        self._check_offset_error(code, "OffsetCommit")
        if was_certain and not me.unknown_outcomes and offsets.keys() <= me.held.keys():
            # Also after a heartbeat that has overtaken it (KIP-1251).
            self.checks.refused(me, attempt, code, moment)
        if code not in REMOVED:
            self.client.forget_coordinator()

    def _check_offset_error(self, code: ErrorCode, what: str) -> None:
        if code not in REMOVED and code not in offset_requests.RETRIED:
            self.world.checks.fail(f"{self.name} receives {code.name} for {what}")
