"""Members of streams groups (KIP-1071), as processes that follow each other.

After the faults all members stay, except those that have died for good.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.cluster import streams_group_requests as requests
from tests.simulation.cluster.consumer_group_checks import TopicPartition
from tests.simulation.cluster.producers import report_end
from tests.simulation.cluster.streams_process import StreamsProcess

if TYPE_CHECKING:
    from tests.simulation.cluster.streams_group_shape import StreamsMemberShape, TopologyShape
    from tests.simulation.cluster.world import World

__all__ = ["StreamsMember", "start_streams_members", "unsettled_streams_members"]


class StreamsMember:
    def __init__(self, world: World, shape: StreamsMemberShape) -> None:
        self.world = world
        self.shape = shape
        self.name = shape.name
        self.process: StreamsProcess | None = None
        self.is_over = False
        """Whether it has died for good."""
        self._draw = random.Random(f"{shape.name} {world.seed}")
        ends_s = world.plan.faults_end_ms / 1000
        self._dies_s = self._draw.uniform(1.5, ends_s) if shape.number and self._draw.random() < 0.2 else None

    async def run(self) -> None:
        settings = self.world.shape.streams_groups
        assert settings is not None
        if not settings.is_in_step:
            await asyncio.sleep(self._draw.uniform(0.0, 1.5))
        number = 0
        while True:
            number += 1
            self.process = StreamsProcess(self.world, self.shape, self._draw, number, self._dies_s)
            await self.process.live()
            if self.process.is_due_to_die:
                self.is_over = True
                return
            await asyncio.sleep(self._draw.choice((0.05, 0.5, 3.0)))


def start_streams_members(world: World) -> list[StreamsMember]:
    """Start all members. Call this outside the context of any node, because clients outlive every node."""
    shape = world.shape.streams_groups
    members = [StreamsMember(world, member) for member in shape.members] if shape is not None else []
    for member in members:
        task = world.loop.create_task(member.run())
        task.add_done_callback(partial(report_end, world, member))
    return members


# --- the end


def unsettled_streams_members(world: World, members: list[StreamsMember]) -> str | None:
    """Return a problem unless each group has reached its target, in which each task has its members."""
    shape = world.shape.streams_groups
    for topology in shape.topologies if shape is not None else ():
        present = [member for member in members if member.shape.group == topology.group and not member.is_over]
        for member in present:
            if member.process is None or not member.process.is_settled:
                return f"{member.name} is not settled"
        problem = _problem(world, topology, [member.process for member in present if member.process is not None])
        if problem is not None:
            return problem
    return None


def _problem(world: World, topology: TopologyShape, processes: list[StreamsProcess]) -> str | None:
    epochs = {process.me.epoch for process in processes}
    if len(epochs) > 1:
        return f"the members of {topology.group} are in the epochs {sorted(epochs)}"
    counts = {name: len(partitions) for name, partitions in world.checks.model.now["topics"].values()}
    if not _is_ready(topology, counts):
        return _unready(processes)
    task_count = max(counts[topic] for topic in topology.sources)
    for subtopology in topology.subtopologies:
        for index in range(task_count):
            problem = _misplaced(world, topology, processes, subtopology, index)
            if problem is not None:
                return problem
    return None


def _is_ready(topology: TopologyShape, counts: dict[str, int]) -> bool:
    """Return whether topics of clients let the group assign tasks. Others are created by the broker."""
    if any(topic not in counts for topic in topology.sources):
        return False
    task_count = max(counts[topic] for topic in topology.sources)
    return all(counts.get(topic, task_count) == task_count for topic in topology.internal_topics)


def _unready(processes: list[StreamsProcess]) -> str | None:
    for process in processes:
        if process.me.held:
            return f"{process.name} has tasks, but its group is not ready"
        if process.statuses.isdisjoint(requests.NOT_READY):
            return f"{process.name} does not learn why its group is not ready"
    return None


def _misplaced(
    world: World, topology: TopologyShape, processes: list[StreamsProcess], subtopology: str, index: int
) -> str | None:
    active = [process.name for process in processes if TopicPartition(subtopology, index) in process.me.held]
    if len(active) != 1:
        return f"task {subtopology}-{index} has the members {active} of {topology.group}"
    standby = TopicPartition(f"{requests.STANDBY}{subtopology}", index)
    copies = [process.name for process in processes if standby in process.me.held]
    wanted = _standby_count(world, topology, processes, subtopology)
    if len(copies) != wanted:
        return f"task {subtopology}-{index} has the standby members {copies} of {topology.group} instead of {wanted}"
    return None


def _standby_count(world: World, topology: TopologyShape, processes: list[StreamsProcess], subtopology: str) -> int:
    """Only tasks with a store have standby tasks, each in another instance."""
    shape = world.shape.streams_groups
    assert shape is not None
    if not topology.is_stateful or subtopology != topology.subtopologies[-1]:
        return 0
    return min(shape.standby_replicas, len({process.shape.instance for process in processes}) - 1)
