"""Bit rot in flushed and unflushed parts of partition logs, while a broker is down and while it runs.

At most one replica of a partition is corrupt at a time, and only while another in-sync replica is whole. Then all
acknowledged records must survive: the corrupt replica is not elected after the corruption was found, stops leading,
and copies the lost records. A corrupt place that was not read since stays undetected, which is not a violation.

A lost or damaged index, snapshot or checkpoint costs no records: the broker creates it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.common.crc32c import crc32c
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.record_batch import CRC_START, LOG_OVERHEAD
from barnabas.server.start_errors import LogDirectoriesLost
from barnabas.storage.partition_metadata import PARTITION_METADATA
from barnabas.storage.segment_damage import CheckedBytes
from tests.simulation.cluster.data_watch import PartitionName

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["DATA_KINDS", "DataRot", "is_sound", "rot_data"]

DATA_KINDS = ("bit", "sector", "segment", "small file")
SECTOR = 512
_HEADER = 61
_UNCOVERED = (*range(8), *range(12, 16))
"""The bytes of a batch that its checksum does not cover: base offset and leader epoch."""
_SMALL = (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata", "-checkpoint")


@dataclass(frozen=True, slots=True)
class _Rot:
    partition: PartitionName
    path: str
    position: int
    before: bytes
    after: bytes | None
    """None if the whole file is lost."""
    life: int
    """The life of the broker's process in which, or after which, it happened."""
    is_running: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """A batch in a file."""

    partition: PartitionName
    path: str
    position: int
    size: int


class DataRot:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._rots: dict[int, list[_Rot]] = {}
        self._restored: list[_Rot] = []
        self.restored: set[PartitionName] = set()
        """Partitions with a replica that was restored from a backup."""

    def add(self, node: SimulatedNode, rot: _Rot) -> None:
        self._rots.setdefault(node.id, []).append(rot)

    def has(self, node: SimulatedNode, name: PartitionName) -> bool:
        """Return whether any file of this replica was ever corrupted."""
        return any(rot.partition == name for rot in self._rots.get(node.id, ()))

    def remains(self, node: SimulatedNode, name: PartitionName) -> bool:
        """Return whether the disk still has corrupt bytes, or lacks a lost file."""
        return any(rot.partition == name and _remains(rot) for rot in self._rots.get(node.id, ()))

    def remains_unnoticed(self, node: SimulatedNode) -> bool:
        """Return whether its disk holds corruption in a log that the process takes for intact."""
        damaged = node.logs.damaged if node.logs is not None else ()
        rots = self._rots.get(node.id, ())
        return any(_remains(rot) and TopicPartition(*rot.partition) not in damaged for rot in rots)

    def forget_verified(self, node: SimulatedNode) -> bool:
        """Let a process verify its logs again. Return False if a read of its leaderships would not find everything."""
        if node.data is None or any(rot.after is None for rot in self._rots.get(node.id, ()) if _remains(rot)):
            return False
        logs = []
        for name in {rot.partition for rot in self._rots.get(node.id, ()) if _remains(rot)}:
            watched, log = self._checks.data.watched(name), node.data.logs.get(TopicPartition(*name))
            if watched is None or watched.leader != node.id or log is None:
                return False
            logs.append(log)
        for log in logs:
            for segment in log.segments:
                segment.checked = CheckedBytes(segment.size)
        return True

    def may_be_served(self, node: SimulatedNode, name: PartitionName, life: int) -> bool:
        """Return whether this process may serve a corrupt batch.

        A process does not verify again a batch that it has written or verified, so later corruption is undetected.
        """
        rots = self._rots.get(node.id, ())
        return any(rot.partition == name and rot.is_running and rot.life == life for rot in rots)

    def explains(self, node: SimulatedNode, fault: BaseException | None) -> bool:
        """Return whether the process stops, naming a file, because that file was deleted while it ran.

        The directory of such a file counts as failed.
        """
        deleted = [rot.path for rot in self._rots.get(node.id, ()) if rot.after is None and rot.is_running]
        return isinstance(fault, LogDirectoriesLost) and any(path in str(fault) for path in deleted)

    def restore(self) -> list[SimulatedNode]:
        """Restore files that only one node had, as an operator does; return the nodes stopped for it.

        Each is restored once: the restored records may be truncated, because the partition has others since its loss.
        """
        stopped = []
        for node_id, rots in sorted(self._rots.items()):
            node = self._checks.world.nodes[node_id]
            lost = [rot for rot in rots if self._checks.records.losses(rot.partition) and _remains(rot)]
            left = [rot for rot in lost if rot not in self._restored]
            if left:
                self._restored += left
                self.restored.update(rot.partition for rot in left)
                node.crash(is_power_loss=False)
                for rot in left:
                    self._checks.world.say(f"{node.name}: {os.path.basename(rot.path)} is restored from a backup")
                    _restore(rot)
                stopped.append(node)
        return stopped


def is_sound(data: bytes) -> bool:
    """Return whether this is one complete batch with a correct checksum."""
    if len(data) < _HEADER or int.from_bytes(data[8:12], "big") + LOG_OVERHEAD != len(data):
        return False
    return crc32c(memoryview(data)[CRC_START:]) == int.from_bytes(data[17:21], "big")


def rot_data(world: World, node_id: int, what: str, spot: float, is_running: bool) -> bool:
    """Corrupt a file in the logs of a broker; return whether its process was stopped for it."""
    node = world.nodes[node_id]
    if not node.is_up or node.logs is None or not world.checks.records.is_counted(node):
        return False
    place = _small_file(world, node, spot) if what == "small file" else _batch(world, node, spot)
    if place is None:
        return False
    is_running = is_running and what != "small file"
    if not is_running:
        for line in node.crash(is_power_loss=False):
            world.say(f"{node.name}: {line}")
        if not os.path.exists(place.path):
            return True
    if what == "small file":
        _spoil(place.path, spot)
    else:
        world.checks.data_rot.add(node, _spoil_batch(node, place, what, spot, is_running))
        world.checks.data.rotted(node.id, place.partition)
    world.checks.counts[f"rot of data: {what}{', running' if is_running else ''}"] += 1
    world.say(f"{node.name}: {place.path} rots ({what}) at {place.position}")
    return not is_running


def _batch(world: World, node: SimulatedNode, spot: float) -> _Place | None:
    places = [place for place in _batches(node) if _may_rot(world, node, place.partition)]
    return places[int(spot * len(places))] if places else None


def _may_rot(world: World, node: SimulatedNode, name: PartitionName) -> bool:
    checks = world.checks
    watched = checks.data.watched(name)
    if watched is None or checks.records.losses(name):
        return False
    if any(checks.data_rot.remains(world.nodes[broker], name) for broker in world.shape.broker_ids):
        return False
    return any(other.id in watched.whole for other in _others(world, node, name))


def _others(world: World, node: SimulatedNode, name: PartitionName) -> list[SimulatedNode]:
    """Return the other in-sync brokers whose current process is registered."""
    watched = world.checks.data.watched(name)
    others = () if watched is None else (world.nodes[broker] for broker in sorted(watched.isr - {node.id}))
    return [other for other in others if world.checks.records.is_counted(other)]


def _batches(node: SimulatedNode) -> Iterator[_Place]:
    for partition, folder in _partitions(node):
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".log"):
                continue
            path = f"{folder}/{name}"
            with open(path, "rb") as file:
                data = file.read()
            position = 0
            while position + _HEADER <= len(data):
                size = int.from_bytes(data[position + 8 : position + 12], "big") + LOG_OVERHEAD
                if not is_sound(data[position : position + size]):
                    break
                yield _Place(partition, path, position, size)
                position += size


def _partitions(node: SimulatedNode) -> Iterator[tuple[PartitionName, str]]:
    for directory in node.data_directory_ids:
        for name in sorted(os.listdir(directory)):
            topic, _, index = name.rpartition("-")
            if index.isdigit():
                yield PartitionName(topic, int(index)), f"{directory}/{name}"


def _small_file(world: World, node: SimulatedNode, spot: float) -> _Place | None:
    """Choose a small file. The file with the topic id is chosen only if another replica is in sync.

    A replica that lost its topic's id waits for an operator.
    """
    alone = [f"{folder}/{PARTITION_METADATA}" for name, folder in _partitions(node) if not _others(world, node, name)]
    folders = [*node.data_directory_ids, *(folder for _, folder in _partitions(node))]
    paths = [f"{folder}/{name}" for folder in folders for name in sorted(os.listdir(folder)) if name.endswith(_SMALL)]
    paths = [path for path in paths if path not in alone]
    if not paths:
        return None
    return _Place(PartitionName("", -1), paths[int(spot * len(paths))], 0, 0)


def _spoil(path: str, spot: float) -> None:
    """Corrupt a small file. Digits of ``spot`` that did not choose the file choose the kind of corruption."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    kind = int(spot * 10_000) % 4
    if kind == 0 or not data:
        os.unlink(path)
        return
    at = int(spot * 1_000_000) % len(data)
    if kind == 1:
        data[at] ^= 1 << (at % 8)
    elif kind == 2:
        data = bytearray(len(data))
    else:
        del data[at:]
    with open(path, "wb") as file:
        file.write(data)


def _spoil_batch(node: SimulatedNode, place: _Place, what: str, spot: float, is_running: bool) -> _Rot:
    with open(place.path, "rb") as file:
        data = file.read()
    if what == "segment":
        os.unlink(place.path)
        node.data_disk.forget(place.path)
        return _Rot(place.partition, place.path, 0, data, None, node.lives, is_running)
    if what == "bit":
        covered = [at for at in range(place.size) if at not in _UNCOVERED]
        at, size = place.position + covered[int(spot * 1_000_000) % len(covered)], 1
        after = bytes([data[at] ^ 1 << int(spot * 1000) % 8])
    else:
        at, size = place.position, min(SECTOR, len(data) - place.position)
        after = bytes(size)
    _patch(place.path, at, after)
    node.data_disk.patch(place.path, at, after)
    return _Rot(place.partition, place.path, at, data[at : at + size], after, node.lives, is_running)


def _patch(path: str, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def _remains(rot: _Rot) -> bool:
    """Return whether the file is still corrupt, or deleted. Nothing remains of a disk that was replaced."""
    try:
        with open(rot.path, "rb") as file:
            found = file.read()
    except FileNotFoundError:
        return rot.after is None and os.path.isdir(os.path.dirname(rot.path))
    if rot.after is None:
        return not found
    return found[rot.position : rot.position + len(rot.after)] == rot.after


def _restore(rot: _Rot) -> None:
    if rot.after is not None:
        _patch(rot.path, rot.position, rot.before)
        return
    base = int(os.path.basename(rot.path)[:20])
    names = [name for name in os.listdir(os.path.dirname(rot.path)) if name.endswith(".log") and name[:-4].isdigit()]
    following = min((int(name[:-4]) for name in names if int(name[:-4]) > base), default=1 << 62)
    data, position = rot.before, 0
    while position + _HEADER <= len(data):
        last = int.from_bytes(data[position : position + 8], "big") + int.from_bytes(
            data[position + 23 : position + 27], "big"
        )
        if last >= following:
            break
        position += int.from_bytes(data[position + 8 : position + 12], "big") + LOG_OVERHEAD
    with suppress(FileNotFoundError), open(rot.path, "wb") as file:
        file.write(data[:position])
