"""The move of one replica to another log directory of its broker, from the request to its completion.

COPYING: the future log follows the current one. Once it has caught up, it is made durable (FLUSHING). Then the target
directory is reported to the controller (ASSIGNING), which decides after a crash which of the two logs is valid. Once
the controller has accepted it (COMPLETING), the future log replaces the current one as soon as it has all records.

    COPYING -> FLUSHING -> ASSIGNING -> COMPLETING -> finished

A move may be cancelled in each stage. From ASSIGNING on the controller may have completed it, so the replica's
directory is reported again.
"""

from __future__ import annotations

from enum import Enum, auto

from barnabas.broker.replication.directory_assignments import ReplicaKey
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid

__all__ = ["DirectoryMove", "MoveStage"]


class MoveStage(Enum):
    COPYING = auto()
    FLUSHING = auto()
    ASSIGNING = auto()
    COMPLETING = auto()


class DirectoryMove:
    __slots__ = ("key", "stage", "target_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid, target_id: Uuid) -> None:
        self.topic_partition = topic_partition
        self.key: ReplicaKey = (topic_id, topic_partition.partition)
        self.target_id = target_id
        self.stage = MoveStage.COPYING

    def __repr__(self) -> str:
        return f"DirectoryMove({self.topic_partition} to {self.target_id}, {self.stage.name})"

    @property
    def may_be_known(self) -> bool:
        """Whether the new directory may have been reported to the controller."""
        return self.stage in (MoveStage.ASSIGNING, MoveStage.COMPLETING)

    def caught_up(self) -> bool:
        """Note that the future log has caught up with the current one. Return True if it must be made durable now."""
        if self.stage is not MoveStage.COPYING:
            return False
        self.stage = MoveStage.FLUSHING
        return True

    def flushed(self, *, is_assignment_needed: bool) -> None:
        if self.stage is MoveStage.FLUSHING:
            self.stage = MoveStage.ASSIGNING if is_assignment_needed else MoveStage.COMPLETING

    def assigned(self, directory_id: Uuid) -> None:
        """Note that the controller has assigned the replica to this directory."""
        if directory_id == self.target_id and self.stage is not MoveStage.FLUSHING:
            # This may happen even while copying: a node that was killed continues in an earlier stage.
            self.stage = MoveStage.COMPLETING
