"""One of the directories in ``log.dirs``: its lock, its clean shutdown marker, its checkpoints, its partitions.

A partition's directory is ``topic-partition``. A directory being deleted is ``topic-partition.<unique id>-delete``: it
is renamed immediately, and its files are removed later, after a restart if necessary. A directory that is being moved
here from another log directory is ``topic-partition.<unique id>-future`` until it is complete.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.checkpoint_file import sync_directory, write_atomically
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_io import naming
from barnabas.storage.file_permissions import DIRECTORY_MODE, FILE_MODE
from barnabas.storage.offset_checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
    write_offsets,
)
from barnabas.storage.recovery_point import UNKNOWN_BOOT

__all__ = [
    "DELETE_SUFFIX",
    "NAME_LENGTH_MAX",
    "LogDirectory",
    "LogDirectoryInUse",
    "delete_directory_name",
    "future_directory_name",
    "parse_directory_name",
    "parse_future_name",
]

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BOOT_ID_FILE = "barnabas-boot-id"
_BOOT_ID = re.compile(r"[0-9a-z-]{1,64}")
"""The format of Linux, also used by tests."""
DELETE_SUFFIX = "-delete"
NAME_LENGTH_MAX = 255
# The metadata log has the layout of a partition, but belongs to the quorum, not to the log manager.
METADATA_TOPIC = "__cluster_metadata"

_BOOT_ID_BYTES_MAX = 100
_log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
_FUTURE_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\.[0-9a-f]{32}-future")
_DELETED_NAME = re.compile(r".+\.[0-9a-f]+-delete")
# File locks do not exclude the same process.
_locked_here: set[str] = set()


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition of a directory name, None if the name is not a partition's."""
    match = _NAME.fullmatch(name)
    if match is None or name.endswith((DELETE_SUFFIX, "-future", "-stray")):
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def delete_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return the name for the directory of a deleted partition; a long topic name is shortened to fit."""
    suffix = f"-{topic_partition.partition}.{unique_id}{DELETE_SUFFIX}"
    return f"{topic_partition.topic[: NAME_LENGTH_MAX - len(suffix)]}{suffix}"


def future_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return the name of the directory while the partition moves; a partition with too long a name cannot be moved."""
    return f"{topic_partition.topic}-{topic_partition.partition}.{unique_id}-future"


def parse_future_name(name: str) -> TopicPartition | None:
    """Return the partition that is being moved to a directory of this name, None for other names."""
    match = _FUTURE_NAME.fullmatch(name)
    return None if match is None else TopicPartition(match["topic"], int(match["partition"]))


class LogDirectoryInUse(StorageError):
    """Another process, or another node, uses the directory."""


class LogDirectory:
    """``id`` is that of its meta.properties. After a failure it is offline (not ``is_online``) until the next start."""

    def __init__(self, path: str, directory_id: Uuid = Uuid.ZERO) -> None:
        self.path = os.path.abspath(path)
        self.id = directory_id
        self.failure: str | None = None
        self.is_cordoned = False
        self._lock_fd = -1
        self._written_high_watermarks: Mapping[TopicPartition, int] | None = None
        self._written_cleaner_offsets: Mapping[TopicPartition, int] | None = None

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r})"

    @property
    def is_online(self) -> bool:
        return self.failure is None

    # Lock

    def lock(self) -> None:
        """Create the directory if needed and lock it.

        Raises LogDirectoryInUse if another process (or node) uses it, StorageError if it cannot be used.
        """
        try:
            os.makedirs(self.path, DIRECTORY_MODE, exist_ok=True)
            if self.path in _locked_here:
                raise BlockingIOError(errno.EAGAIN, "it is in use in this process")
            fd = os.open(f"{self.path}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(fd)
                raise
        except BlockingIOError as error:
            raise LogDirectoryInUse(
                f"Failed to acquire lock on file {LOCK_FILE} in {self.path}: {error}. "
                f"A Kafka or barnabas instance in another process may be using this directory."
            ) from error
        except OSError as error:
            raise StorageError(f"Failed to acquire lock on file {LOCK_FILE} in {self.path}: {error}") from error
        self._lock_fd = fd
        _locked_here.add(self.path)

    def unlock(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1
            _locked_here.discard(self.path)

    # Clean shutdown

    def take_clean_shutdown(self) -> int | None:
        """Read and remove the clean shutdown marker: the broker epoch in it (-1 if none), or None without a marker.

        It is removed before anything is loaded, so that a crash from now on is detected. Before Kafka 3.7 it was an
        empty file; one that is neither empty nor JSON is damaged, and proves nothing. Neither does one without
        permission to read it.
        """
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        try:
            with naming(path), open(path, "rb") as file:
                content: bytes | None = file.read()
        except FileNotFoundError:
            return None
        except PermissionError as error:
            _log.error("%s is not readable (%s): the logs in %s are checked as after a crash", path, error, self.path)
            content = None
        os.unlink(path)
        if content is None:
            return None
        if not content:
            return -1
        try:
            return int(json.loads(content)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            _log.error("%s is damaged: the logs in %s are checked as after a crash", path, self.path)
            return None

    def is_same_boot(self, current: str) -> bool:
        """Whether the directory was last opened since the machine's last boot."""
        try:
            with naming(f"{self.path}/{BOOT_ID_FILE}"), open(f"{self.path}/{BOOT_ID_FILE}", "rb") as file:
                known = file.read(_BOOT_ID_BYTES_MAX).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return False
        if known != UNKNOWN_BOOT and _BOOT_ID.fullmatch(known) is None:
            _log.error("%s/%s is damaged: the machine counts as restarted since", self.path, BOOT_ID_FILE)
        return known == current != UNKNOWN_BOOT

    def note_boot(self, current: str) -> None:
        """Record that all logs were opened since the machine's boot: their state and the checkpoints must stay
        valid."""
        write_atomically(f"{self.path}/{BOOT_ID_FILE}", f"{current}\n".encode())

    def mark_clean_shutdown(self, broker_epoch: int) -> None:
        text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_atomically(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", text.encode())

    # Partitions

    def partitions(self) -> dict[str, TopicPartition]:
        """Return path -> partition of each partition's directory, sorted by name."""
        found: dict[str, TopicPartition] = {}
        with os.scandir(self.path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                topic_partition = parse_directory_name(entry.name)
                if topic_partition is not None and topic_partition.topic != METADATA_TOPIC and entry.is_dir():
                    found[entry.path] = topic_partition
        return found

    def deleted_partitions(self) -> list[str]:
        """Return the paths of directories whose deletion has begun."""
        with os.scandir(self.path) as entries:
            return sorted(entry.path for entry in entries if _DELETED_NAME.fullmatch(entry.name) and entry.is_dir())

    def future_partitions(self) -> dict[str, TopicPartition]:
        """Return path -> partition of each that is being moved here, sorted by name."""
        with os.scandir(self.path) as entries:
            found = {entry.path: parse_future_name(entry.name) for entry in entries if entry.is_dir()}
        return {path: partition for path, partition in sorted(found.items()) if partition is not None}

    def sync(self) -> None:
        """Make the directory entries durable."""
        sync_directory(self.path)

    def partition_path(self, topic_partition: TopicPartition) -> str:
        return f"{self.path}/{topic_partition.topic}-{topic_partition.partition}"

    # Checkpoints

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        return self._read(RECOVERY_POINT_OFFSET_CHECKPOINT)

    def read_log_start_offsets(self) -> dict[TopicPartition, int]:
        return self._read(LOG_START_OFFSET_CHECKPOINT)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self._read(REPLICATION_OFFSET_CHECKPOINT)

    def read_cleaner_offsets(self) -> dict[TopicPartition, int]:
        known = self._read(CLEANER_OFFSET_CHECKPOINT)
        if os.path.exists(f"{self.path}/{CLEANER_OFFSET_CHECKPOINT}"):
            self._written_cleaner_offsets = dict(known)
        return known

    def write_recovery_points(self, offsets: Mapping[TopicPartition, int]) -> None:
        write_offsets(f"{self.path}/{RECOVERY_POINT_OFFSET_CHECKPOINT}", offsets)

    def write_log_start_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        write_offsets(f"{self.path}/{LOG_START_OFFSET_CHECKPOINT}", offsets)

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write changed offsets; called every few seconds, so unchanged ones are not written."""
        if offsets == self._written_high_watermarks:
            return
        write_offsets(f"{self.path}/{REPLICATION_OFFSET_CHECKPOINT}", offsets)
        self._written_high_watermarks = offsets

    def write_cleaner_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write them, unless the file holds them already."""
        if offsets != self._written_cleaner_offsets:
            write_offsets(f"{self.path}/{CLEANER_OFFSET_CHECKPOINT}", offsets)
            self._written_cleaner_offsets = dict(offsets)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint. A damaged one counts as missing, as in Kafka, and is kept: recovery then reads more."""
        path = f"{self.path}/{name}"
        try:
            return read_offsets(path)
        except CorruptFileError as error:
            _log.error("a checkpoint is damaged and is ignored; it is kept as %s.damaged: %s", path, error)
            with suppress(OSError):
                os.rename(path, f"{path}.damaged")
            return {}

    # Space

    def space(self) -> tuple[int, int]:
        """Return the total and usable bytes of the volume."""
        volume = os.statvfs(self.path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
