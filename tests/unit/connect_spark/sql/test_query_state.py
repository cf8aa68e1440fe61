"""Which state a query may continue with, and what is said of one that it may not."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.positions.checkpoints import CheckpointState
from barnabas.connect_spark.sql.query_state import changes, refuse_changes, refuse_unusable

FACTS: dict[str, Any] = {
    "sources": ["orders"],
    "operators": [{"kind": "aggregation", "keys": ["shop: string"], "aggregates": ["sum(amount): bigint of int"]}],
    "watermarks": ["at 10 minutes"],
    "filters": ["amount > 0"],
    "partitions": 2,
}


def state(planned: int | None, finished: int | None) -> CheckpointState:
    return CheckpointState(None, 0, planned, finished, {})


@pytest.mark.parametrize(
    ("planned", "finished", "delivered"),
    [(None, None, -1), (0, None, -1), (0, None, 0), (0, 0, 0), (5, 5, 5), (6, 5, 5), (6, 5, 6)],
)
def test_a_batch_is_delivered_once_whatever_step_the_crash_came_after(
    planned: int | None, finished: int | None, delivered: int
) -> None:
    refuse_unusable(state(planned, finished), delivered, "/state")


@pytest.mark.parametrize(
    ("planned", "finished", "delivered"),
    [(None, None, 0), (5, 5, 6), (5, 5, 7), (5, 5, 4), (6, 5, 4), (6, 5, 7), (3, 1, 2)],
)
def test_a_state_that_is_behind_or_ahead_is_refused(planned: int | None, finished: int | None, delivered: int) -> None:
    with pytest.raises(TerminalError, match="older copy"):
        refuse_unusable(state(planned, finished), delivered, "/state")


def test_a_missing_state_is_refused_with_what_to_do() -> None:
    with pytest.raises(TerminalError, match=r"was in /state, and is not there.*state\.location.*reset all"):
        refuse_unusable(None, 3, "/state")


def test_conditions_may_change() -> None:
    assert changes(FACTS, {**FACTS, "filters": []}) == []
    refuse_changes(FACTS, {**FACTS, "filters": []})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"partitions": 3}, "shuffle.partitions: 2 became 3"),
        ({"watermarks": ["at 1 hours"]}, "watermarks: at 10 minutes became at 1 hours"),
        ({"sources": ["orders", "shops"]}, "in the order of the query: orders became orders, shops"),
        ({"operators": []}, "what has state: it was aggregation, and is nothing"),
        (
            {"operators": [{**FACTS["operators"][0], "keys": ["day: date"]}]},
            "the keys of the aggregation: shop: string became day: date",
        ),
        ({"operators": [{"kind": "limit"}]}, "the kind of the aggregation: aggregation became limit"),
    ],
)
def test_a_changed_query_is_refused_and_told_what_has_changed(change: dict[str, Any], text: str) -> None:
    assert any(text in found for found in changes(FACTS, {**FACTS, **change}))
    with pytest.raises(TerminalError, match="no longer fits the state"):
        refuse_changes(FACTS, {**FACTS, **change})
