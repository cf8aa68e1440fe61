"""The check of epochs and owners against stories of what coordinators described."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.history.epochs_check import Description, EpochsCheck
from tests.history.violations import Broken, Violation

FIRST = Description("group", 0.0, 1.0, 3, 3, {"a": 3}, {"a": frozenset({"0", "1"})})
SECOND = Description("group", 2.0, 3.0, 4, 3, {"a": 3, "b": 3}, {"a": frozenset({"0"}), "b": frozenset()})
THIRD = Description("group", 4.0, 5.0, 4, 4, {"a": 4, "b": 4}, {"a": frozenset({"0"}), "b": frozenset({"1"})})
HONEST = (FIRST, SECOND, THIRD)


def found(*descriptions: Description, may_be_stale: bool = False) -> list[Violation]:
    check = EpochsCheck(may_be_stale=may_be_stale)
    for description in descriptions:
        check.described(description)
    return check.violations()


def test_a_group_that_goes_on_violates_nothing() -> None:
    assert found(*HONEST) == []
    assert found(*reversed(HONEST)) == [], "the order in which they are reported does not matter"


def test_descriptions_that_overlap_may_be_told_in_either_order() -> None:
    assert found(FIRST, replace(THIRD, ended_s=9.0), replace(SECOND, began_s=4.5, ended_s=6.0)) == []


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ({"group_epoch": 3, "epochs": {}, "assignment_epoch": 3}, "group epoch 3 after 4, assignment epoch 3 after 4"),
        ({"group_epoch": 1, "assignment_epoch": 0, "epochs": {}}, "group epoch 1 after 4, assignment epoch 0 after 4"),
        ({"assignment_epoch": 3}, "assignment epoch 3 after 4"),
        ({"epochs": {"b": 4, "a": 2}}, "epoch of a 2 after 4"),
    ],
)
def test_an_epoch_that_goes_back_is_reported(lie: dict[str, object], message: str) -> None:
    later = replace(THIRD, began_s=6.0, ended_s=7.0, **lie)  # type: ignore[arg-type]
    [violation] = found(*HONEST, later)
    assert violation.broken is Broken.EPOCH_WENT_BACK
    assert violation.what == f"group at 6.0 to 7.0 s: {message}"


def test_an_old_state_of_kafkas_coordinator_is_counted_but_not_in_the_end() -> None:
    stale = replace(FIRST, began_s=6.0, ended_s=7.0)
    fresh = replace(THIRD, began_s=8.0, ended_s=9.0)
    assert found(*HONEST, stale, fresh, may_be_stale=True) == []
    assert [violation.broken for violation in found(*HONEST, stale, may_be_stale=True)] == [Broken.EPOCH_WENT_BACK]


@pytest.mark.parametrize("may_be_stale", [False, True])
def test_two_owners_in_one_description_are_reported(may_be_stale: bool) -> None:
    both = replace(THIRD, owned={"a": frozenset({"0", "1"}), "b": frozenset({"1"})})
    [violation] = found(FIRST, both, may_be_stale=may_be_stale)
    assert str(violation).endswith("group at 4.0 to 5.0 s: 1 of a and b")
    assert violation.broken is Broken.TWO_OWNERS


@pytest.mark.parametrize("lie", [{"assignment_epoch": 5}, {"epochs": {"b": 5}}])
def test_an_epoch_ahead_of_the_groups_is_reported(lie: dict[str, object]) -> None:
    [violation] = found(replace(THIRD, **lie))  # type: ignore[arg-type]
    assert violation.broken is Broken.EPOCH_WENT_BACK
    assert "group epoch 4, but" in violation.what


def test_a_static_member_that_has_left_has_no_epoch() -> None:
    assert found(*HONEST, replace(THIRD, began_s=6.0, ended_s=7.0, epochs={"a": -2})) == []


def test_groups_are_judged_apart() -> None:
    assert found(*HONEST, replace(FIRST, group="other", began_s=6.0, ended_s=7.0)) == []
