"""Detects, handles and reports failures of a running broker's log directories."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.directory_assignment_sender import DirectoryAssignmentSender
from barnabas.broker.replica_directories import ReplicaDirectories
from barnabas.broker.replication.directory_reports import DirectoryReports
from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource
from barnabas.server.start_errors import LogDirectoriesLost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.lifecycle import BrokerLifecycle
    from barnabas.broker.ports import ControllerChannel
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.dynamic_broker_config import SettingsChange

__all__ = ["LogDirService", "new_replica_directories"]

_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def new_replica_directories(core: NodeCore, replicas: ReplicaManager) -> ReplicaDirectories:
    """Create the manager of this broker's replica directories; the node's settings limit moves."""

    def bytes_per_second() -> float:
        configs = core.metadata.image.configs
        for resource in (ConfigResource.broker(core.config.node_id), DEFAULT_BROKER):
            text = configs.of(resource).get(_RATE)
            if text is not None:
                return max(int(text), 1)
        return float("inf")

    def is_assignment_supported() -> bool:
        return core.metadata.image.features.metadata_version_or_throw().is_directory_assignment_supported

    return ReplicaDirectories(
        replicas,
        core.clock,
        bytes_per_second=bytes_per_second,
        window_count=core.config.alter_log_dirs_replication_quota_window_num,
        window_ms=core.config.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        is_assignment_supported=is_assignment_supported,
    )


class LogDirService:
    """A ``MetadataPublisher``, and an ``Effect`` of the dynamic settings."""

    def __init__(
        self, core: NodeCore, replicas: ReplicaManager, channel: ControllerChannel, lifecycle: BrokerLifecycle
    ) -> None:
        config = core.config
        self._core = core
        self._replicas = replicas
        self._logs = replicas.logs
        self._lifecycle = lifecycle
        self._reports: DirectoryReports = lifecycle.directory_reports
        self._loop = asyncio.get_running_loop()
        self.directories = replicas.directories
        self._sender = DirectoryAssignmentSender(
            self.directories,
            broker_id=config.node_id,
            broker_epoch=lambda: lifecycle.broker_epoch,
            controller=channel,
        )
        self._cordon(config.cordoned_log_dirs)
        self._logs.directories.failures.on_failure = partial(self._loop.call_soon_threadsafe, self._handle_failures)
        self._logs.on_damaged = self._damage_found
        self._handle_failures()

    def start(self) -> None:
        """Start when the first image is loaded and stray logs have been removed."""
        self.directories.resume()

    def _damage_found(self, topic_partition: TopicPartition) -> None:
        """Schedule a check of the damaged log. May be called on any thread."""
        self._loop.call_soon_threadsafe(self._replicas.impaired.handle, topic_partition)

    async def close(self) -> None:
        await self._sender.close()
        await self.directories.close()

    # --- MetadataPublisher

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if delta.features is not None:
            self._report_cordoned()

    # --- cordoned directories

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        if change.new.cordoned_log_dirs == change.old.cordoned_log_dirs:
            return None
        return partial(self._follow_cordoned, change.new.cordoned_log_dirs)

    def _follow_cordoned(self, paths: Sequence[str]) -> None:
        self._cordon(paths)
        self._report_cordoned()

    def _cordon(self, paths: Sequence[str]) -> None:
        cordoned = {os.path.abspath(path) for path in paths}
        for directory in self._logs.directories.all:
            directory.is_cordoned = directory.path in cordoned

    def _report_cordoned(self) -> None:
        version = self._core.metadata.image.features.metadata_version
        if version is None or not version.is_cordoned_log_dirs_supported:
            self._reports.cordoned = None
            return
        cordoned = [directory.id for directory in self._logs.directories.online if directory.is_cordoned]
        if cordoned != self._reports.cordoned:
            self._reports.cordoned = cordoned
            self._lifecycle.report_now()

    # --- failures

    def _handle_failures(self) -> None:
        while (failure := self._logs.directories.failures.take()) is not None:
            directory = self.directories.directory_failed(*failure)
            if directory is None:
                continue
            if not self._logs.directories.online:
                path, reason = failure
                self._core.give_up(
                    LogDirectoriesLost(f"all log directories have failed, {path} as the last one: {reason}")
                )
            elif directory.path == os.path.abspath(self._core.config.metadata_log_dir):
                self._core.give_up(LogDirectoriesLost(f"the directory of the metadata log has failed: {failure[1]}"))
            else:
                self._report_failure(directory.id, directory.path)

    def _report_failure(self, directory_id: Uuid, path: str) -> None:
        self._reports.failed(directory_id)
        self._report_cordoned()
        self._lifecycle.report_now()
        timeout_ms = self._core.config.log_dir_failure_timeout_ms
        self._loop.call_later(timeout_ms / 1000, self._require_reported, directory_id, path)

    def _require_reported(self, directory_id: Uuid, path: str) -> None:
        if not self._reports.is_reported(directory_id):
            self._core.give_up(
                LogDirectoriesLost(
                    f"{path} has failed, and no controller acknowledged the report within log.dir.failure.timeout.ms "
                    f"({self._core.config.log_dir_failure_timeout_ms} ms)"
                )
            )
