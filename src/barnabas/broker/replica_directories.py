"""Manages the log directories of this broker's replicas: moves between them, their failures, and their reports.

A move copies a few steps in each turn of the event loop, so that answers are not delayed. ``directory_move`` describes
its stages. After a restart the copy of an existing future log continues.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.broker.replication.directory_assignments import DirectoryAssignments
from barnabas.broker.replication.directory_move import DirectoryMove, MoveStage
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.partition_registration import DIRECTORY_LOST, DIRECTORY_UNASSIGNED
from barnabas.metadata.quota_rates import WindowedRate
from barnabas.network.stepped_responses import serve_others
from barnabas.storage.errors import StorageError
from barnabas.storage.future_log import FutureLogFailed, copy_to_future, is_complete
from barnabas.storage.log_directory import NAME_LENGTH_MAX, future_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.clock import Clock
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.topics import LocalReplicaChanges
    from barnabas.storage.log_directory import LogDirectory
    from barnabas.storage.partition_log import PartitionLog

__all__ = ["ReplicaDirectories"]

log = logging.getLogger(__name__)

_COPIED_AT_ONCE = 1 << 20
_PAUSE_S = 0.05
"""The interval between checks of a move that is fully copied or held back by the rate limit."""
_LONGEST_ID = "0" * 32
_UNLIMITED = float("inf")


class ReplicaDirectories:
    """``assignments`` are reported to the controller; ``on_assignment`` is called when one waits to be sent."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        *,
        bytes_per_second: Callable[[], float] = lambda: _UNLIMITED,
        window_count: int = 11,
        window_ms: int = 1000,
        is_assignment_supported: Callable[[], bool] = lambda: True,
    ) -> None:
        """``bytes_per_second`` limits moves, and may change at any time.

        ``is_assignment_supported`` returns whether the controller accepts reports of replica directories.
        """
        self._replicas = replicas
        self._logs = replicas.logs
        self._clock = clock
        self.bytes_per_second = bytes_per_second
        self._rate = WindowedRate(count=window_count, window_ms=window_ms)
        self._copying: asyncio.Task[None] | None = None
        self._needs_checkpoint = False
        self.is_assignment_supported = is_assignment_supported
        self.on_assignment: Callable[[], None] = lambda: None
        self.assignments = DirectoryAssignments()
        self.moves: dict[TopicPartition, DirectoryMove] = {}
        self.moved_bytes = 0

    # --- following the metadata

    def follow(self, changes: LocalReplicaChanges, placed: Iterable[tuple[tuple[Uuid, int], Uuid]]) -> None:
        """Compare the directories that the controller assigned to changed or new replicas with the actual ones."""
        for key, directory_id in placed:
            self._compare(changes.topic_partition(key), key[0], directory_id)

    def opened(self, opened: PartitionLog, directory_id: Uuid | None) -> None:
        """Handle the creation of a replica's log. ``directory_id`` is the directory known to the controller."""
        if directory_id is not None and opened.topic_id is not None:
            self._compare(opened.topic_partition, opened.topic_id, directory_id)

    def _compare(self, topic_partition: TopicPartition, topic_id: Uuid, directory_id: Uuid) -> None:
        key = (topic_id, topic_partition.partition)
        move = self.moves.get(topic_partition)
        if move is not None and move.key == key:
            move.assigned(directory_id)
            return
        actual = self._directory_of_current(topic_partition)
        if actual is None:
            return
        if actual.id == directory_id:
            self.assignments.withdraw(key)
        elif directory_id != DIRECTORY_LOST or not self._replicas.impaired.must_catch_up(topic_partition):
            self._assign(key, actual.id)

    def _assign(self, key: tuple[Uuid, int], directory_id: Uuid) -> None:
        if directory_id.is_reserved or not self.is_assignment_supported():
            return
        self.assignments.want(key, directory_id)
        self.on_assignment()

    def report_lost(self, topic_partition: TopicPartition, topic_id: Uuid) -> bool:
        """Request that the controller remove a replica that lost records from the ISR. False if that is unsupported."""
        if not self.is_assignment_supported():
            return False
        self.assignments.want((topic_id, topic_partition.partition), DIRECTORY_LOST)
        self.on_assignment()
        return True

    def handle_assigned(self, key: tuple[Uuid, int], directory_id: Uuid) -> None:
        """Handle the controller's acceptance of a reported directory."""
        for move in self.moves.values():
            if move.key == key:
                move.assigned(directory_id)

    def forget(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Forget a replica that was removed from this broker."""
        self.assignments.withdraw((topic_id, topic_partition.partition))
        self._end(topic_partition)

    def resume(self) -> None:
        """Continue the moves that were in progress when this node stopped. Call it after the first image."""
        for topic_partition, future in list(self._logs.table.future.items()):
            partition = self._replicas.partitions.get(topic_partition)
            current, target = self._logs.get(topic_partition), self._logs.directory_of(future)
            if partition is None or future.topic_id != partition.topic_id or target is None:
                self._logs.strays.set_aside(future, "it is the future log of a move, without a replica on this broker")
            elif current is not None:
                move = self._begin(topic_partition, partition.topic_id, target)
                move.assigned(self._replicas.directory_id_of(partition) or DIRECTORY_UNASSIGNED)

    # --- moves

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Move the replica to the directory at ``path``, or create it there when this broker receives it.

        Naming its current directory ends a move to another one. Raises the ApiException for this replica.
        """
        target = self._target(topic_partition, path)
        partition = self._replicas.partitions.get(topic_partition)
        current, future = self._logs.get(topic_partition), self._logs.future(topic_partition)
        if future is not None and self._logs.directory_of(future) is not target:
            self._give_up(topic_partition)
            future = None
        if current is None:
            self._logs.directories.preferred[topic_partition] = target
        if partition is None:
            is_known = self._replicas.is_known(topic_partition)
            raise ApiException(ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        current = partition.log
        if future is not None or self._logs.directory_of(current) is target:
            return
        if any(not directory.is_online for directory in self._logs.directories.all):
            raise ApiException(
                ErrorCode.KAFKA_STORAGE_ERROR, "Replicas are not moved while a log directory of the broker is offline."
            )
        self._logs.create_future(topic_partition, target, now_ms=self._clock.now_ms())
        self._needs_checkpoint = True
        self._begin(topic_partition, partition.topic_id, target)

    def _target(self, topic_partition: TopicPartition, path: str) -> LogDirectory:
        if len(future_directory_name(topic_partition, _LONGEST_ID)) > NAME_LENGTH_MAX:
            raise ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        target = self._logs.directories.at(path)
        if target is None:
            raise ApiException(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not one of log.dirs")
        if not target.is_online:
            raise ApiException(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        if target.is_cordoned:
            raise ApiException(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
        return target

    def _begin(self, topic_partition: TopicPartition, topic_id: Uuid, target: LogDirectory) -> DirectoryMove:
        log.info("moving %s to %s", topic_partition, target.path)
        move = self.moves[topic_partition] = DirectoryMove(topic_partition, topic_id, target.id)
        self._logs.cleaning_pauses.pause(topic_partition)
        if self._copying is None or self._copying.done():
            self._copying = asyncio.get_running_loop().create_task(self._copy())
        return move

    def _end(self, topic_partition: TopicPartition) -> DirectoryMove | None:
        self._logs.cleaning_pauses.resume(topic_partition)
        return self.moves.pop(topic_partition, None)

    def _give_up(self, topic_partition: TopicPartition) -> None:
        """Keep the replica in its directory, and report that to the controller if it may expect another one."""
        log.info("cancelled the move of %s", topic_partition)
        move = self._end(topic_partition)
        self._logs.delete_future(topic_partition, now_ms=self._clock.now_ms())
        actual = self._directory_of_current(topic_partition)
        if move is not None and move.may_be_known and actual is not None:
            self._assign(move.key, actual.id)

    async def _copy(self) -> None:
        while self.moves:
            if self._needs_checkpoint:
                self._needs_checkpoint = False
                # Old checkpoint entries of the replica in that directory must not be used.
                await asyncio.get_running_loop().run_in_executor(None, self._logs.checkpoint)
            progress = False
            for move in list(self.moves.values()):
                if self.moves.get(move.topic_partition) is move:
                    progress = self._step(move) or progress
                    await serve_others()
            if not progress:
                await asyncio.sleep(_PAUSE_S)

    def _step(self, move: DirectoryMove) -> bool:
        """Continue one move. Return False if it has no work now."""
        topic_partition = move.topic_partition
        current, future = self._logs.get(topic_partition), self._logs.future(topic_partition)
        if current is None or future is None:
            self._end(topic_partition)
            return True
        if move.stage is MoveStage.FLUSHING or self._logs.cleaning_pauses.is_cleaning(topic_partition):
            return False
        limit, now_ms = self.bytes_per_second(), self._clock.now_ms()
        if self._rate.throttle_ms(limit, self._clock.monotonic_ms()):
            return False
        try:
            copied = copy_to_future(current, future, max_bytes=_COPIED_AT_ONCE, now_ms=now_ms)
            if copied:
                self.moved_bytes += copied
                self._rate.record(copied, self._clock.monotonic_ms())
            elif is_complete(current, future):
                return self._advance(move, future)
        except FutureLogFailed as error:
            self._logs.report_failure(future, error)
        except (ApiException, OSError, StorageError) as error:
            if not self._logs.report_failure(current, error):
                log.error("cannot move %s: %s", topic_partition, error)
                self._give_up(topic_partition)
            return False
        return copied > 0

    def _advance(self, move: DirectoryMove, future: PartitionLog) -> bool:
        """Handle a future log that has caught up with the current log."""
        if move.caught_up():
            asyncio.get_running_loop().create_task(self._flush(move, future))
            return True
        if move.stage is not MoveStage.COMPLETING:
            return False
        partition = self._replicas.partitions.get(move.topic_partition)
        replaced = self._logs.replace_current(move.topic_partition, now_ms=self._clock.now_ms())
        self._end(move.topic_partition)
        if partition is not None:
            partition.use_log(replaced)
        log.info("moved %s to %s", move.topic_partition, replaced.directory)
        return True

    async def _flush(self, move: DirectoryMove, future: PartitionLog) -> None:
        """Flush the future log on a thread. It is not written meanwhile."""
        now_ms = self._clock.now_ms()
        try:
            await asyncio.get_running_loop().run_in_executor(None, future.flush, now_ms)
        except (OSError, StorageError) as error:
            self._logs.report_failure(future, error)
            return
        move.flushed(is_assignment_needed=self.is_assignment_supported())
        if move.stage is MoveStage.ASSIGNING and self.moves.get(move.topic_partition) is move:
            self._assign(move.key, move.target_id)

    # --- failures

    def directory_failed(self, path: str, reason: str) -> LogDirectory | None:
        """Take a directory and its replicas offline. Return None if it was offline already."""
        directory = self._logs.directories.at(path)
        if directory is None or not directory.is_online:
            return None
        log.error("the log directory %s failed; its replicas are offline: %s", path, reason)
        lost = self._logs.take_offline(path, reason)
        moves = {partition.topic_partition: self._end(partition.topic_partition) for partition in lost}
        unopened = [
            partition.topic_partition
            for partition in self._replicas.partitions.values()
            if partition.log_or_none is None and self._replicas.directory_id_of(partition) == directory.id
        ]
        self._replicas.lose_logs((*(at for at in moves if self._logs.get(at) is None), *unopened))
        for topic_partition, move in moves.items():
            actual = self._directory_of_current(topic_partition)
            if move is not None and move.may_be_known and actual is not None:
                self._assign(move.key, actual.id)
        return directory

    # --- life

    async def close(self) -> None:
        """Stop all moves; they continue after the next start."""
        if self._copying is not None:
            self._copying.cancel()
            await asyncio.gather(self._copying, return_exceptions=True)

    def _directory_of_current(self, topic_partition: TopicPartition) -> LogDirectory | None:
        current = self._logs.get(topic_partition)
        return None if current is None else self._logs.directory_of(current)
