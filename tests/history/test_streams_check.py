"""The check of a streams application finds each mistake that is put into a correct output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.history.payload import Spoilt
from tests.history.streams_check import Counted, check_streams, decode_counted
from tests.history.violations import Broken

PLACES = [(partition, offset) for partition in range(2) for offset in range(6)]
Outputs = dict[int, list[Counted]]


def honest() -> Outputs:
    """The task of partition 0 moved twice, and came back to the same instance in a new life."""
    lives = ("a/1", "a/1", "b/1", "b/1", "a/2", "a/2")
    outputs: Outputs = {0: [], 1: []}
    for partition, offset in PLACES:
        outputs[partition].append(Counted(lives[offset] if partition == 0 else "b/2", offset + 1, partition, offset))
    return outputs


def lose_a_record(outputs: Outputs) -> None:
    outputs[0].pop()


def lose_a_partition(outputs: Outputs) -> None:
    del outputs[1]


def write_a_record_twice(outputs: Outputs) -> None:
    outputs[1].append(replace(outputs[1][-1], count=7))


def swap_two_records(outputs: Outputs) -> None:
    first, second = outputs[1][2:4]
    outputs[1][2:4] = replace(second, count=first.count), replace(first, count=second.count)


def invent_a_record(outputs: Outputs) -> None:
    outputs[1].append(Counted("b/2", 7, 1, 6))


def write_to_another_partition(outputs: Outputs) -> None:
    outputs[1].append(replace(outputs[0][-1], life="b/2", count=7))


def lose_the_state(outputs: Outputs) -> None:
    outputs[0][4:] = [replace(counted, count=counted.count - 4) for counted in outputs[0][4:]]


def restore_an_older_state(outputs: Outputs) -> None:
    outputs[0][2:] = [replace(counted, count=counted.count - 1) for counted in outputs[0][2:]]


def count_an_aborted_record(outputs: Outputs) -> None:
    outputs[0][2:] = [replace(counted, count=counted.count + 1) for counted in outputs[0][2:]]


def write_after_another_member_has_taken_over(outputs: Outputs) -> None:
    outputs[0][3] = replace(outputs[0][3], life="a/1")


MISTAKES = (
    (lose_a_record, Broken.LOST),
    (lose_a_partition, Broken.LOST),
    (write_a_record_twice, Broken.DOUBLED),
    (swap_two_records, Broken.REORDERED),
    (invent_a_record, Broken.NEVER_SENT),
    (write_to_another_partition, Broken.NEVER_SENT),
    (lose_the_state, Broken.MISCOUNTED),
    (restore_an_older_state, Broken.MISCOUNTED),
    (count_an_aborted_record, Broken.MISCOUNTED),
    (write_after_another_member_has_taken_over, Broken.TWO_OWNERS),
)


def test_a_correct_output_has_no_violations() -> None:
    assert check_streams(honest(), PLACES) == []


@pytest.mark.parametrize(("falsify", "broken"), MISTAKES, ids=lambda part: getattr(part, "__name__", None))
def test_each_mistake_is_found(falsify: Callable[[Outputs], None], broken: Broken) -> None:
    outputs = honest()
    falsify(outputs)
    assert {violation.broken for violation in check_streams(outputs, PLACES)} == {broken}


def test_a_value_is_read_back() -> None:
    assert decode_counted(b"a/1 7 0 6") == Counted("a/1", 7, 0, 6)


@pytest.mark.parametrize("value", [b"", b"a 1 2", b"a 1 2 x", b"\xff 1 2 3"])
def test_another_value_is_spoilt(value: bytes) -> None:
    with pytest.raises(Spoilt):
        decode_counted(value)
