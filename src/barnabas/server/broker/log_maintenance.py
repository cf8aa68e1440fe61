"""Runs background work on the partition logs: new directories, retention, flushes, checkpoints, cleaning.

Short steps run on the event loop. Long steps share one thread, and the cleaner has its own.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.storage.cleaner_thread import CleanerThread
from barnabas.storage.log_cleaner import LogCleaner

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.clock import Clock
    from barnabas.server.settings.node_config import NodeConfig
    from barnabas.storage.errors import CorruptSegmentError
    from barnabas.storage.log_manager import LogManager
    from barnabas.storage.partition_log import PartitionLog

__all__ = ["LogMaintenance"]

log = logging.getLogger(__name__)

_NEW_LOGS_INTERVAL_S = 0.2
_NEW_LOGS_AT_ONCE = 1
"""Creating a directory and its file can take milliseconds, so the loop runs other tasks after each."""
_INITIAL_RETENTION_DELAY_S = 30
_DELETION_INTERVAL_S = 5
_ROLLED_FLUSH_INTERVAL_S = 1
_TOPIC_IDS_INTERVAL_S = 1


class LogMaintenance:
    def __init__(self, config: NodeConfig, logs: LogManager, replicas: ReplicaManager, clock: Clock) -> None:
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._cleaner: CleanerThread | None = None
        self._changing: asyncio.Task[None] | None = None

    def start(self) -> None:
        config = self._config
        retention_s = config.log_retention_check_interval_ms / 1000
        checkpoint_s = config.log_flush_offset_checkpoint_interval_ms / 1000
        flush_s = config.log_flush_scheduler_interval_ms / 1000
        self._every(_NEW_LOGS_INTERVAL_S, self._open_new)
        self._every(
            retention_s,
            lambda: self._logs.run_retention(self._clock.now_ms()),
            first=min(_INITIAL_RETENTION_DELAY_S, retention_s),
        )
        self._every(_DELETION_INTERVAL_S, lambda: self._logs.remove_deleted(self._clock.now_ms()))
        self._every_on_thread(checkpoint_s, self._logs.checkpoint)
        self._every_on_thread(
            config.replica_high_watermark_checkpoint_interval_ms / 1000, self._checkpoint_high_watermarks
        )
        self._every_on_thread(_ROLLED_FLUSH_INTERVAL_S, self._logs.flush_rolled)
        self._every(_ROLLED_FLUSH_INTERVAL_S, self._replicas.impaired.tick)
        self._every_on_thread(_TOPIC_IDS_INTERVAL_S, self._logs.topic_id_notes.write)
        if flush_s < 24 * 3600:
            self._every(flush_s, lambda: self._logs.flush_due(self._clock.now_ms()))
        if config.log_cleaner_enable:
            self._cleaner = self._make_cleaner()
            self._cleaner.start()

    def _make_cleaner(self) -> CleanerThread:
        config, logs = self._config, self._logs
        loop = asyncio.get_running_loop()

        def check_damaged(damaged: PartitionLog, error: CorruptSegmentError) -> None:
            """Runs on the cleaner's thread; the log itself is checked on the loop."""
            loop.call_soon_threadsafe(damaged.check_damaged, error)

        def make(pause: Callable[[int], None]) -> LogCleaner:
            return LogCleaner(
                logs.logs,
                logs.cleaner_offsets,
                checkpoint=logs.checkpoint_cleaner_offsets,
                dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size,
                load_factor=config.log_cleaner_io_buffer_load_factor,
                pause=pause,
                pauses=logs.cleaning_pauses,
                report_failure=logs.report_failure,
                report_damage=check_damaged,
            )

        return CleanerThread(
            make,
            now_ms=self._clock.now_ms,
            backoff_ms=config.log_cleaner_backoff_ms,
            bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
            on_cleaned=lambda stats: log.info("cleaned %s", stats),
        )

    def follow(self, config: NodeConfig) -> None:
        """Apply changed settings of the cleaner. It cleans the current log again from the beginning."""
        self._config = config
        if self._cleaner is None:
            return
        old, self._cleaner = self._cleaner, self._make_cleaner()
        self._changing = asyncio.get_running_loop().create_task(_replace(old, self._cleaner, self._changing))

    async def stop(self) -> None:
        if self._changing is not None:
            await self._changing
        if self._cleaner is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._cleaner.stop)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    def _every(self, interval_s: float, work: Callable[[], object], *, first: float | None = None) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(_repeat(interval_s, work, first)))

    def _every_on_thread(self, interval_s: float, work: Callable[[], object]) -> None:
        """Run ``work``, which waits for the disk, periodically on a thread."""
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(_repeat(interval_s, lambda: loop.run_in_executor(None, work), None)))

    def _checkpoint_high_watermarks(self) -> None:
        """Skip partitions without followers: their records are committed as soon as they are written."""
        if any(partition.replica_count > 1 for partition in list(self._replicas.partitions.values())):
            self._logs.checkpoint_high_watermarks()

    def _open_new(self) -> None:
        """Create directories of new partitions, one per turn of the loop, so that answers are not delayed."""
        if self._replicas.without_log and self._replicas.open_some(_NEW_LOGS_AT_ONCE):
            asyncio.get_running_loop().call_soon(self._open_new)


async def _replace(old: CleanerThread, new: CleanerThread, before: asyncio.Task[None] | None) -> None:
    if before is not None:
        await before
    await asyncio.get_running_loop().run_in_executor(None, old.stop)
    new.start()


async def _repeat(interval_s: float, work: Callable[[], object], first: float | None) -> None:
    await asyncio.sleep(interval_s if first is None else first)
    while True:
        try:
            done = work()
            if isinstance(done, asyncio.Future):
                await done
        except Exception:
            log.exception("background work on the logs failed; it continues in %s s", interval_s)
        await asyncio.sleep(interval_s)
