"""The watch reports each committed fencing once, whatever happens to the logs that it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tests.history.metadata_watch import MetadataWatch


def batch(offset: int, epoch: int, broker_id: int) -> bytes:
    """A batch that fences a broker."""
    record = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=7, fenced=1)
    builder = RecordBatchBuilder(base_offset=offset, leader_epoch=epoch)
    builder.append(offset, 1000, None, encode_metadata_record(record, 1))
    return bytes(builder.build())


class Disk:
    """The metadata log of one controller."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder
        self._log = folder / "__cluster_metadata-0"
        self._log.mkdir(parents=True)

    def write(self, *batches: bytes, segment: int = 0) -> None:
        (self._log / f"{segment:020}.log").write_bytes(b"".join(batches))


@pytest.fixture
def disks(tmp_path: Path) -> list[Disk]:
    return [Disk(tmp_path / str(number)) for number in range(2)]


@pytest.fixture
def watch(disks: list[Disk]) -> MetadataWatch:
    return MetadataWatch([disk.directory for disk in disks])


def fenced(watch: MetadataWatch) -> list[tuple[int, int]]:
    watch.poll()
    return [(fencing.broker_id, fencing.offset) for fencing in watch.fencings()]


def test_a_fencing_in_all_logs_is_reported_once(disks: list[Disk], watch: MetadataWatch) -> None:
    for disk in disks:
        disk.write(batch(0, 1, 3), batch(1, 1, 4))
    assert fenced(watch) == [(3, 0), (4, 1)]
    assert fenced(watch) == [(3, 0), (4, 1)]


def test_uncommitted_records_of_a_deposed_leader_are_forgotten(disks: list[Disk], watch: MetadataWatch) -> None:
    disks[0].write(batch(0, 1, 3), batch(1, 1, 4), batch(2, 1, 5))
    assert fenced(watch) == [(3, 0), (4, 1), (5, 2)]
    disks[1].write(batch(0, 1, 3), batch(1, 2, 6))
    assert fenced(watch) == [(3, 0), (6, 1)]


def test_a_log_that_was_truncated_and_grew_again_is_read_on(disks: list[Disk], watch: MetadataWatch) -> None:
    """The log is longer than before, and its batches begin at other offsets."""
    disks[0].write(batch(0, 1, 3), batch(1, 1, 4))
    assert fenced(watch) == [(3, 0), (4, 1)]
    other = RecordBatchBuilder(base_offset=1, leader_epoch=2)
    other.append(1, 1000, None, encode_metadata_record(BrokerRegistrationChangeRecord(broker_id=9), 1))
    other.append(2, 1000, b"key", encode_metadata_record(BrokerRegistrationChangeRecord(broker_id=9), 1))
    disks[0].write(batch(0, 1, 3), bytes(other.build()), batch(3, 2, 5))
    assert fenced(watch) == [(3, 0), (5, 3)]


def test_the_end_of_a_segment_is_read_after_the_next_segment_exists(disks: list[Disk], watch: MetadataWatch) -> None:
    disks[0].write(batch(0, 1, 3))
    assert fenced(watch) == [(3, 0)]
    disks[0].write(batch(0, 1, 3), batch(1, 1, 4))
    disks[0].write(batch(2, 1, 5), segment=2)
    assert fenced(watch) == [(3, 0), (4, 1), (5, 2)]


def test_a_partial_batch_waits_for_the_rest(disks: list[Disk], watch: MetadataWatch) -> None:
    whole = batch(1, 1, 4)
    disks[0].write(batch(0, 1, 3), whole[:70])
    assert fenced(watch) == [(3, 0)]
    disks[0].write(batch(0, 1, 3), whole)
    assert fenced(watch) == [(3, 0), (4, 1)]
