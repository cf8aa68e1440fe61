"""Defects in the coordination of groups, and in its takeover when a broker stops."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect("offsets-acknowledged-when-appended", "offsets are acknowledged before the replicas have them", needs="groups")
def _() -> None:
    def make(original: Any) -> Any:
        def append(self: Any, partition: int, batch: bytes) -> int:
            offset: int = original(self, partition, batch)
            self.coordinator.runtime.on_high_watermark(partition, 1 << 60, self.now_ms())
            self.coordinator.runtime._contexts[partition].high_watermark = -1
            return offset

        return append

    replace_in("broker.coordinator_host", "CoordinatorHost.append", make)


@defect(
    "coordinator-loads-all-but-the-last",
    "a coordinator that takes over does not read the last batch",
    needs="groups",
)
def _() -> None:
    replace_in(
        "coordinator.coordinator_loader", "iter_batches", lambda original: lambda data: list(original(data))[:-1]
    )


@defect(
    "offset-of-an-older-record-wins",
    "of two offsets of a partition the one committed first counts",
    needs="groups",
)
def _() -> None:
    def make(original: Any) -> Any:
        def put(self: Any, group_id: str, topic: str, partition: int, value: Any, record_offset: int) -> None:
            known = self.get(group_id, topic, partition)
            original(self, group_id, topic, partition, known or value, record_offset)

        return put

    replace_in("coordinator.group.committed_offsets", "CommittedOffsets.put", make)


@defect(
    "old-coordinator-continues",
    "a broker answers for groups after another broker leads their partition",
    needs="groups",
)
def _() -> None:
    replace_in(
        "coordinator.coordinator_runtime",
        "CoordinatorRuntime.unload",
        lambda original: lambda self, *arguments, **options: None,
    )


@defect(
    "coordinator-does-not-load",
    "a broker answers for groups when it leads, without reading their records first",
    needs="groups",
)
def _() -> None:
    replace_in(
        "coordinator.coordinator_loader", "CoordinatorLoader._replay", lambda original: lambda self, now_ms: False
    )


@defect("members-never-expire", "a member without heartbeats stays in its group", needs="groups")
def _() -> None:
    replace_in("coordinator.timer_queue", "TimerQueue.pop_due", lambda original: lambda self, now_ms: None)
