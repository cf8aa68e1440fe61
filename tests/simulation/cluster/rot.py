"""Bit rot in durable files: flushed parts of metadata logs, snapshots and quorum-state.

At most one controller has a corrupt disk at a time, and only while the others suffice to elect a leader: all committed
records survive on them. A single voter must refuse its corrupt log; its operator then restores a backup.

The checks read the bytes on the disks and do not rely on the product's own reports. A voter votes only when its disk
has every committed batch that it had durably before the corruption. A voter that lost its quorum-state neither votes
twice in an epoch nor acknowledges in an epoch before the last one in which it voted.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

from barnabas.storage.lost_promises_file import LostPromisesFile
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.quorum_state_file import QUORUM_STATE
from barnabas.storage.recovery_point import RecoveryPoint
from tests.simulation.cluster.quorum_changes import may_lose

if TYPE_CHECKING:
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.disk import Disk, Kept
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["KINDS", "RotWatch", "rot"]

KINDS = ("bit", "sector", "segment", "snapshot", "quorum-state")
SECTOR = 512
_EPOCH = range(12, 16)
"""The bytes of a batch that the checksum does not cover."""


class RotWatch:
    """Checks that the voter of a corrupt disk keeps the promises that it gave before the corruption."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._owed: dict[str, list[Kept]] = {}
        """The durable content of each disk before it was corrupted.

        A batch of another leader at the same offset is not expected.
        """
        self._forgot: set[str] = set()
        self._backups: dict[str, dict[str, bytes]] = {}

    def first_sound_offset(self, node: SimulatedNode) -> int:
        """Return where valid batches begin: a start does not verify those before the newest snapshot."""
        log = node.driver.log
        latest = log.latest_snapshot_id
        return log.start_offset if latest is None or node.directory not in self._backups else latest.offset

    def has_forgotten(self, node: SimulatedNode) -> bool:
        return node.directory in self._forgot

    def may_recover(self, node: SimulatedNode) -> bool:
        """Return whether this voter waits for a leader to copy its lost records from, or will do so once started."""
        if node.is_up:
            return node.driver.node.is_recovering
        return node.directory in self._forgot or node.directory in self._owed

    def rotted(self, node: SimulatedNode, what: str, held: Kept, backup: dict[str, bytes]) -> None:
        self._checks.counts[f"rot: {what}"] += 1
        self._backups[node.directory] = backup
        if what == QUORUM_STATE:
            self._forgot.add(node.directory)
        elif node.is_controller:
            self._owed.setdefault(node.directory, []).append(held)
            node.lost_disks.append(held)

    def refused(self, node: SimulatedNode, error: BaseException) -> None:
        """Restore a backup, as an operator does if a single voter refuses its damaged log."""
        backup = self._backups.get(node.directory)
        if backup is None:
            self._checks.fail(f"{node.name} refuses a log that is not corrupt: {error}")
            return
        exists = all(os.path.exists(path) for path in backup)
        if exists and not any(os.path.basename(path) in str(error) for path in backup):
            self._checks.fail(f"{node.name} refuses its log without naming the corrupt file: {error}")
        for path, data in backup.items():
            with open(path, "wb") as file:
                file.write(data)
            node.disk.durable[path] = data
        node.disk.corrupt_snapshots.clear()
        self._owed.pop(node.directory, None)
        self._checks.counts["logs refused"] += 1

    def votes(self, node: SimulatedNode) -> None:
        """Check a vote or a pre-vote, which may decide whether another voter becomes a candidate."""
        missing = self._missing(node)
        if missing is not None:
            self._checks.fail(f"{node.name} votes, but has lost {missing}, which it had acknowledged")
        self._owed.pop(node.directory, None)

    def acknowledges(self, node: SimulatedNode, epoch: int) -> None:
        """Check a Fetch with the id of its sender, which acknowledges records.

        In epoch 0, which has no leader, it only requests the id of the leader.
        """
        claimed = self._checks.claimed.get(node.directory, 0)
        if self.has_forgotten(node) and 0 < epoch < claimed:
            self._checks.fail(f"{node.name} acknowledges in epoch {epoch}, but voted in epoch {claimed}")

    def recovered(self, node: SimulatedNode) -> None:
        """Check that a single voter, which cannot copy lost records, does not start without them.

        It may believe to be a single one because it lost the record that made the quorum larger; then it has noted that
        it waits for others.
        """
        if not node.driver.node.is_only_voter or LostPromisesFile(node.driver.log.directory).read() is not None:
            return
        missing = self._missing(node)
        if missing is not None:
            self._checks.fail(f"{node.name} is the only voter and starts without {missing}")

    def unsettled(self) -> str | None:
        for node in self._checks.world.controllers:
            if node.is_up and node.driver.node.is_recovering:
                return f"{node.name} has not recovered its lost records"
        return None

    def _missing(self, node: SimulatedNode) -> int | None:
        """Return the first committed batch that this disk had before the corruption and lacks now."""
        owed = self._owed.get(node.directory)
        if owed is None:
            return None
        kept = node.disk.kept(node.directory)
        for base_offset, data in self._checks.batches.items():
            last_offset = base_offset + int.from_bytes(data[23:27], "big")
            if any(held.has(data, last_offset) for held in owed) and not kept.has(data, last_offset):
                return base_offset
        return None


def rot(world: World, node_id: int, what: str, spot: float) -> bool:
    """Stop a node and corrupt a file on its disk; return whether the node was stopped."""
    node = world.nodes[node_id]
    if not node.is_up or not _may_rot(world, node, what):
        return False
    for line in node.crash(is_power_loss=False):
        world.say(f"{node.name}: {line}")
    durable_end, held = node.disk.durable_end, node.disk.kept(node.directory)
    backup = rot_disk(node.disk, what, spot)
    if backup:
        names = ", ".join(os.path.basename(path) for path in backup)
        world.say(f"{node.name}: {names} rots ({what}); durable was up to {durable_end}")
        world.checks.rot.rotted(node, what, held, backup)
        node.disk.durable_end = 0
    return True


def _may_rot(world: World, node: SimulatedNode, what: str) -> bool:
    if not node.is_controller:
        return what != QUORUM_STATE
    if node.driver.node.is_only_voter:
        return what not in (QUORUM_STATE, "snapshot") and _knows_that_it_is_only_voter(node)
    return may_lose(world, node)


def _knows_that_it_is_only_voter(node: SimulatedNode) -> bool:
    """Return whether the node knows this without its log; otherwise it would wait for removed voters."""
    latest = node.driver.log.latest_snapshot_id
    return len(node.voters.at(-1 if latest is None else latest.offset - 1)) == 1


def rot_disk(disk: Disk, what: str, spot: float) -> dict[str, bytes]:
    """Corrupt one file; return its path and earlier bytes, or an empty dict if the file does not exist."""
    if what == QUORUM_STATE:
        return _rot_quorum_state(f"{disk.folder}/{METADATA_LOG_DIRECTORY}/{QUORUM_STATE}", spot)
    if what == "snapshot":
        return _rot_snapshot(disk, spot)
    places = _flushed_batches(disk)
    if not places:
        return {}
    path, position, size = places[int(spot * len(places))]
    with open(path, "rb") as file:
        before = file.read()
    if what == "segment":
        os.unlink(path)
        disk.durable.pop(path, None)
        return {path: before}
    data = bytearray(before)
    if what == "bit":
        at = random.Random(f"bit {spot}").choice([at for at in range(size) if at not in _EPOCH])
        data[position + at] ^= 1 << int(spot * 8)
    else:
        data[position : position + SECTOR] = bytes(len(data[position : position + SECTOR]))
    _write(disk, path, bytes(data))
    return {path: before}


def _flushed_batches(disk: Disk) -> list[tuple[str, int, int]]:
    """Return (path, position, size) of each batch below the recovery point on the disk."""
    end = RecoveryPoint(disk.log_folder, boot="").offset or 0
    found = []
    for name in sorted(name for name in os.listdir(disk.log_folder) if name.endswith(".log")):
        path = f"{disk.log_folder}/{name}"
        with open(path, "rb") as file:
            data = file.read()
        position = 0
        while position + 61 <= len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            last = int.from_bytes(data[position : position + 8], "big") + int.from_bytes(
                data[position + 23 : position + 27], "big"
            )
            if last >= end or size < 61 or position + size > len(data):
                break
            found.append((path, position, size))
            position += size
    return found


def _rot_snapshot(disk: Disk, spot: float) -> dict[str, bytes]:
    names = sorted(name for name in os.listdir(disk.log_folder) if name.endswith(".checkpoint"))
    if not names or int(names[-1][:20]) == 0:
        return {}
    path = f"{disk.log_folder}/{names[-1]}"
    with open(path, "rb") as file:
        before = file.read()
    data = bytearray(before)
    at = int(spot * len(data))
    data[at : at + 16] = bytes(byte ^ 0x55 for byte in data[at : at + 16])
    os.chmod(path, 0o600)
    with open(path, "wb") as file:
        file.write(data)
    disk.corrupt_snapshots[names[-1]] = bytes(data)
    return {path: before}


def _rot_quorum_state(path: str, spot: float) -> dict[str, bytes]:
    if not os.path.exists(path):
        return {}
    with open(path, "rb") as file:
        before = file.read()
    if spot < 0.4:
        os.unlink(path)
    else:
        with open(path, "wb") as file:
            file.write(b"" if spot < 0.7 else b"\x00" * len(before))
    return {path: before}


def _write(disk: Disk, path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
    disk.durable[path] = data
