"""A coordinator's topic in memory: the port that the runtime writes to and the loader reads from."""

from __future__ import annotations

from itertools import count

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.record_batch import iter_batches
from tests.unit.stamped_batch import stamped_batch


class MemoryLog:
    """One partition. With ``auto_commit`` the high watermark follows each append immediately."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0

    def append(self, batch: bytes) -> int:
        base_offset = self.log_end_offset
        stamped = stamped_batch(batch, base_offset)
        (view,) = iter_batches(stamped)
        view.ensure_valid()
        self.batches.append((base_offset, view.next_offset, stamped))
        self.log_end_offset = view.next_offset
        return base_offset

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        found = [batch for _, next_offset, batch in self.batches if next_offset > offset]
        chunk = b""
        for batch in found:
            if chunk and len(chunk) + len(batch) > max_bytes:
                break
            chunk += batch
        return chunk

    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        return [
            (record.key, record.value)
            for _, _, batch in self.batches
            for view in iter_batches(batch)
            for record in view.records()
        ]


class MemoryTopic:
    """All partitions. ``commit`` moves the high watermark; ``refuse_with`` fails appends, ``bytes_max`` long ones."""

    def __init__(self) -> None:
        self.logs: dict[int, MemoryLog] = {}
        self.auto_commit = True
        self.refuse_with: ErrorCode | None = None
        self.bytes_max: int | None = None
        self.uuids = count(1)
        """The source of ids for all coordinators of the topic, so that ids are unique."""
        self.runtime: object = None
        self.now_ms = 0

    def log(self, partition: int) -> MemoryLog:
        return self.logs.setdefault(partition, MemoryLog())

    def append(self, partition: int, batch: bytes) -> int:
        if self.refuse_with is not None:
            raise ApiException(self.refuse_with)
        if self.bytes_max is not None and len(batch) > self.bytes_max:
            raise ApiException(ErrorCode.MESSAGE_TOO_LARGE)
        base_offset = self.log(partition).append(batch)
        if self.auto_commit:
            self.commit(partition)
        return base_offset

    def commit(self, partition: int) -> None:
        log = self.log(partition)
        log.high_watermark = log.log_end_offset
        self.runtime.on_high_watermark(partition, log.high_watermark, self.now_ms)  # type: ignore[attr-defined]
