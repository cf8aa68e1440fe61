"""Defects in the handling of disk errors, and of data that a disk has lost or changed."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect("failed-write-counts", "a batch counts as written although its write failed", needs="disk_errors")
def _() -> None:
    def make(original: Any) -> Any:
        from barnabas.storage.errors import StorageError

        def append(segment: Any, buffers: Any, size: int, **options: Any) -> Any:
            position = segment.size
            try:
                return original(segment, buffers, size, **options)
            except StorageError:
                segment.size = position + size
                return position

        return append

    replace_in("storage.segment", "Segment.append", make)


@defect(
    "failed-flush-is-tried-again",
    "a failed flush is retried, and the result of the second one is trusted",
    "disk_errors",
)
def _() -> None:
    def make(original: Any) -> Any:
        def run(flush: Any) -> None:
            try:
                original(flush)
            except OSError:
                original(flush)

        return run

    replace_in("storage.metadata_log", "PendingFlush.run", make)


@defect("vote-is-not-stored", "a vote counts although quorum-state could not be written", needs="disk_errors")
def _() -> None:
    def make(original: Any) -> Any:
        def write(file: Any, *arguments: Any) -> None:
            try:
                original(file, *arguments)
            except OSError:
                return

        return write

    replace_in("storage.quorum_state_file", "QuorumStateFile.write", make)


@defect(
    "damaged-leader-continues",
    "a leader with a damaged log continues to lead although other replicas are in sync",
    needs="rots_data",
)
def _() -> None:
    replace_in(
        "broker.impaired_replicas",
        "ImpairedReplicas._give_up",
        lambda original: lambda self, partition, registration: None,
    )


@defect("damage-is-cut-while-in-sync", "a replica truncates its damaged log while it may be elected", needs="rots_data")
def _() -> None:
    def make(original: Any) -> Any:
        def handle(self: Any, topic_partition: Any) -> None:
            partition = self._replicas.partitions.get(topic_partition)
            if partition is not None and partition.leader_id not in (-1, self._replicas.broker_id):
                self._repair(partition)

        return handle

    replace_in("broker.impaired_replicas", "ImpairedReplicas.handle", make)
