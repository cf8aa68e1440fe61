"""Committed offsets and configs: what a read may return while writes overlap it or are lost, and what is a
violation."""

from __future__ import annotations

import random

import pytest

from tests.history.groups_check import GroupsCheck
from tests.history.register_check import Read, RegisterCheck, Write
from tests.history.violations import Broken


def judged(*events: Write | Read) -> list[Broken]:
    check = RegisterCheck("r", initial=0)
    for event in events:
        if isinstance(event, Write):
            check.wrote(event)
        else:
            check.read(event)
    return [violation.broken for violation in check.violations()]


@pytest.mark.parametrize(
    "events",
    [
        [Read(0, 1, 2)],
        [Write(5, 1, 2), Read(5, 3, 4)],
        [Write(5, 1, 4), Read(0, 2, 3), Read(5, 2, 3)],  # They overlap: either value is legal.
        [Write(5, 1), Read(0, 7, 8)],  # Unanswered: it may never take effect ...
        [Write(5, 1), Read(5, 7, 8)],  # ... or late,
        [Write(5, 1), Write(9, 2, 3), Read(9, 4, 5), Read(5, 6, 7)],  # even after a newer acknowledged one.
        [Write(5, 1, 2), Write(9, 1, 2), Read(5, 3, 4)],  # Two concurrent writes: either is the newer one.
        [Write(5, 1, 2), Write(9, 3, 4), Write(5, 5, 6), Read(5, 7, 8)],  # Written again.
        [Write(5, 1, 6), Read(5, 2, 3), Read(5, 7, 8)],
        [Write(5, 1, 2), Read(5, 2, 3)],
    ],
)
def test_a_read_of_an_overlapping_or_newest_write_is_legal(events: list[Write | Read]) -> None:
    assert judged(*events) == []


@pytest.mark.parametrize(
    ("events", "broken"),
    [
        ([Read(7, 1, 2)], Broken.UNKNOWN_VALUE),
        ([Read(7, 1, 2), Write(7, 3, 4)], Broken.UNKNOWN_VALUE),  # Read before it was written.
        ([Write(5, 1, 2), Read(0, 3, 4)], Broken.WENT_BACK),
        ([Write(5, 1, 2), Write(9, 3, 4), Read(5, 5, 6)], Broken.WENT_BACK),
        ([Write(5, 1, 2), Write(9, 3), Read(9, 5, 6), Read(5, 7, 8)], Broken.WENT_BACK),  # The first read proved the 9.
        ([Write(5, 1, 2), Write(9, 3, 8), Read(9, 4, 5), Read(5, 6, 7)], Broken.WENT_BACK),
    ],
)
def test_a_read_that_no_write_explains_is_a_violation(events: list[Write | Read], broken: Broken) -> None:
    assert judged(*events) == [broken]


@pytest.mark.parametrize("seed", range(30))
def test_a_correct_register_passes_and_a_stale_read_fails(seed: int) -> None:
    """Writes and reads overlap, take effect at one moment in between, or lose their answer."""
    rng = random.Random(seed)
    effects: list[tuple[float, Write]] = []
    for value in range(1, 30):
        began = rng.uniform(0, 100)
        effect, ended = began + rng.uniform(0, 9), began + 9 + rng.uniform(0, 3)
        is_lost = rng.random() < 0.2
        effects.append((effect, Write(value, began) if is_lost else Write(value, began, ended)))
    events: list[Write | Read] = [write for _, write in effects]
    for _ in range(50):
        began = rng.uniform(0, 120)
        moment = began + rng.uniform(0, 2)
        newest = max((entry for entry in effects if entry[0] <= moment), key=lambda entry: entry[0], default=None)
        events.append(Read(0 if newest is None else newest[1].value, began, moment + rng.uniform(0, 2)))
    assert judged(*events) == []
    assert judged(*events, Read(0, 130, 131)) == [Broken.WENT_BACK]


def test_a_pending_write_may_be_read_and_counts_once_acknowledged() -> None:
    check = RegisterCheck("r", initial=0)
    number = check.wrote(Write(5, 1))
    check.read(Read(5, 2, 3))
    check.read(Read(0, 2, 3))
    assert check.violations() == []
    check.answered(number, 4)
    check.read(Read(0, 5, 6))
    assert [violation.broken for violation in check.violations()] == [Broken.WENT_BACK]


def test_a_group_commits_only_what_its_members_received() -> None:
    check = GroupsCheck()
    for offset in (0, 1, 3):
        check.given("g", 0, offset)
    check.committed("g", 0, Write(4, 1, 2))
    check.final("g", 0, Read(4, 3, 4))
    assert [violation.broken for violation in check.violations()] == [Broken.SKIPPED]
    check.given("g", 0, 2)
    assert check.violations() == []


def test_every_group_and_partition_is_a_separate_register() -> None:
    check = GroupsCheck()
    check.committed("g", 0, Write(4, 1, 2))
    check.fetched("g", 1, Read(0, 3, 4))
    check.fetched("h", 0, Read(0, 3, 4))
    assert check.violations() == []
    check.fetched("g", 0, Read(0, 3, 4, "a member"))
    (found,) = check.violations()
    assert str(found).startswith("WENT_BACK (a committed offset that is older than an acknowledged one): ")
    assert found.what.startswith("the committed offset of g in partition 0: a member returned 0, although")
