"""The check reports fencings and stalls that no fault explains, and excuses those that a fault explains."""

from __future__ import annotations

import pytest

from tests.history.hang_check import (
    EVERYTHING,
    Impairment,
    blindness,
    endless_stalls,
    unexplained_fencings,
    unexplained_stalls,
)
from tests.history.metadata_watch import Fencing
from tests.history.stall_probe import Stall

SESSION_S = 3.0
BROKERS = ("broker-1", "broker-2")


def fenced(broker_id: int, seen_s: float, *impairments: Impairment) -> int:
    fencings = [Fencing(broker_id, 10, 1, seen_s)]
    return len(unexplained_fencings(fencings, impairments, brokers=BROKERS, session_s=SESSION_S))


def stalled(from_s: float, to_s: float, *impairments: Impairment) -> int:
    return len(unexplained_stalls([Stall(0, from_s, to_s)], impairments, limit_s=SESSION_S + 1))


@pytest.mark.parametrize(
    ("impairment", "count"),
    [
        (Impairment(("broker-1",), 100, 105), 0),
        (Impairment(("broker-1",), 90, 99), 0),
        (Impairment(("broker-1", "controller-3001"), 100, 105), 0),
        (Impairment((EVERYTHING,), 100, 105), 0),
        (Impairment((), 100, 105), 1),
        (Impairment(("broker-1",), 80, 90), 1),
        (Impairment(("broker-2",), 100, 105), 1),
        (Impairment(("controller-3001",), 90, 105), 1),
    ],
)
def test_a_fencing_is_excused_only_by_a_fault_of_that_broker(impairment: Impairment, count: int) -> None:
    assert fenced(1, 103, impairment) == count


def test_only_the_named_brokers_are_judged() -> None:
    assert fenced(3, 103) == 0
    assert fenced(2, 103) == 1


def test_a_long_stall_needs_two_disturbed_nodes() -> None:
    first, second = Impairment(("broker-1",), 100, 120), Impairment(("broker-2",), 101, 102)
    assert stalled(100, 103.9, first) == 0, "as long as a session and a second"
    assert stalled(100, 104.1, first) == 1
    assert stalled(100, 104.1) == 1
    assert stalled(100, 110, first, second) == 0
    assert stalled(100, 110, first, Impairment(("replicas",), 100, 101)) == 0
    assert stalled(100, 110, Impairment((EVERYTHING,), 100, 101)) == 1
    assert stalled(100, 110, Impairment((EVERYTHING,), 100, 104), Impairment((EVERYTHING,), 103, 107)) == 0
    assert stalled(100, 110, Impairment((EVERYTHING,), 100, 103), Impairment((EVERYTHING,), 101, 103)) == 1
    assert stalled(100, 110, first, Impairment(("broker-2",), 50, 60)) == 1


def test_no_fault_excuses_a_stall_of_minutes() -> None:
    assert not endless_stalls([Stall(0, 100, 279)])
    assert len(endless_stalls([Stall(0, 100, 279), Stall(1, 100, 281)])) == 1


def test_a_run_with_a_long_standstill_of_the_proxy_fails() -> None:
    assert not blindness([])
    assert not blindness([(100, 110), (120, 135)])
    [violation] = blindness([(100, 110), (120, 140.5)])
    assert "the proxy stood still for 30 s in all, 20 s at a time" in str(violation)
