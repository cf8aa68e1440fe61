"""Readers of committed records (``isolation.level=read_committed``), one for each partition.

As a real consumer does, a reader leaves out the records of the aborted transactions that the answer lists.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.protocol.control_record import ControlRecordType, control_record_type
from tests.simulation.cluster.producers import Reader, report_end

if TYPE_CHECKING:
    from barnabas.protocol.record_batch import BatchView
    from tests.simulation.cluster.world import World

__all__ = ["CommittedReader", "start_committed_readers", "unread"]

READ_COMMITTED = 1


class CommittedReader(Reader):
    def __init__(self, world: World, index: int) -> None:
        super().__init__(world, index, name=f"committed-reader-{index}", isolation_level=READ_COMMITTED)

    @property
    def has_read_all(self) -> bool:
        return self.world.checks.transactions.is_read(self._partition, self._position)

    def _received(self, batches: list[BatchView], answer: Any, losses: int) -> None:
        start, stable = self._position, answer.last_stable_offset
        aborted = sorted((found.first_offset, found.producer_id) for found in answer.aborted_transactions or ())
        skipped: set[int] = set()
        records: list[tuple[int, bytes]] = []
        for batch in batches:
            if batch.base_offset > self._position:
                self.world.checks.fail(f"{self.name} receives {batch.base_offset} instead of {self._position}")
            while aborted and aborted[0][0] <= batch.last_offset:
                skipped.add(aborted.pop(0)[1])
            if batch.is_control:
                if control_record_type(next(iter(batch.records())).key) is ControlRecordType.ABORT:
                    skipped.discard(batch.producer_id)
            elif not batch.is_transactional or batch.producer_id not in skipped:
                records += [
                    (record.offset, bytes(record.value or b"")) for record in batch.records() if record.offset >= start
                ]
            self._position = max(self._position, batch.next_offset)
        if self._position > max(stable, start):
            self.world.checks.fail(f"{self.name} receives records up to {self._position}, but the end is {stable}")
        if losses == self.world.checks.records.losses(self._partition):
            self.world.checks.transactions.read(self._partition, start, self._position, records, stable)


def start_committed_readers(world: World) -> list[CommittedReader]:
    if world.shape.transactions is None:
        return []
    readers = [CommittedReader(world, index) for index in range(world.shape.data_partitions)]
    for reader in readers:
        task = world.loop.create_task(reader.run())
        task.add_done_callback(partial(report_end, world, reader))
    return readers


def unread(readers: list[CommittedReader]) -> str | None:
    for reader in readers:
        if not reader.has_read_all:
            return f"{reader.name} does not read beyond the last stable offset"
    return None
