"""What may be lost: nothing, while one in-sync replica of a partition has lived through it with its disk.

A replica is whole while it is in the ISR (or ELR) of the log and its process has not ended since it came there. When
the last whole one goes, and a disk of the ISR has lost something, there were more failures than in-sync replicas can
stand: what was acknowledged before counts no more. Until then all of it has to be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.model import Model

__all__ = ["DataWatch", "PartitionName", "WatchedPartition"]


class PartitionName(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class WatchedPartition:
    def __init__(self) -> None:
        self.isr: frozenset[int] = frozenset()
        self.members: frozenset[int] = frozenset()
        """In the ISR, or known to have all that is committed (ELR)."""
        self.leader = -1
        self.leader_epoch = -1
        self.whole: set[int] = set()
        self.damaged: set[int] = set()
        """Brokers whose disk has lost something of it, until they have caught up again."""
        self.lossy: set[int] = set()
        """Members with a disk that has lost something."""


class DataWatch:
    """``on_excuse`` hears of each partition of which nothing is owed any more."""

    def __init__(self, checks: Checks, on_excuse: Callable[[PartitionName], None]) -> None:
        self._checks = checks
        self._on_excuse = on_excuse
        self._watched: dict[PartitionName, WatchedPartition] = {}
        self._seen: dict[object, object] = {}

    def watched(self, name: PartitionName) -> WatchedPartition | None:
        return self._watched.get(name)

    def follow(self, model: Model) -> None:
        for topic_id, topic in model.now["topics"].items():
            if self._seen.get(topic_id) is topic:
                continue
            self._seen[topic_id] = topic
            name, partitions = topic
            for index, (_, isr, leader, leader_epoch, _) in partitions.items():
                eligible = frozenset(model.eligible.get((topic_id, index), ()))
                self._changed(PartitionName(name, index), frozenset(isr), eligible, leader, leader_epoch)

    def _changed(
        self, name: PartitionName, isr: frozenset[int], eligible: frozenset[int], leader: int, leader_epoch: int
    ) -> None:
        known = self._watched.setdefault(name, WatchedPartition())
        nodes = self._checks.world.nodes
        members = isr | eligible
        for broker in known.members - members:
            known.whole.discard(broker)
            known.lossy.discard(broker)
        if known.leader_epoch >= 0:
            self._check_new_members(name, isr - known.isr, isr)
        for broker in members - known.members:
            if self._checks.data_rot.remains(nodes[broker], name):
                known.lossy.add(broker)  # It has copied what came later, and does not know what it has lost.
            elif broker in known.damaged and not known.members:
                known.lossy.add(broker)  # It led last, and leads again: there was nobody to copy from.
            elif self._checks.records.is_counted(nodes[broker]):
                known.whole.add(broker)
                known.damaged.discard(broker)
            elif broker in known.damaged:
                known.lossy.add(broker)  # Its joining was decided before it died.
        if leader != -1 and (leader, leader_epoch) != (known.leader, known.leader_epoch) and nodes[leader].is_up:
            known.whole.add(leader)
            known.whole -= known.lossy  # It leads with what it has left.
        known.isr, known.members, known.leader, known.leader_epoch = isr, members, leader, leader_epoch
        self._maybe_excuse(name, known)
        self._checks.records.in_sync(name)

    def _check_new_members(self, name: PartitionName, new: frozenset[int], isr: frozenset[int]) -> None:
        brokers = self._checks.model.now["brokers"]
        fenced = [broker for broker in sorted(new) if broker not in brokers or brokers[broker][2]]
        if fenced:
            self._checks.fail(f"{name.topic}-{name.partition} has the ISR {sorted(isr)}, and {fenced} is fenced")

    def unsettled(self, model: Model) -> str | None:
        """At the end all replicas are in sync."""
        for name, partitions in model.now["topics"].values():
            for index, (replicas, isr, _, _, _) in partitions.items():
                if set(replicas) != set(isr):
                    return f"of the replicas {replicas} of {name}-{index} only {isr} are in sync"
        return None

    def died(self, broker: int, lost: set[PartitionName]) -> None:
        """``lost``: of these its disk has not all that was written."""
        for name, known in self._watched.items():
            known.whole.discard(broker)
            if name in lost:
                known.damaged.add(broker)
                if broker in known.members:
                    known.lossy.add(broker)
            self._maybe_excuse(name, known)

    def emptied(self, broker: int) -> None:
        """Its disks were replaced."""
        self.died(broker, set(self._watched))

    def shaken(self, broker: int) -> None:
        """A disk of this broker fails: what it has stays there, and may be out of reach."""
        for known in self._watched.values():
            known.whole.discard(broker)

    def rotted(self, broker: int, name: PartitionName) -> None:
        known = self._watched[name]
        known.whole.discard(broker)
        known.damaged.add(broker)
        if broker in known.members:
            known.lossy.add(broker)
        self._maybe_excuse(name, known)

    def _maybe_excuse(self, name: PartitionName, known: WatchedPartition) -> None:
        if known.lossy and not known.whole:
            known.lossy.clear()
            self._checks.counts["partitions lost with all their disks"] += 1
            self._checks.world.say(f"{name.topic}-{name.partition}: more failures than replicas")
            self._on_excuse(name)
