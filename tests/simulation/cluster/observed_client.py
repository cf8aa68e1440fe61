"""A client of a group's coordinator whose requests are observed: when a broker decides each, and which broker it is.

The client itself knows only answers. The observer also knows whether a request that the client has given up was decided
later, and whether the broker that decided it was the coordinator at that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, Disconnected
from barnabas.coordinator.partitioner import coordinator_partition
from tests.simulation.cluster.channel import Process, SimulatedConnection
from tests.simulation.cluster.client_process import ClientProcess, broker_door
from tests.simulation.cluster.consumers import OFFSETS_TOPIC
from tests.simulation.cluster.producers import Unavailable

if TYPE_CHECKING:
    import random

    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["Attempt", "ObservedClient", "is_coordinator"]


class Attempt:
    """One request, sent once."""

    def __init__(self, request: Any, sent_s: float) -> None:
        self.request = request
        self.sent_s = sent_s
        self.decided_s: float | None = None
        self.is_current = False
        """Whether the broker that decided it was the coordinator, and knew that."""
        self.is_given_up = False


class ObservedClient:
    """One process of a member. ``on_decided`` is called when a broker decides one of its requests."""

    def __init__(
        self, world: World, group: str, draw: random.Random, timeout_s: float, on_decided: Callable[[Attempt], None]
    ) -> None:
        self._world = world
        self._group = group
        self._draw = draw
        self._timeout_s = timeout_s
        self._on_decided = on_decided
        self._process = ClientProcess(world, 0)
        self._coordinator = -1
        """A broker id. Like a real client, the process keeps its coordinator until a request to it fails."""

    def forget_coordinator(self) -> None:
        self._coordinator = -1

    async def send(self, request: Any, timeout_s: float | None = None) -> tuple[Attempt, Any]:
        """Send a request to the coordinator; return None for the answer if the outcome is unknown.

        Raises Unavailable if no coordinator is known, so that nothing was sent.
        """
        attempt = Attempt(request, self._world.loop.now_s)
        if self._coordinator < 0:
            self._coordinator = self._find_coordinator()
        try:
            return attempt, await self._send(attempt, self._coordinator, timeout_s or self._timeout_s)
        except ClientError:
            self.forget_coordinator()
            return attempt, None
        finally:
            attempt.is_given_up = True  # A broker that decides it from now on decides late.

    def send_late(self, request: Any, after_s: float) -> None:
        """Let a request reach its broker after the process has given it up."""
        if self._coordinator < 0:
            return
        attempt = Attempt(request, self._world.loop.now_s)
        attempt.is_given_up = True
        self._world.loop.create_task(self._deliver(attempt, self._coordinator, after_s))

    async def _deliver(self, attempt: Attempt, coordinator: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        with suppress(ClientError):
            await self._send(attempt, coordinator, self._timeout_s)

    async def _send(self, attempt: Attempt, broker: int, timeout_s: float) -> Any:
        target = self._world.nodes[broker]
        if not target.is_up or target.data is None or not target.data.is_open:
            raise Disconnected(f"{target.name} does not accept connections")

        def door(node: SimulatedNode) -> Process | None:
            process = broker_door(node)
            if process is None:
                return None

            def observed(frame: bytearray) -> Any:
                self._decided(attempt, node)
                return process(frame)

            return observed

        connection = SimulatedConnection(
            self._process,  # type: ignore[arg-type]
            target,
            Address(target.name, 9092),
            door=door,
            served=SERVED_BY_BROKER,
            timeout_s=timeout_s,
        )
        return await connection.request(attempt.request)

    def _decided(self, attempt: Attempt, node: SimulatedNode) -> None:
        attempt.decided_s = self._world.loop.now_s
        attempt.is_current = is_coordinator(self._world, node, self._group)
        self._on_decided(attempt)

    def _find_coordinator(self) -> int:
        """Return the coordinator that a random live broker knows, possibly outdated."""
        brokers = [node for node in self._world.nodes.values() if node.is_broker and node.is_up]
        topic = self._draw.choice(brokers).loader.image.topics.by_name.get(OFFSETS_TOPIC) if brokers else None
        if topic is None:
            raise Unavailable
        leader: int = topic.partitions[coordinator_partition(self._group, len(topic.partitions))].leader
        if leader < 0:
            raise Unavailable
        return leader


def is_coordinator(world: World, node: SimulatedNode, group: str) -> bool:
    """Return whether the log names this broker as the group's coordinator, and the broker has applied that."""
    model = world.checks.model
    count = next((len(partitions) for name, partitions in model.now["topics"].values() if name == OFFSETS_TOPIC), 0)
    if not count:
        return False
    states = model.partition_since(OFFSETS_TOPIC, coordinator_partition(group, count), node.applied.offset)
    return bool(states) and all(state[2:4] == (node.id, states[-1][3]) for state in states)
