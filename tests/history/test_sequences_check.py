"""The check of sequences against logs that show mistakes of a broker and of a client."""

from __future__ import annotations

import pytest

from tests.history.sequences_check import check_sequences, is_another_epoch
from tests.unit.storage.log_driver import batch as produced
from tests.unit.storage.log_driver import marker


def log(*written: tuple[int, int, int, int]) -> dict[int, bytes]:
    """Return a log of (producer id, epoch, first sequence, records), one batch after the other."""
    found, offset = dict[int, bytes](), 0
    for producer, epoch, sequence, count in written:
        values = [b"v"] * count
        data = produced(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        found[offset] = offset.to_bytes(8, "big") + data[8:]
        offset += count
    return found


HONEST = ((1, 0, 0, 2), (2, 0, 0, 1), (1, 0, 2, 3), (-1, -1, -1, 4), (1, 1, 0, 1), (2, 0, 1, 1), (1, 1, 1, 1))


def test_a_correct_log_has_no_violations() -> None:
    assert check_sequences("t-0", log(*HONEST)) == []


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ((1, 1, 1, 1), "epoch 1, sequence 1, where 2 of epoch 1 was next"),
        ((1, 1, 3, 1), "epoch 1, sequence 3, where 2 of epoch 1 was next"),
        ((1, 0, 5, 1), "epoch 0, sequence 5, where 2 of epoch 1 was next"),
        ((1, 2, 2, 1), "epoch 2, sequence 2, where 0 of epoch 1 was next"),
        ((3, 0, 7, 1), "epoch 0, sequence 7, where 0 of epoch -1 was next"),
    ],
)
def test_repeats_gaps_and_older_epochs_are_reported(lie: tuple[int, int, int, int], message: str) -> None:
    [violation] = check_sequences("t-0", log(*HONEST, lie))
    assert str(violation).endswith(f"t-0 at offset 13: producer {lie[0]} in {message}")


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    batches = log((1, 0, 0, 1), (1, 0, 1, 1))
    assert check_sequences("t-0", batches) == []
    top = (1 << 31) - 1
    found = check_sequences("t-0", log((1, 0, top, 1), (1, 0, 0, 1)))
    assert len(found) == 1, "only that it did not begin with 0"


def test_a_marker_may_begin_an_epoch_and_has_no_sequence() -> None:
    batches = log((1, 0, 0, 2), (1, 1, 0, 1))
    ended = marker(1, 1, commit=True)
    batches[3] = (3).to_bytes(8, "big") + ended[8:]
    batches |= {4 + offset: data for offset, data in log((1, 1, 1, 1)).items()}
    assert check_sequences("t-0", batches) == []
    fenced = marker(1, 2, commit=False)
    batches[3] = (3).to_bytes(8, "big") + fenced[8:]
    [violation] = check_sequences("t-0", batches)
    assert "epoch 1, sequence 1, where 0 of epoch 2 was next" in violation.what


def test_a_new_client_epoch_is_distinguished_from_a_repeating_broker() -> None:
    batches = log((1, 0, 0, 2), (1, 1, 0, 2), (1, 1, 0, 2), (2, 0, 0, 1))
    assert is_another_epoch(batches, 1, 2)
    assert not is_another_epoch(batches, 2, 5)
    assert is_another_epoch(batches, 2, 6)
    assert not is_another_epoch(batches, 2, 7), "no such batch exists"
