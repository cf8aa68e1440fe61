"""No module imports itself in the end, not even by imports inside functions."""

from __future__ import annotations

from tests.contracts.import_graph import circles, run_time_graph


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(run_time_graph()) == []


def test_a_circle_is_found() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": [], "e": ["d", "f"], "f": ["e"]}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]
