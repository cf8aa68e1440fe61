"""A share session of a member with one broker, over a connection of its own.

The broker notices the end of the connection soon. A request that arrives later is lost with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, Disconnected
from barnabas.security.principal import Principal
from tests.simulation.cluster.channel import Process, SimulatedConnection, peer_of
from tests.simulation.cluster.observed_client import Attempt

if TYPE_CHECKING:
    from tests.simulation.cluster.client_process import ClientProcess
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.share_checks import Leadership, SharePartition
    from tests.simulation.cluster.world import World

__all__ = ["ShareSession"]

NOTICED_S = (0.001, 0.02, 0.4)


class ShareSession:
    def __init__(
        self,
        world: World,
        process: ClientProcess,
        broker: int,
        connection_id: str,
        draw: random.Random,
        timeout_s: float,
    ) -> None:
        self.broker = broker
        self.epoch = 0
        """Of the next request."""
        self.partitions: set[SharePartition] = set()
        """Those that the broker serves to this session."""
        self.is_open = True
        self._world = world
        self._process = process
        self._draw = draw
        self._timeout_s = timeout_s
        self._peer = peer_of(Principal("User", "admin"), "PLAINTEXT")
        self._peer.connection_id = connection_id
        self._peer.client_software_name = "unknown"
        self._on_closed: list[Callable[[], None]] = []
        self._peer.add_close_listener = self._on_closed.append
        self._is_noticed = False
        self._life = world.nodes[broker].owner
        self._connection: SimulatedConnection | None = None
        self._attempt: Attempt | None = None
        self._leaderships: dict[int, Leadership] = {}
        """Those of the broker when it decided the last request, by partition."""

    def leadership_of(self, partition: SharePartition) -> Leadership:
        return self._leaderships[partition.partition]

    async def send(self, request: Any) -> tuple[Attempt, Any]:
        """Send a request; return None for the answer if the outcome is unknown: then the session has ended."""
        attempt = self._attempt = Attempt(request, self._world.loop.now_s)
        try:
            if self._connection is None:
                self._connection = self._connected()
            return attempt, await self._connection.request(request)
        except ClientError:
            self.close()
            return attempt, None

    def _connected(self) -> SimulatedConnection:
        target = self._world.nodes[self.broker]
        if not target.is_up or target.data is None or not target.data.is_open:
            raise Disconnected(f"{target.name} does not accept connections")
        return SimulatedConnection(
            self._process,  # type: ignore[arg-type]
            target,
            Address(target.name, 9092),
            door=self._door,
            served=SERVED_BY_BROKER,
            timeout_s=self._timeout_s,
        )

    def _door(self, node: SimulatedNode) -> Process | None:
        data, attempt = node.data, self._attempt
        if data is None or not data.is_open or self._is_noticed:
            return None

        def observed(frame: bytearray) -> Any:
            if attempt is not None:
                attempt.decided_s = self._world.loop.now_s
            checks, count = self._world.checks.share_groups, self._world.shape.data_partitions
            self._leaderships = {index: checks.leadership(node, index) for index in range(count)}
            return data.dispatcher.process(self._peer, frame)  # type: ignore[arg-type]

        return observed

    def close(self) -> None:
        """End the connection."""
        if self.is_open:
            self.is_open = False
            loop, delay_s = self._world.loop, self._draw.choice(NOTICED_S)
            loop.call_later(delay_s, self._notice, context=self._world.no_process)

    def _notice(self) -> None:
        self._is_noticed = True
        node = self._world.nodes[self.broker]
        if self._life is not None and node.owner is self._life:
            node.act(self._run_listeners)

    def _run_listeners(self) -> None:
        listeners, self._on_closed = self._on_closed, []
        for listener in listeners:
            listener()
