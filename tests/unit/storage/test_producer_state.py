"""Idempotent producers and transactions, as a partition log sees them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.produced_batch import AppendOrigin
from barnabas.storage.producer_snapshot import read_snapshot
from barnabas.storage.producer_state import SEQUENCE_MAX, ProducerState
from barnabas.storage.transaction_index import AbortedTransaction
from tests.unit.storage.log_driver import (
    NOW_MS,
    append,
    batch,
    config,
    end_transaction,
    killed,
    marker,
    new_log,
    offsets_and_values,
    reload,
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return new_log(tmp_path / "log")


def produce(
    log: PartitionLog, sequence: int, *values: bytes, producer_id: int = 7, epoch: int = 0, transactional: bool = False
) -> tuple[int, int, bool]:
    sent = batch(
        *values or (b"v",),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    info = append(log, sent)
    return info.first_offset, info.last_offset, info.duplicate


def refusal(log: PartitionLog, sequence: int, *, epoch: int = 0, transactional: bool = False) -> ErrorCode:
    with pytest.raises(ApiException) as caught:
        produce(log, sequence, epoch=epoch, transactional=transactional)
    return caught.value.code


def test_consecutive_sequences_are_appended(log: PartitionLog) -> None:
    assert produce(log, 0, b"a", b"b") == (0, 1, False)
    assert produce(log, 2, b"c") == (2, 2, False)


def test_a_repeated_batch_receives_its_first_offsets_and_is_not_written_again(log: PartitionLog) -> None:
    for sequence in range(5):
        produce(log, sequence)
    for sequence in range(5):
        assert produce(log, sequence) == (sequence, sequence, True)
    assert log.log_end_offset == 5


def test_only_the_last_five_batches_are_recognized(log: PartitionLog) -> None:
    for sequence in range(6):
        produce(log, sequence)
    assert refusal(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 1) == (1, 1, True)


def test_a_batch_with_other_bounds_is_not_a_duplicate(log: PartitionLog) -> None:
    produce(log, 0, b"a", b"b")
    assert refusal(log, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequence_is_refused(log: PartitionLog) -> None:
    produce(log, 0)
    assert refusal(log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1


def test_an_unknown_producer_may_start_anywhere(log: PartitionLog) -> None:
    assert produce(log, 1234) == (0, 0, False)
    assert produce(log, 1235) == (1, 1, False)


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero(log: PartitionLog) -> None:
    produce(log, 0, epoch=3)
    assert refusal(log, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, epoch=4) == (1, 1, False)
    assert refusal(log, 1, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_to_zero_after_the_largest(log: PartitionLog) -> None:
    produce(log, SEQUENCE_MAX - 1, b"a", b"b", b"c")
    assert produce(log, 1) == (3, 3, False)
    produce(log, 2, producer_id=7)
    assert produce(log, SEQUENCE_MAX - 1, b"a", b"b", b"c") == (0, 2, True)


def test_producers_are_independent_of_each_other(log: PartitionLog) -> None:
    assert produce(log, 0, producer_id=1) == (0, 0, False)
    assert produce(log, 0, producer_id=2) == (1, 1, False)
    assert produce(log, 1, producer_id=1) == (2, 2, False)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restart_remembers_the_last_batches_of_each_producer(
    log: PartitionLog, tmp_path: Path, is_clean: bool
) -> None:
    for sequence in range(3):
        produce(log, sequence)
    produce(log, 9, producer_id=8)
    if is_clean:
        log.close(NOW_MS)
    restarted, _ = reload(killed(log, tmp_path / "copy"), is_clean=is_clean)
    assert produce(restarted, 2) == (2, 2, True)
    assert produce(restarted, 3) == (4, 4, False)
    assert produce(restarted, 9, producer_id=8) == (3, 3, True)
    assert refusal(restarted, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1200])
@pytest.mark.parametrize("again", [2, 3, 4, 5])
def test_a_repeated_batch_after_an_orderly_restart_is_found_in_the_log(
    tmp_path: Path, again: int, segment_bytes: int
) -> None:
    log = new_log(tmp_path / "log", config(segment_bytes=segment_bytes))
    for sequence in range(7):
        produce(log, sequence)
        produce(log, sequence, b"x", b"y", producer_id=8, epoch=3) if sequence == 0 else None
    log.close(NOW_MS)
    restarted, _ = reload(killed(log, tmp_path / "copy"))
    first, last, is_duplicate = produce(restarted, again)
    assert (first, last, is_duplicate) == (again + 2, again + 2, True)
    assert refusal(restarted, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it is the sixth from the end"
    assert produce(restarted, 7)[2] is False
    assert produce(restarted, 3)[2] is True, "of the five that are kept"
    assert refusal(restarted, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_before_a_new_epoch_or_a_gap_are_not_recalled(log: PartitionLog, tmp_path: Path) -> None:
    produce(log, 0)
    produce(log, 0, epoch=1)
    produce(log, 1, epoch=1)
    log.producers.producers.clear()  # As after a long silence.
    produce(log, 9, epoch=1)
    log.close(NOW_MS)
    restarted, _ = reload(killed(log, tmp_path / "copy"))
    assert refusal(restarted, 0, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(restarted, 1, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(restarted, 9, epoch=1) == (3, 3, True)


def test_a_log_is_searched_once_for_the_batches_of_a_producer(
    log: PartitionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sequence in range(7):
        produce(log, sequence)
    log.close(NOW_MS)
    restarted, _ = reload(killed(log, tmp_path / "copy"))
    assert produce(restarted, 7)[2] is False
    assert refusal(restarted, 100) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    monkeypatch.setattr(
        "barnabas.storage.producer_checks.recall_batches", lambda *_: pytest.fail("recall_batches was called again")
    )
    assert refusal(restarted, 100) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(restarted, 4)[2] is True


def test_recovery_replays_only_batches_after_the_last_snapshot(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log", config(segment_bytes=400))
    for sequence in range(20):
        produce(log, sequence)
    snapshots = sorted(name for name in os.listdir(log.directory) if name.endswith(".snapshot"))
    assert [int(name[:20]) for name in snapshots] == [segment.base_offset for segment in log.segments[1:]]
    for name in snapshots[:-1]:
        Path(log.directory, name).write_bytes(b"damaged, but older than the one that counts")
    restarted, _ = reload(killed(log, tmp_path / "copy"))
    assert produce(restarted, 19) == (19, 19, True)


def test_batches_at_or_after_the_next_segment_are_not_replayed(log: PartitionLog, tmp_path: Path) -> None:
    """A file that was restored from a backup may be longer than the segment that the log continued after.

    A batch that is not in the log would be taken for a repeated one, and acknowledged without being written.
    """
    for sequence in range(5):
        produce(log, sequence)
    directory = killed(log, tmp_path / "copy")
    (directory / f"{3:020d}.log").write_bytes((3).to_bytes(8, "big") + batch(b"of no producer")[8:])
    restarted, _ = reload(directory)
    assert restarted.log_end_offset == 4
    assert produce(restarted, 2) == (2, 2, True)
    assert produce(restarted, 3) == (4, 4, False)


def test_silent_producers_are_forgotten_unless_a_transaction_is_open(log: PartitionLog) -> None:
    produce(log, 0, producer_id=1)
    produce(log, 0, producer_id=2, transactional=True)
    assert log.producers.remove_expired(NOW_MS + 999, 1000) == 0
    assert log.producers.remove_expired(NOW_MS + 1000, 1000) == 1
    assert list(log.producers.producers) == [2]


def test_a_transaction_holds_the_last_stable_offset_until_it_ends(log: PartitionLog) -> None:
    produce(log, 0, producer_id=1)
    produce(log, 0, producer_id=2, transactional=True)
    produce(log, 1, producer_id=1)
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    end_transaction(log, 2, 0, commit=True)
    assert log.last_stable_offset == log.high_watermark == 4


def test_the_last_stable_offset_waits_for_the_markers_replication(log: PartitionLog) -> None:
    produce(log, 0, transactional=True)
    log.append_as_leader(marker(7, 0, commit=True), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.maybe_advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_the_oldest_open_transaction_decides(log: PartitionLog) -> None:
    for producer_id in (1, 2, 3):
        produce(log, 0, producer_id=producer_id, transactional=True)
    end_transaction(log, 2, 0, commit=True)
    assert log.last_stable_offset == 0
    end_transaction(log, 1, 0, commit=False)
    assert log.last_stable_offset == 2
    end_transaction(log, 3, 0, commit=True)
    assert log.last_stable_offset == 6


def test_committed_readers_receive_the_aborted_transactions_of_their_fetch(log: PartitionLog) -> None:
    produce(log, 0, b"a", b"b", producer_id=1, transactional=True)
    produce(log, 0, producer_id=2, transactional=True)
    end_transaction(log, 1, 0, commit=False)
    end_transaction(log, 2, 0, commit=True)
    fetched = log.read(0, 1 << 20, max_offset=log.last_stable_offset, committed_only=True)
    assert fetched.aborted_transactions == [AbortedTransaction(1, 0, 3, 2)]
    assert log.read(0, 1 << 20).aborted_transactions is None
    assert log.read(4, 1 << 20, committed_only=True).aborted_transactions == []
    assert log.read(5, 1 << 20, committed_only=True).aborted_transactions == []


def test_aborted_transactions_are_found_across_segments_and_restarts(tmp_path: Path) -> None:
    settings = config(segment_bytes=500)
    log = new_log(tmp_path / "log", settings)
    for round_ in range(10):
        produce(log, 2 * round_, producer_id=1, transactional=True)
        produce(log, round_, producer_id=9)
        produce(log, 2 * round_ + 1, producer_id=1, transactional=True)
        end_transaction(log, 1, 0, commit=round_ % 2 == 0)
    assert len(log.segments) > 3
    expected = [(1, 4 * round_, 4 * round_ + 3) for round_ in range(1, 10, 2)]
    recovered, _ = reload(killed(log, tmp_path / "copy"), settings)
    for found in (log, recovered):
        transactions = [
            transaction[:3] for segment in found.segments for transaction in segment.transaction_index.transactions
        ]
        assert transactions == expected
        assert found.last_stable_offset == 40


def test_recovery_rebuilds_the_transaction_index_of_the_last_segment(log: PartitionLog, tmp_path: Path) -> None:
    produce(log, 0, transactional=True)
    end_transaction(log, 7, 0, commit=False)
    copy = killed(log, tmp_path / "copy")
    (copy / "00000000000000000000.txnindex").unlink()
    recovered, _ = reload(copy)
    assert recovered.active_segment.transaction_index.transactions == [AbortedTransaction(7, 0, 1, 2)]


def test_an_open_transaction_survives_a_restart(log: PartitionLog, tmp_path: Path) -> None:
    produce(log, 0, b"a")
    produce(log, 0, b"b", producer_id=8, transactional=True)
    log.close(NOW_MS)
    restarted, _ = reload(log.directory, is_clean=True)
    assert restarted.last_stable_offset == 1
    end_transaction(restarted, 8, 0, commit=True)
    assert restarted.last_stable_offset == 3


def test_plain_records_are_refused_inside_a_transaction(log: PartitionLog) -> None:
    produce(log, 0, transactional=True)
    assert refusal(log, 1) == ErrorCode.INVALID_TXN_STATE


def test_markers_of_old_producers_and_old_coordinators_are_fenced(log: PartitionLog) -> None:
    produce(log, 0, epoch=2, transactional=True)
    with pytest.raises(ApiException) as caught:
        end_transaction(log, 7, 1, commit=True)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_as_leader(
        marker(7, 2, commit=True, coordinator_epoch=5),
        leader_epoch=0,
        now_ms=NOW_MS,
        origin=AppendOrigin.COORDINATOR,
    )
    with pytest.raises(ApiException) as caught:
        end_transaction(log, 7, 2, commit=True)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_with_a_new_epoch_restarts_the_producer_at_zero(log: PartitionLog) -> None:
    produce(log, 0, transactional=True)
    end_transaction(log, 7, 1, commit=True)
    assert refusal(log, 1, epoch=1, transactional=True) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, epoch=1, transactional=True) == (2, 2, False)


def test_truncation_forgets_the_state_of_removed_batches(log: PartitionLog) -> None:
    produce(log, 0)
    produce(log, 0, producer_id=8, transactional=True)
    end_transaction(log, 8, 0, commit=False)
    log.truncate_to(1, now_ms=NOW_MS)
    assert log.last_stable_offset == log.log_end_offset == 1
    assert list(log.producers.producers) == [7]
    assert log.active_segment.transaction_index.transactions == []
    assert produce(log, 1) == (1, 1, False)


def test_a_snapshot_has_the_bytes_that_kafka_writes(tmp_path: Path) -> None:
    """Recorded from a real broker: the producer's only batch was followed by a marker of the next epoch."""
    log = new_log(tmp_path)
    produce(log, 0, b"v", producer_id=0, transactional=True)
    log.append_as_leader(
        marker(0, 1, commit=True, timestamp=0x1A1FDDEDD0A),
        leader_epoch=0,
        now_ms=0x1A1FDDEDD0A,
        origin=AppendOrigin.COORDINATOR,
    )
    log.close(NOW_MS)
    path = Path(log.directory, "00000000000000000002.snapshot")
    assert path.read_bytes() == bytes.fromhex(
        "0001 7b5f55bc 00000001 0000000000000000 0001 ffffffff ffffffffffffffff 00000000"
        "000001a1fddedd0a 00000000 ffffffffffffffff"
    )
    assert read_snapshot(str(path))[0].epoch == 1


def test_the_state_and_its_snapshot_agree() -> None:
    state = ProducerState()
    for producer_id, offset in ((5, 10), (6, 11), (4, 12)):
        state.append_data_batch(
            producer_id, 1, 0, last_offset=offset, offset_delta=0, timestamp=NOW_MS, is_transactional=True
        )
    again = ProducerState.from_snapshot(state.to_snapshot())
    assert again.first_unstable_offset == state.first_unstable_offset == 10
    assert again.ongoing_transactions == state.ongoing_transactions
    assert again.to_snapshot() == state.to_snapshot()


def test_records_of_all_producers_are_in_the_log(log: PartitionLog) -> None:
    produce(log, 0, b"a")
    produce(log, 0, b"b", producer_id=8)
    produce(log, 0, b"a")
    assert offsets_and_values(log) == [(0, b"a"), (1, b"b")]
