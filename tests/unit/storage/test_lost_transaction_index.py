"""The index of aborted transactions is lost or damaged: a committed reader's view is then read from the batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import append, batch, config, end_transaction, new_log, reload

SETTINGS = config(segment_bytes=500, index_interval_bytes=100)
ABORTED, COMMITTED = 7, 8


def transactional(producer_id: int, sequence: int) -> bytes:
    return batch(b"t" * 20, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def log_with_transactions(path: Path) -> Path:
    """Offsets 0-11: plain, aborted, committed, plain and the two markers, twice, over several segments."""
    log = new_log(path, SETTINGS)
    for round_ in (0, 1):
        append(log, batch(b"plain"))
        append(log, transactional(ABORTED, round_))
        append(log, transactional(COMMITTED, round_))
        append(log, batch(b"plain"))
        end_transaction(log, COMMITTED, 0, commit=True)
        end_transaction(log, ABORTED, 0, commit=False)
    log.close(0)
    assert len(list(Path(log.directory).glob("*.log"))) > 1
    return Path(log.directory)


def hidden(log: PartitionLog) -> set[tuple[int, int]]:
    """Return producer and first offset of the transactions that a reader of the whole log receives as aborted."""
    log.maybe_advance_high_watermark(log.log_end_offset)
    found: set[tuple[int, int]] = set()
    offset = 0
    while offset < log.log_end_offset:
        read = log.read(offset, 150, min_one_message=True, committed_only=True)
        assert read.aborted_transactions is not None
        found |= {(aborted.producer_id, aborted.first_offset) for aborted in read.aborted_transactions}
        segment, position, _ = next(
            (segment, at[0], at[1])
            for segment in log.segments
            if (at := segment.find(offset)) is not None and at[3] >= offset
        )
        end = position + len(read.records)
        offset = max(last for at, size, _, last in segment.walk(position) if at + size <= end) + 1
    return found


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.unlink(), id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(bytes(path.stat().st_size)), id="zeros"),
        pytest.param(lambda path: path.write_bytes(b"\x80" + path.read_bytes()[1:]), id="flip-at-start"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:17]), id="truncated"),
        pytest.param(lambda path: path.write_bytes(b"garbage"), id="garbage"),
        pytest.param(lambda path: None, id="whole"),
    ],
)
@pytest.mark.parametrize("is_clean", [True, False], ids=["cleanly", "by-a-kill"])
def test_a_committed_reader_skips_aborted_records(
    tmp_path: Path, damage: Callable[[Path], object], is_clean: bool
) -> None:
    directory = log_with_transactions(tmp_path)
    for path in directory.glob("*.txnindex"):
        damage(path)
    log, _ = reload(directory, SETTINGS, is_clean=is_clean)
    assert {(ABORTED, 1), (ABORTED, 7)} <= hidden(log)
    assert not {producer_id for producer_id, _ in hidden(log)} - {ABORTED}


def test_the_marker_may_be_beyond_the_last_stable_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path, config())
    append(log, transactional(ABORTED, 0))
    append(log, transactional(COMMITTED, 0))
    end_transaction(log, ABORTED, 0, commit=False)
    log.close(0)
    for path in Path(log.directory).glob("*.txnindex"):
        path.unlink()
    log, _ = reload(log.directory, config(), is_clean=True)
    log.maybe_advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 1
    read = log.read(0, 10_000, max_offset=log.last_stable_offset, committed_only=True)
    assert read.aborted_transactions is not None
    assert {(aborted.producer_id, aborted.first_offset) for aborted in read.aborted_transactions} == {(ABORTED, 0)}


def test_a_transaction_started_after_the_process_is_found_too(tmp_path: Path) -> None:
    directory = log_with_transactions(tmp_path)
    for path in directory.glob("*.txnindex"):
        path.unlink()
    log, _ = reload(directory, SETTINGS, is_clean=True)
    append(log, transactional(ABORTED, 2))
    end_transaction(log, ABORTED, 0, commit=False)
    assert {(ABORTED, 1), (ABORTED, 7), (ABORTED, 12)} <= hidden(log)


def test_a_marker_without_a_transaction_hides_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path, config())
    append(log, batch(b"plain"))
    end_transaction(log, ABORTED, 0, commit=False)
    log.close(0)
    log, _ = reload(log.directory, config(), is_clean=True)
    assert hidden(log) == set()


def test_entries_of_records_that_a_power_failure_took_are_forgotten(tmp_path: Path) -> None:
    """They used to stop the next abort, and to hide what the same producer wrote at their offsets."""
    log = new_log(tmp_path, config())
    append(log, batch(b"plain"))
    kept = log.active_segment.size
    append(log, transactional(ABORTED, 0))
    end_transaction(log, ABORTED, 0, commit=False)
    os.truncate(log.active_segment.path, kept)
    log, _ = reload(log.directory, config(), is_clean=False)
    assert log.active_segment.transaction_index.transactions == []
    append(log, transactional(ABORTED, 0))
    end_transaction(log, ABORTED, 0, commit=True)
    assert hidden(log) == set()
    append(log, transactional(ABORTED, 1))
    end_transaction(log, ABORTED, 0, commit=False)
    assert hidden(log) == {(ABORTED, 3)}


@pytest.mark.parametrize("is_clean", [True, False], ids=["cleanly", "by-a-kill"])
def test_an_index_that_cannot_be_read_does_not_stop_the_next_abort(tmp_path: Path, is_clean: bool) -> None:
    log = new_log(tmp_path, config())
    append(log, transactional(ABORTED, 0))
    end_transaction(log, ABORTED, 0, commit=False)
    log.close(0)
    [path] = Path(log.directory).glob("*.txnindex")
    path.write_bytes(path.read_bytes()[:17])
    log, _ = reload(log.directory, config(), is_clean=is_clean)
    append(log, transactional(ABORTED, 1))
    end_transaction(log, ABORTED, 0, commit=False)
    assert hidden(log) == {(ABORTED, 0), (ABORTED, 2)}


def test_an_index_that_cannot_be_read_does_not_stop_a_truncation(tmp_path: Path) -> None:
    """After a power failure the torn end of a log is cut, and its index may be torn as well."""
    log = new_log(tmp_path, config())
    append(log, transactional(ABORTED, 0))
    end_transaction(log, ABORTED, 0, commit=False)
    append(log, batch(b"plain"))
    [path] = Path(log.directory).glob("*.txnindex")
    path.write_bytes(path.read_bytes()[:17])
    log, _ = reload(log.directory, config(), is_clean=False)
    log.truncate_to(2, now_ms=0)
    assert hidden(log) == {(ABORTED, 0)}
