"""Creates snapshots of the metadata, and deletes old ones and the log before them.

A snapshot is written on a thread of its own: images never change, so the loop continues meanwhile. A snapshot must not
be newer than the high watermark and must not split a batch. Both hold for every image that the loader publishes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.publisher import LoaderManifest
from barnabas.metadata.snapshot import pieces_of, records_of
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import VoterSet
from barnabas.server.quorum.raft_driver import RaftDriver
from barnabas.storage.errors import StorageError
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotReader, SnapshotWriter, delete_snapshot

__all__ = ["MetadataSnapshots", "SnapshotGenerator", "StoredSnapshot", "first_snapshot_to_keep"]

log = logging.getLogger(__name__)

CLEANING_INTERVAL_S = 60
DELETE_DELAY_S = 60
"""How long a deleted snapshot stays readable for a replica that fetches it."""


class StoredSnapshot(NamedTuple):
    snapshot_id: OffsetAndEpoch
    size: int
    last_contained_log_timestamp: int


def first_snapshot_to_keep(
    snapshots: Sequence[StoredSnapshot], *, log_size: int, now_ms: int, retention_bytes: int, retention_ms: int
) -> OffsetAndEpoch | None:
    """Return the snapshot that the log may start at; None if nothing may be deleted. The newest one is always kept."""
    keep: OffsetAndEpoch | None = None
    total = log_size + sum(snapshot.size for snapshot in snapshots)
    for snapshot, following in pairwise(snapshots):
        is_too_old = now_ms - snapshot.last_contained_log_timestamp > retention_ms
        if total <= retention_bytes and not is_too_old:
            break
        total -= snapshot.size
        keep = following.snapshot_id
    return keep


class MetadataSnapshots:
    def __init__(self, driver: RaftDriver) -> None:
        self._driver = driver
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start applying retention periodically."""
        self._timer = asyncio.get_running_loop().call_later(CLEANING_INTERVAL_S, self._clean_again)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    async def save(self, image: MetadataImage) -> OffsetAndEpoch | None:
        """Write the image as a snapshot. Return None if a snapshot of that offset exists."""
        driver = self._driver
        provenance = image.provenance
        snapshot_id = OffsetAndEpoch(provenance.last_contained_offset + 1, provenance.last_contained_epoch)
        latest = driver.log.latest_snapshot_id
        if latest is not None and snapshot_id.offset <= latest.offset:
            return None
        voters = driver.control_records.voter_set_at(provenance.last_contained_offset)
        kraft_version = driver.control_records.kraft_version_at(provenance.last_contained_offset)
        now_ms = driver.clock.now_ms()

        def write() -> int:
            return self._write(image, snapshot_id, kraft_version, voters, now_ms)

        size = await asyncio.get_running_loop().run_in_executor(None, write)
        if self._is_closed:
            return snapshot_id
        driver.node.snapshot_created(snapshot_id, size)
        driver.log.snapshots[snapshot_id] = size
        driver.log.flush_indexes()
        return snapshot_id

    def clean(self) -> OffsetAndEpoch | None:
        """Apply retention. Return the snapshot at which the log starts now, if that has changed.

        A disk error leaves the files in a state that this process does not know: the node stops, and its next start
        reads them again.
        """
        try:
            return self._clean()
        except (OSError, StorageError) as error:
            self._driver.fail(error)
            return None

    def _clean(self) -> OffsetAndEpoch | None:
        driver = self._driver
        metadata_log, config = driver.log, driver.log_config
        if len(metadata_log.snapshots) < 2:
            return None
        stored = [
            StoredSnapshot(id_, size, SnapshotReader(metadata_log.directory, id_).last_contained_log_timestamp)
            for id_, size in metadata_log.snapshots.items()
        ]
        keep = first_snapshot_to_keep(
            stored,
            log_size=metadata_log.size_bytes,
            now_ms=driver.clock.now_ms(),
            retention_bytes=config.retention_bytes,
            retention_ms=config.retention_ms,
        )
        if keep is not None:
            self._delete_before(keep)
        return keep

    def _clean_again(self) -> None:
        self.clean()
        if not self._is_closed:
            self.start()

    def _delete_before(self, keep: OffsetAndEpoch) -> None:
        metadata_log = self._driver.log
        old = [snapshot_id for snapshot_id in metadata_log.snapshots if snapshot_id < keep]
        metadata_log.delete_before(keep.offset)
        self._driver.node.log_start_moved(keep)
        for snapshot_id in old:
            del metadata_log.snapshots[snapshot_id]
            path = delete_snapshot(metadata_log.directory, snapshot_id)
            asyncio.get_running_loop().call_later(DELETE_DELAY_S, _unlink, path)

    def _write(
        self,
        image: MetadataImage,
        snapshot_id: OffsetAndEpoch,
        kraft_version: int,
        voters: VoterSet | None,
        now_ms: int,
    ) -> int:
        writer = SnapshotWriter(
            RawSnapshotWriter(self._driver.log.directory, snapshot_id, token=secrets.token_hex(8)),
            last_contained_log_timestamp=image.provenance.last_contained_log_time_ms,
            now_ms=now_ms,
            serde=self._driver.serde,
            kraft_version=kraft_version,
            voters=voters,
        )
        try:
            for records in pieces_of(records_of(image)):
                writer.append(records)
            writer.freeze()
        except BaseException:
            writer.abandon()
            raise
        return writer.size


class SnapshotGenerator:
    """A publisher that requests a snapshot when enough was committed or enough time has passed since the last one."""

    def __init__(
        self, snapshots: MetadataSnapshots, driver: RaftDriver, *, max_bytes: int, max_interval_ms: int
    ) -> None:
        """``max_interval_ms`` 0 disables snapshots by time."""
        self._snapshots = snapshots
        self._driver = driver
        self._max_bytes = max_bytes
        self._max_interval_ms = max_interval_ms
        self._is_closed = False
        self._bytes = 0
        self._since_ms = driver.clock.now_ms()
        self._running: asyncio.Task[OffsetAndEpoch | None] | None = None
        self._waiting: MetadataImage | None = None
        """The newest image published while a snapshot was being written."""

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if manifest.is_snapshot:
            self._waiting = None
            self._reset()
            return
        self._bytes += manifest.byte_count
        if new_image.features.metadata_version is None:
            return  # A new log begins with control records alone; the metadata.version of other records is unknown yet.
        if self._running is not None:
            self._waiting = new_image
        elif self._is_due():
            self._save(new_image)

    def _save(self, image: MetadataImage) -> None:
        self._reset()
        self._running = asyncio.get_running_loop().create_task(self._snapshots.save(image))
        self._running.add_done_callback(self._saved)

    async def close(self) -> None:
        """Wait for a snapshot that is being written; otherwise half a file would be left."""
        self._is_closed = True
        if self._running is not None:
            with suppress(Exception):
                await self._running

    def _is_due(self) -> bool:
        if self._bytes >= self._max_bytes:
            return True
        return 0 < self._max_interval_ms <= self._driver.clock.now_ms() - self._since_ms

    def _reset(self) -> None:
        self._bytes = 0
        self._since_ms = self._driver.clock.now_ms()

    def _saved(self, task: asyncio.Task[OffsetAndEpoch | None]) -> None:
        self._running = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # The log still has all records: the node can continue, but its next start takes longer.
            is_disk = isinstance(error, OSError | StorageError)
            log.error(
                "cannot write a metadata snapshot; the next one is written as scheduled: %s",
                error,
                exc_info=None if is_disk else error,
            )
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not self._is_closed and self._is_due():
            self._save(waiting)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
