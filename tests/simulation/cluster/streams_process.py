"""A process of a member of a streams group (KIP-1071)."""

from __future__ import annotations

import random
from collections.abc import Set
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster import streams_group_requests as requests
from tests.simulation.cluster.consumer_group_checks import TopicPartition
from tests.simulation.cluster.heartbeat_process import HeartbeatProcess
from tests.simulation.cluster.streams_group_shape import READER

if TYPE_CHECKING:
    from tests.simulation.cluster.streams_group_shape import StreamsMemberShape
    from tests.simulation.cluster.world import World

__all__ = ["StreamsProcess"]


class StreamsProcess(HeartbeatProcess):
    what_it_has = "tasks"

    def __init__(
        self, world: World, shape: StreamsMemberShape, draw: random.Random, number: int, dies_s: float | None
    ) -> None:
        settings = world.shape.streams_groups
        assert settings is not None
        super().__init__(world, shape, settings, world.checks.streams_groups, draw, number, dies_s)
        self.shape = shape
        self.statuses: frozenset[int] = frozenset()
        """What the last answer says besides the tasks."""
        self._endpoint_epoch = -1

    def is_join(self, request: Any) -> bool:
        return requests.is_join(request)

    def held_with(self, index: int) -> TopicPartition:
        return TopicPartition(READER, index)

    def join_request(self) -> Any:
        return requests.join(self.shape, self.me.member_id, self.settings.rebalance_ms, self.world.shape.data_replicas)

    def heartbeat_request(self, held: frozenset[TopicPartition], *, is_full: bool) -> Any:
        me = self.me
        request = requests.heartbeat(self.shape, me.member_id, me.epoch, self._endpoint_epoch)
        if is_full:
            requests.add_process(request, self.shape, self.settings.rebalance_ms)
        if is_full or held != self._told_held:
            requests.add_tasks(request, held)
        return request

    def wanted_of(self, answer: Any) -> frozenset[TopicPartition] | None:
        self.statuses = frozenset(status.status_code for status in answer.status or ())
        self._endpoint_epoch = answer.endpoint_information_epoch
        return requests.tasks_of(answer)

    def name_of(self, found: TopicPartition) -> str:
        return f"{found.topic}-{found.partition}"

    @property
    def retried(self) -> Set[ErrorCode]:
        return requests.RETRIED

    async def leave(self) -> str:
        request = requests.leave(self.shape, self.me.member_id)
        self.me.forget()
        _, answer = await self.send(request)
        return f"leaves: {'an unknown outcome' if answer is None else ErrorCode(answer.error_code).name}"

    async def step(self) -> None:
        await self.maybe_give_up()
        await self.heartbeat()
        await self.commit()
