"""The check of owners against stories of members, with and without mistakes."""

from __future__ import annotations

import pytest

from tests.history.owners_check import OwnersCheck, Ownership
from tests.history.violations import Broken


def owns(check: OwnersCheck, member: str, from_s: float, *commits_s: float, partition: int = 0) -> Ownership:
    ownership = check.assigned("group", partition, member, from_s)
    for asked_s in commits_s:
        ownership.commits(asked_s)
    return ownership


def test_owners_follow_each_other() -> None:
    check = OwnersCheck()
    owns(check, "a", 1, 2, 5)
    owns(check, "b", 5, 6)
    owns(check, "a", 7, 8)
    owns(check, "c", 1, 9, partition=1)
    assert check.violations() == []
    assert check.count_proven == 4


def test_a_member_that_does_not_know_of_its_loss_violates_nothing() -> None:
    check = OwnersCheck()
    owns(check, "cut off", 1, 3)  # Its later commits are refused.
    owns(check, "b", 4, 9)
    owns(check, "late", 4)  # An assignment that arrived when it had ended.
    assert check.violations() == []


@pytest.mark.parametrize("others_s", [(4.0, 6.0), (4.0, 4.5), (0.5, 1.5), (0.5, 9.0)])
def test_two_owners_at_once_are_reported(others_s: tuple[float, float]) -> None:
    check = OwnersCheck()
    owns(check, "a", 1, 5)
    owns(check, "b", *others_s)
    [violation] = check.violations()
    assert violation.broken is Broken.TWO_OWNERS
    assert "partition 0 of group" in violation.what


def test_a_commit_that_was_requested_earlier_proves_no_less() -> None:
    check = OwnersCheck()
    owns(check, "a", 1, 5, 3)
    owns(check, "b", 4, 6)
    assert len(check.violations()) == 1


def test_an_owner_between_two_others_is_reported_with_the_longer_one() -> None:
    check = OwnersCheck()
    owns(check, "a", 1, 9)
    owns(check, "a", 2, 3)
    owns(check, "b", 4, 5)
    assert len(check.violations()) == 1


def test_the_same_member_may_be_assigned_a_partition_again() -> None:
    check = OwnersCheck()
    owns(check, "a", 1, 5)
    owns(check, "a", 4, 6)
    assert check.violations() == []
