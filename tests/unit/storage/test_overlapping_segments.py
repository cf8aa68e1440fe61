"""A segment file from a backup that reaches past the beginning of the next segment.

The log continued in a new segment because the end of this one was damaged; the operator then restored the file.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from barnabas.common.errors import ApiException
from barnabas.protocol.record_batch import iter_batches
from barnabas.storage.damaged_files import DAMAGED_SUFFIX
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.segment import segment_path
from tests.unit.storage.log_driver import NOW_MS, append, batch, config, new_log, offsets_and_values, reload

SETTINGS = config(index_interval_bytes=200)
COMPACTED = config(index_interval_bytes=200, cleanup_policy="compact")
COUNT = 40


def written(path: Path, count: int = COUNT, *, value: bytes = b"old %d") -> PartitionLog:
    log = new_log(path, SETTINGS)
    for index in range(count):
        append(log, batch(value % index, timestamp=NOW_MS + index), epoch=index // 10)
    return log


def rolled_after_damage(path: Path, backup: bytes, *, offset: int, later: int) -> Path:
    """A log whose end was damaged from ``offset`` on, that got ``later`` batches since, and whose file was restored."""
    log = written(path, offset)
    log.roll(NOW_MS)
    for index in range(later):
        append(log, batch(b"new %d" % (offset + index), timestamp=NOW_MS + COUNT + index), epoch=9)
    log.close(NOW_MS)
    directory = Path(log.directory)
    Path(segment_path(str(directory), 0, ".log")).write_bytes(backup)
    return directory


@pytest.fixture
def backup(tmp_path: Path) -> bytes:
    log = written(tmp_path / "before")
    log.close(NOW_MS)
    return Path(log.segments[0].path).read_bytes()


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 25])
def test_a_restored_file_takes_the_place_of_the_empty_segment_after_it(
    tmp_path: Path, backup: bytes, is_clean: bool, recovery_point: int, caplog: pytest.LogCaptureFixture
) -> None:
    directory = rolled_after_damage(tmp_path / "log", backup, offset=25, later=0)
    with caplog.at_level(logging.WARNING):
        log, truncation = reload(directory, SETTINGS, is_clean=is_clean, recovery_point=recovery_point)
    assert truncation is None
    assert offsets_and_values(log) == [(index, b"old %d" % index) for index in range(COUNT)]
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert [segment.base_offset for segment in log.segments] == [0]
    assert f"{directory}/{0:020d}.log holds batches from offset 25 on" in caplog.text
    append(log, batch(b"next"), epoch=9)
    log.close(NOW_MS)
    again, _ = reload(directory, SETTINGS, is_clean=True, recovery_point=COUNT + 1)
    assert offsets_and_values(again)[COUNT:] == [(COUNT, b"next")]


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 26])
@pytest.mark.parametrize("later", [1, 5, 30])
def test_batches_behind_the_beginning_of_a_segment_with_batches_are_set_aside(
    tmp_path: Path, backup: bytes, is_clean: bool, recovery_point: int, later: int, caplog: pytest.LogCaptureFixture
) -> None:
    directory = rolled_after_damage(tmp_path / "log", backup, offset=25, later=later)
    with caplog.at_level(logging.ERROR):
        log, truncation = reload(directory, SETTINGS, is_clean=is_clean, recovery_point=recovery_point)
    assert truncation is None
    expected = [(index, b"old %d" % index) for index in range(25)]
    expected += [(index, b"new %d" % index) for index in range(25, 25 + later)]
    assert offsets_and_values(log) == expected
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20), (9, 25)]
    path = segment_path(str(directory), 0, ".log")
    kept = Path(path + DAMAGED_SUFFIX).read_bytes()
    assert Path(path).read_bytes() + kept == backup
    assert f"{path} holds batches from offset 25 on, where the next segment begins" in caplog.text
    assert not log.damaged
    log.close(NOW_MS)
    caplog.clear()
    again, _ = reload(directory, SETTINGS, is_clean=True, recovery_point=log.log_end_offset)
    assert offsets_and_values(again) == expected
    assert not caplog.records


def test_a_batch_across_the_beginning_of_the_next_segment_leaves_a_gap_that_is_damage(tmp_path: Path) -> None:
    log = new_log(tmp_path / "before", SETTINGS)
    append(log, batch(b"a", b"b"))
    append(log, batch(b"c", b"d"))
    log.close(NOW_MS)
    directory = rolled_after_damage(tmp_path / "log", Path(log.segments[0].path).read_bytes(), offset=3, later=2)
    opened, _ = reload(directory, SETTINGS, is_same_boot=True)
    assert [(damage.first_offset, damage.next_offset) for damage in opened.damaged] == [(2, 3)]
    assert opened.log_end_offset == 5


def test_damage_in_the_restored_file_hides_only_its_own_batches(tmp_path: Path, backup: bytes) -> None:
    log = written(tmp_path / "places", COUNT)
    found = log.segments[0].find(24)
    assert found is not None
    position = found[0] + 30
    damaged = backup[:position] + bytes(2 * found[1]) + backup[position + 2 * found[1] :]
    directory = rolled_after_damage(tmp_path / "log", damaged, offset=25, later=3)
    opened, _ = reload(directory, SETTINGS, is_same_boot=True)
    assert [(damage.first_offset, damage.next_offset) for damage in opened.damaged] == [(24, 25)]
    assert offsets_and_values(opened, 25) == [(25, b"new 25"), (26, b"new 26"), (27, b"new 27")]
    assert opened.epochs.entries == [(0, 0), (1, 10), (2, 20), (9, 25)]


def test_an_empty_segment_whose_time_index_has_entries_is_not_replaced(tmp_path: Path, backup: bytes) -> None:
    """Its file was lost: it held other batches, so its offsets are not given back."""
    directory = rolled_after_damage(tmp_path / "log", backup, offset=25, later=3)
    os.truncate(segment_path(str(directory), 25, ".log"), 0)
    log, _ = reload(directory, SETTINGS, is_same_boot=True)
    assert log.log_end_offset >= 28
    read = log.read(0, 1 << 20).records
    assert [view.base_offset for view in iter_batches(read)] == list(range(25))
    with pytest.raises(ApiException, match="the file ends before offset 28"):
        log.read(25, 1 << 20)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("later", [0, 3])
def test_a_changed_base_offset_is_damage_and_not_a_restored_batch(tmp_path: Path, is_clean: bool, later: int) -> None:
    log = written(tmp_path / "before", 25)
    log.close(NOW_MS)
    content = bytearray(Path(log.segments[0].path).read_bytes())
    found = log.segments[0].find(24)
    assert found is not None
    content[found[0] : found[0] + 8] = (1 << 20).to_bytes(8, "big")
    directory = rolled_after_damage(tmp_path / "log", bytes(content), offset=25, later=later)
    opened, _ = reload(directory, SETTINGS, is_clean=is_clean, recovery_point=25 + later, is_same_boot=True)
    assert opened.log_end_offset == 25 + later
    assert [(damage.first_offset, damage.next_offset) for damage in opened.damaged] == [(24, 25)]
    assert opened.segments[0].size == len(content)
    assert offsets_and_values(opened, 25) == [(offset, b"new %d" % offset) for offset in range(25, 25 + later)]


def test_a_compacted_log_keeps_its_gaps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = written(tmp_path / "before", 20)
    log.close(NOW_MS)
    compacted = Path(log.segments[0].path).read_bytes()
    directory = rolled_after_damage(tmp_path / "log", compacted, offset=25, later=3)
    with caplog.at_level(logging.WARNING):
        opened, _ = reload(directory, COMPACTED, is_clean=True, recovery_point=28)
    assert [offset for offset, _ in offsets_and_values(opened)] == [*range(20), 25, 26, 27]
    assert "holds batches" not in caplog.text
