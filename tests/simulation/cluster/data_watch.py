"""Decides which records may be lost: none while one in-sync replica of a partition has survived with its disk.

A replica is whole while it is in the ISR (or ELR) of the log and its process has not ended since it joined. If the
last whole replica ends and a disk of the ISR has lost data, the partition has had more failures than its in-sync
replicas tolerate: earlier acknowledgements are void. Until then all acknowledged records must exist.
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
        """The replicas in the ISR, or known to have all committed records (ELR)."""
        self.leader = -1
        self.leader_epoch = -1
        self.whole: set[int] = set()
        self.damaged: set[int] = set()
        """Brokers whose disk has lost records of the partition, until they have caught up again."""
        self.has_lost = False
        """More failures than replicas, and no leader was elected since."""
        self.lossy: set[int] = set()
        """Members whose disk has lost records of the partition."""


class DataWatch:
    """Follows the replicas of all partitions; calls ``on_excuse`` for each whose records may be lost."""

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
                known.lossy.add(broker)  # It has copied later records, but does not know which ones it has lost.
            elif broker in known.damaged and known.members.isdisjoint(members):
                known.lossy.add(broker)  # It led last, and leads again: it had no other replica to copy from.
            elif self._checks.records.is_counted(nodes[broker]):
                known.whole.add(broker)
                known.damaged.discard(broker)
            elif broker in known.damaged:
                known.lossy.add(broker)  # Its joining was decided before it died.
        is_elected = leader != -1 and (leader, leader_epoch) != (known.leader, known.leader_epoch)
        if is_elected and known.has_lost:
            known.has_lost = False
            self._on_excuse(name)  # A former leader that does not know its successor may have served lost records.
        if is_elected and nodes[leader].is_up:
            known.whole.add(leader)
            known.whole -= known.lossy  # It leads with its remaining records.
        known.isr, known.members, known.leader, known.leader_epoch = isr, members, leader, leader_epoch
        self._maybe_excuse(name, known)
        self._checks.records.in_sync(name)

    def _check_new_members(self, name: PartitionName, new: frozenset[int], isr: frozenset[int]) -> None:
        brokers = self._checks.model.now["brokers"]
        fenced = [broker for broker in sorted(new) if broker not in brokers or brokers[broker][2]]
        if fenced:
            self._checks.fail(f"{name.topic}-{name.partition} has the ISR {sorted(isr)} with fenced brokers: {fenced}")

    def unsettled(self, model: Model) -> str | None:
        """Return a partition whose replicas are not all in sync with an intact leader, as they must be at the end.

        No replica can copy what all of them have lost: a leader with a damaged range stays alone.
        """
        for name, partitions in model.now["topics"].values():
            for index, (replicas, isr, leader, _, _) in partitions.items():
                partition = PartitionName(name, index)
                if set(replicas) != set(isr) and not self._checks.records.has_gap(partition):
                    return f"of the replicas {replicas} of {name}-{index} only {isr} are in sync"
                if len(isr) > 1 and self._checks.records.is_damaged(leader, partition):
                    return f"broker {leader} leads {name}-{index} with a damaged log, and {isr} are in sync"
        return None

    def died(self, broker: int, lost: set[PartitionName]) -> None:
        """Record the end of a broker's process; ``lost`` are the partitions of which its disk has lost records."""
        for name, known in self._watched.items():
            known.whole.discard(broker)
            if name in lost:
                known.damaged.add(broker)
                if broker in known.members:
                    known.lossy.add(broker)
            self._maybe_excuse(name, known)

    def emptied(self, broker: int) -> None:
        """Record that the broker's disks were replaced with empty ones."""
        self.died(broker, set(self._watched))

    def shaken(self, broker: int) -> None:
        """Record a disk error of this broker: its data remains, but may be inaccessible."""
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
            known.has_lost = True
            self._checks.counts["partitions lost with all their disks"] += 1
            self._checks.world.say(f"{name.topic}-{name.partition}: more failures than replicas")
            self._on_excuse(name)
