"""The streams groups of a run, their topologies, members and settings, drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from tests.simulation.cluster.failed_seeds import failed_before

__all__ = ["READER", "StreamsMemberShape", "StreamsShape", "TopologyShape", "draw_streams_groups"]

SHARE = 0.45
"""The share of runs with streams groups among those with data and no other groups of the newer kinds."""
READER, COUNTER = "0", "1"
"""The subtopologies: the first one reads topics of clients, the second one what the first one writes."""


class TopologyShape(NamedTuple):
    """A topology of at most two subtopologies. No member ever has another one: Kafka 4.3 would refuse it."""

    group: str
    sources: tuple[str, ...]
    is_stateful: bool
    """Whether the last subtopology has a store."""
    repartitions: bool
    """Whether the first subtopology writes records for a second one."""

    @property
    def repartition_topic(self) -> str:
        return f"{self.group}-by-key-repartition"

    @property
    def changelog_topic(self) -> str:
        return f"{self.group}-counts-changelog"

    @property
    def subtopologies(self) -> tuple[str, ...]:
        return (READER, COUNTER) if self.repartitions else (READER,)

    @property
    def internal_topics(self) -> list[str]:
        """The topics that the broker creates."""
        return [self.repartition_topic] * self.repartitions + [self.changelog_topic] * self.is_stateful


class StreamsMemberShape(NamedTuple):
    """A member, whose processes follow each other."""

    topology: TopologyShape
    number: int
    instance: str
    """The instance of the application: some members share one, as threads do. They have one process id."""
    has_endpoint: bool

    @property
    def group(self) -> str:
        return self.topology.group

    @property
    def name(self) -> str:
        return f"member {self.number} of {self.group}"

    @property
    def instance_id(self) -> None:
        """Kafka 4.3 has no static members of streams groups."""
        return None

    @property
    def may_begin_again(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class StreamsShape:
    members: tuple[StreamsMemberShape, ...]
    session_ms: int
    rebalance_ms: int
    assignment_interval_ms: int
    initial_delay_ms: int
    standby_replicas: int
    is_in_step: bool
    """Whether the processes of all members begin together, and send their heartbeats together."""

    @property
    def topologies(self) -> list[TopologyShape]:
        return list(dict.fromkeys(member.topology for member in self.members))

    @property
    def groups(self) -> list[str]:
        return [topology.group for topology in self.topologies]

    @property
    def safe_ms(self) -> int:
        """A member is not removed earlier after its last heartbeat, and not before it knows what to give up."""
        return min(self.session_ms, self.rebalance_ms)


def draw_streams_groups(draw: random.Random, seed: int) -> StreamsShape | None:
    """Return None for a run without such groups."""
    if draw.random() >= SHARE or seed in failed_before("with streams groups"):
        return None
    members: list[StreamsMemberShape] = []
    for group in ("counters", "joiners")[: draw.choice((1, 1, 2))]:
        topology = _draw_topology(draw, group)
        for number in range(draw.randrange(2, 5)):
            instance = draw.choice((f"{group}-a", f"{group}-b", f"{group}-{number}", f"{group}-{number}"))
            members.append(StreamsMemberShape(topology, number, instance, draw.random() < 0.5))
    return StreamsShape(
        tuple(members),
        session_ms=draw.choice((1200, 2500)),
        rebalance_ms=draw.choice((900, 2000)),
        assignment_interval_ms=draw.choice((0, 0, 150, 1000)),
        initial_delay_ms=draw.choice((0, 200, 1000)),
        standby_replicas=draw.choice((0, 1, 1, 2)),
        is_in_step=draw.random() < 0.4,
    )


def _draw_topology(draw: random.Random, group: str) -> TopologyShape:
    sources = ("data",) if draw.random() < 0.7 else ("data", "orders")
    return TopologyShape(group, sources, is_stateful=draw.random() < 0.7, repartitions=draw.random() < 0.5)
