"""A process of the consumer protocol (KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster import consumer_group_requests as requests
from tests.simulation.cluster.consumer_group_checks import TopicPartition
from tests.simulation.cluster.heartbeat_process import HeartbeatProcess
from tests.simulation.cluster.subscribing_process import SubscribingProcess

__all__ = ["ConsumerProcess"]


class ConsumerProcess(HeartbeatProcess, SubscribingProcess):
    def is_join(self, request: Any) -> bool:
        return requests.is_join(request)

    def join_request(self) -> Any:
        me = self.me
        me.told = self.subscription
        return requests.join(
            me.group, me.member_id, me.instance_id, self.subscription, self.shape.assignor, self.settings.rebalance_ms
        )

    def heartbeat_request(self, held: frozenset[TopicPartition], *, is_full: bool) -> Any:
        me = self.me
        request = requests.heartbeat(me.group, me.member_id, me.epoch, me.instance_id)
        if is_full or self.subscription != me.told:
            requests.add_subscription(request, self.subscription, self.shape.assignor)
            me.told = self.subscription
        if is_full or held != self._told_held:
            requests.add_partitions(request, held)
        if is_full:
            request.rebalance_timeout_ms = self.settings.rebalance_ms
        return request

    def wanted_of(self, answer: Any) -> frozenset[TopicPartition] | None:
        return None if answer.assignment is None else requests.partitions_of(answer.assignment)

    def name_of(self, found: TopicPartition) -> str:
        return f"{self.checks.name_of(found)}-{found.partition}"

    @property
    def retried(self) -> Set[ErrorCode]:
        return requests.retried(self.shape.protocols)

    @property
    def has_told_its_wishes(self) -> bool:
        return self.me.told == self.subscription

    async def leave(self) -> str:
        me = self.me
        returns = me.instance_id is not None and self.draw.random() < 0.7
        request = requests.leave(me.group, me.member_id, me.instance_id, returns=returns)
        me.forget()
        _, answer = await self.send(request)
        code = "an unknown outcome" if answer is None else ErrorCode(answer.error_code).name
        return f"leaves{' for a short time' if returns else ''}: {code}"

    async def step(self) -> None:
        await self.maybe_give_up()
        if self.draw.random() < 0.25:
            await asyncio.gather(self.heartbeat(), self.commit())
        else:
            await self.heartbeat()
            await self.commit()
