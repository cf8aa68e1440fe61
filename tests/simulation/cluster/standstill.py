"""A process that is suspended while its connections stay open, and a node whose packets are lost.

The cause may be ``SIGSTOP``, a paused virtual machine, or a firewall that drops packets: no other process receives a
reset. Messages to the node are accepted but not answered until it resumes; then it reads all of them immediately.

A standstill begins in a healthy cluster without other faults, so that it causes every violation that follows. Only the
suspended broker may be fenced, producers wait no longer than its session and a second, and all records acknowledged
before and meanwhile exist (the other checks continue).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster.client_process import ClientProcess
from tests.simulation.cluster.data_watch import PartitionName
from tests.simulation.cluster.producers import DATA_TOPIC, Producer

if TYPE_CHECKING:
    from tests.simulation.cluster.node import ClusterShape, SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["Standstill", "draw_standstill", "stand_still"]

STALL_MS = 1000
"""The time that a producer may wait in addition to the session of a broker."""
WARM_UP_MS = 1000
AFTERWARDS_MS = 4000
"""The time during which the effects of the node's return are checked."""
STEP_MS = 100
CLIENT_TIMEOUT_S = 0.3
PAUSE_S = 0.1
STEPS_IN_A_SECOND = 3000
"""The number of additional events that the run may take in a second of a standstill."""


@dataclass(frozen=True, slots=True)
class Standstill:
    target: str
    """``controller``: the active one; ``leader``, ``follower``: of a partition with data; ``any`` node."""
    for_ms: int
    is_silent: bool
    """Whether the process runs, but its packets are lost in both directions."""


def draw_standstill(draw: random.Random, shape: ClusterShape) -> Standstill | None:
    """Draw a standstill, if the cluster tolerates the loss of a node and its sessions outlast an election."""
    voters = len(shape.controller_ids) - len(shape.spare_ids)
    is_possible = shape.replicates and shape.min_in_sync < len(shape.broker_ids) and voters >= 3
    if not is_possible or shape.changes_quorum or shape.session_ms < 3 * shape.fetch_timeout_ms:
        return None
    return Standstill(
        draw.choice(("controller", "controller", "leader", "follower", "any")),
        draw.choice((5000, 5000, 5000, 20_000, 20_000, 60_000)),
        draw.random() < 0.4,
    )


class _Probe(Producer):
    """Writes to one partition continuously, and records the time of the last success."""

    def __init__(self, world: World, index: int, avoided: int) -> None:
        super().__init__(world, 100 + index, is_idempotent=True)
        self.index = index
        self.acknowledged_s = world.loop.now_s
        self.is_over = False
        self._avoided = avoided
        self._process = ClientProcess(world, 100 + index, timeout_s=CLIENT_TIMEOUT_S)

    async def run(self) -> None:
        while not self.is_over:
            if self._producer_id < 0 and not await self._begin():
                await self._pause()
                continue
            await self._write(self.index)
            self.acknowledged_s = self.world.loop.now_s
            await self._pause()
        self.is_settled = True

    def _brokers(self) -> list[SimulatedNode]:
        """Return the brokers except the suspended one: a client contacts another broker if one does not answer."""
        return [node for node in super()._brokers() if node.id != self._avoided]

    @property
    def _pause_s(self) -> float:
        return PAUSE_S


def stand_still(world: World, standstill: Standstill) -> None:
    """Execute the standstill after all other faults; fail if it affects more than the suspended node."""
    world.at_next_leader.clear()
    while world.loop.now_s < world.faults_over_s:
        world._until(int(world.faults_over_s * 1000) + 1)
    for other in world.nodes.values():
        world.restart(other)
    node = _chosen(world, standstill)
    world.steps_max += STEPS_IN_A_SECOND * (standstill.for_ms + AFTERWARDS_MS) // 1000
    # A partition whose records only one replica can still have does not tolerate the loss of that node.
    whole = [
        index
        for index in range(world.shape.data_partitions)
        if not world.checks.records.has_gap(PartitionName(DATA_TOPIC, index))
    ]
    probes = [_Probe(world, index, node.id) for index in whole]
    tasks: list[Any] = []
    world._now(lambda: tasks.extend(world.loop.create_task(probe.run()) for probe in probes))
    world._until(_now_ms(world) + WARM_UP_MS)
    limit_ms = world.shape.session_ms + STALL_MS + _takeover_ms(world, node)
    what = "its packets are lost" if standstill.is_silent else "it is suspended"
    world.say(f"-- {node.name}, {standstill.target}: {what} for {standstill.for_ms} ms")
    _begin(world, node, standstill)
    end_ms = _now_ms(world) + standstill.for_ms
    while _now_ms(world) < end_ms + AFTERWARDS_MS:
        world._until(_now_ms(world) + STEP_MS)
        if world.network.silent and _now_ms(world) >= end_ms:
            world.network.end_silence()
        _check_fenced(world, node)
        for probe in probes:
            waits_ms = int((world.loop.now_s - probe.acknowledged_s) * 1000)
            if waits_ms > limit_ms:
                world.checks.fail(
                    f"{DATA_TOPIC}-{probe.index} has accepted no records for {waits_ms} ms while {node.name} did not "
                    f"respond; the limit is {limit_ms} ms"
                )
    for probe in probes:
        probe.is_over = True
    world.checks.counts["standstills"] += 1


def _begin(world: World, node: SimulatedNode, standstill: Standstill) -> None:
    if standstill.is_silent:
        world.network.silence(node.id, [*world.nodes, -1])
    elif node.owner is not None:
        node.owner.paused_until_s = world.loop.now_s + standstill.for_ms / 1000


def _chosen(world: World, standstill: Standstill) -> SimulatedNode:
    draw = random.Random(f"who stands still {world.seed}")
    active = next(node for node in world.controllers if node.is_leader)
    if standstill.target == "controller":
        return active
    topics = world.checks.model.now["topics"].values()
    partitions = next((partitions for name, partitions in topics if name == DATA_TOPIC), None)
    if standstill.target == "any" or partitions is None:
        return world.nodes[draw.choice(sorted(world.nodes))]
    _, isr, leader, _, _ = partitions[draw.choice(sorted(partitions))]
    if standstill.target == "leader":
        return world.nodes[leader]
    return world.nodes[draw.choice(sorted(set(isr) - {leader}) or [leader])]


def _takeover_ms(world: World, node: SimulatedNode) -> int:
    """Return the additional wait if the node is the active controller and a broker: its successor is elected first."""
    if not (node.is_leader and node.is_broker):
        return 0
    shape = world.shape
    return 2 * shape.fetch_timeout_ms + 3 * shape.election_timeout_ms


def _check_fenced(world: World, node: SimulatedNode) -> None:
    for broker_id, broker in world.checks.model.now["brokers"].items():
        if broker_id != node.id and broker[2]:
            world.checks.fail(f"broker {broker_id} is fenced because {node.name} does not respond")


def _now_ms(world: World) -> int:
    return int(world.loop.now_s * 1000)
