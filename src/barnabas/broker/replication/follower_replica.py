"""The port to a partition that a fetcher copies, so that the fetcher runs on any kind of log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.storage.batch_header import Buffer

__all__ = ["FollowerReplica"]


class FollowerReplica(Protocol):
    """A follower's log under one leader and leader epoch.

    Writes raise ApiException for invalid data, and OSError or StorageError for a failed disk.
    """

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record; -1 if no epoch is known."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest known epoch up to ``epoch`` and the offset after its last record, or (-1, -1)."""
        ...

    def append(self, records: Buffer, leader_epoch: int) -> int:
        """Write the complete batches of these bytes, which begin at the log's end. Return their size."""
        ...

    def follow_offsets(self, *, high_watermark: int, log_start_offset: int) -> None:
        """Apply the leader's offsets, up to the end of this log. Neither decreases. -1: unknown."""
        ...

    def truncate_to(self, offset: int) -> None: ...

    def truncate_fully_and_start_at(self, offset: int) -> None: ...
