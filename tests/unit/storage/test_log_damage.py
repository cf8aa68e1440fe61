"""Damage found while a log is read: reported, skipped, never truncated, never returned."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.record_batch import iter_batches
from barnabas.storage.batch_header import HEADER
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import NOW_MS, append, batch, config, new_log, reload

SETTINGS = config(segment_bytes=20_000, index_interval_bytes=300)
COUNT = 400


@pytest.fixture
def closed(tmp_path: Path) -> PartitionLog:
    log = new_log(tmp_path, SETTINGS)
    for index in range(COUNT):
        append(log, batch(b"value %d" % index, timestamp=NOW_MS + index))
    log.close(NOW_MS)
    return log


def reopened(log: PartitionLog) -> PartitionLog:
    opened, _ = reload(log.directory, SETTINGS, is_clean=True, recovery_point=COUNT)
    return opened


def change(path: str, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def offsets(log: PartitionLog, start: int = 0, max_bytes: int = 1 << 20) -> list[int]:
    """Return the offsets of a reader that continues after each offset with an error."""
    found: list[int] = []
    while start < log.log_end_offset:
        try:
            views = list(iter_batches(log.read(start, max_bytes, min_one_message=True).records))
        except ApiException as error:
            assert error.code is ErrorCode.CORRUPT_MESSAGE
            start += 1
            continue
        for view in views:
            view.ensure_valid()
            found.append(view.base_offset)
        start = views[-1].next_offset
    return found


def place_of(log: PartitionLog, offset: int) -> tuple[str, int, int]:
    segment = next(segment for segment in reversed(log.segments) if segment.base_offset <= offset)
    found = segment.find(offset)
    assert found is not None
    return segment.path, found[0], found[1]


@pytest.mark.parametrize("offset", [0, 150, 399])
def test_a_flipped_bit_is_never_returned(closed: PartitionLog, offset: int, caplog: pytest.LogCaptureFixture) -> None:
    path, position, size = place_of(closed, offset)
    change(path, position + size - 1, b"\xff")
    log = reopened(closed)
    damaged: list[PartitionLog] = []
    log.on_damaged = damaged.append
    with caplog.at_level(logging.ERROR):
        assert offsets(log) == [at for at in range(COUNT) if at != offset]
    assert [(damage.first_offset, damage.next_offset) for damage in log.damaged] == [(offset, offset + 1)]
    assert damaged == [log]
    assert f"{path} is damaged at position {position}: " in caplog.text
    assert log.log_end_offset == COUNT


def test_a_stretch_of_zeros_hides_only_what_it_covers(closed: PartitionLog) -> None:
    path, position, _ = place_of(closed, 100)
    change(path, position - 20, bytes(500))
    log = reopened(closed)
    found = offsets(log)
    (damage,) = log.damaged
    assert damage.first_offset == 99
    assert damage.next_offset < 110
    assert found == [at for at in range(COUNT) if not damage.first_offset <= at < damage.next_offset]


def test_a_destroyed_header_hides_one_batch(closed: PartitionLog) -> None:
    for offset, data in ((40, b"\x7f\xff\xff\xff"), (200, b"\0\0\0\1")):
        path, position, _ = place_of(closed, offset)
        change(path, position + 8, data)
    log = reopened(closed)
    assert offsets(log) == [at for at in range(COUNT) if at not in (40, 200)]


def test_verified_batches_are_not_checked_again(closed: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log = reopened(closed)
    assert len(offsets(log)) == COUNT

    def never(batch: object) -> bool:
        raise AssertionError("checked twice")

    monkeypatch.setattr("barnabas.storage.segment_damage.batch_is_valid", never)
    last = log.segments[-1].base_offset
    assert offsets(log, last) == list(range(last, COUNT))
    append(log, batch(b"more"))
    assert offsets(log, last) == list(range(last, COUNT + 1))


@pytest.mark.parametrize("field", range(0, 400, 47))
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_in_an_offset_index_hides_nothing(closed: PartitionLog, field: int, bit: int) -> None:
    path = Path(closed.segments[0].path.replace(".log", ".index"))
    content = bytearray(path.read_bytes())
    content[field % len(content)] ^= 1 << bit
    path.write_bytes(content)
    log = reopened(closed)
    assert [offsets(log, start, max_bytes=1)[0] for start in range(0, 150, 3)] == list(range(0, 150, 3))
    assert log.damaged == []


def test_a_followers_truncation_ends_the_damage(closed: PartitionLog) -> None:
    path, position, size = place_of(closed, 150)
    change(path, position + size - 1, b"\xff")
    log = reopened(closed)
    offsets(log)
    assert len(log.damaged) == 1
    log.truncate_to(150, now_ms=NOW_MS)
    assert (log.log_end_offset, log.damaged) == (150, [])
    append(log, batch(b"again"))
    assert offsets(log) == list(range(151))


def test_a_changed_base_offset_or_epoch_is_found_by_the_next_batch(closed: PartitionLog) -> None:
    path, position, _ = place_of(closed, 20)
    change(path, position, (22).to_bytes(8, "big"))
    path, position, _ = place_of(closed, 30)
    change(path, position + 12, (9).to_bytes(4, "big"))
    log, _ = reload(closed.directory, SETTINGS, is_same_boot=True)
    assert [(damage.first_offset, damage.next_offset) for damage in log.damaged] == [(20, 21), (30, 31)]
    assert log.epochs.entries == [(0, 0)]
    assert HEADER.size == 61


@pytest.mark.parametrize("base_offset", [1 << 60, 16, 7])
def test_an_impossible_base_offset_is_never_returned(closed: PartitionLog, base_offset: int) -> None:
    path, position, _ = place_of(closed, 5)
    change(path, position, base_offset.to_bytes(8, "big"))
    log = reopened(closed)
    assert offsets(log) == [at for at in range(COUNT) if at != 5]


@pytest.mark.parametrize(("is_clean", "recovery_point"), [(True, 0), (True, 3), (False, 3)])
def test_offsets_of_a_missing_sole_segment_are_refused_and_not_reused(
    tmp_path: Path, is_clean: bool, recovery_point: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(tmp_path, SETTINGS)
    for index in range(3):
        append(log, batch(b"value %d" % index))
    log.close(NOW_MS)
    path = Path(log.active_segment.path)
    path.unlink()
    again, _ = reload(log.directory, SETTINGS, is_clean=is_clean, recovery_point=recovery_point, is_same_boot=True)
    assert again.log_end_offset == 3
    assert offsets(again) == []
    assert str(path) in caplog.text
    append(again, batch(b"later"))
    assert offsets(again) == [3]


def test_indexes_created_before_their_log_are_not_a_lost_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for extension in ("index", "timeindex"):
        (directory / f"{0:020d}.{extension}").touch()
    log, _ = reload(directory, SETTINGS, is_clean=False)
    assert log.log_end_offset == 0
    assert not log.damaged
    assert "missing" not in caplog.text


@pytest.mark.parametrize("bytes_of_batch", [0, 30, 70])
@pytest.mark.parametrize("is_rolled", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_a_file_truncated_while_the_log_is_open_is_damaged_from_there_on(
    closed: PartitionLog, bytes_of_batch: int, is_rolled: bool, max_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = reopened(closed)
    segment = log.segments[0 if is_rolled else -1]
    position, _, first, _ = list(segment.walk())[5]
    os.truncate(segment.path, position + bytes_of_batch)
    end = log.segments[1].base_offset if is_rolled else COUNT
    assert offsets(log, max_bytes=max_bytes) == [*range(first), *range(end, COUNT)]
    (damage,) = log.damaged
    assert (damage.position, damage.first_offset, damage.next_offset) == (position, first, end)
    assert f"{segment.path} is damaged at position {position}: the file ends" in caplog.text
    assert append(log, batch(b"more")).first_offset == COUNT
    assert offsets(log, COUNT) == [COUNT]
