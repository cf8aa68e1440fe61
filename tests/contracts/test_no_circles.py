"""No module imports itself indirectly, not even by imports inside functions."""

from __future__ import annotations

from tests.contracts.import_graph import circles, run_time_graph


def test_modules_have_no_import_cycles() -> None:
    assert circles(run_time_graph()) == []


def test_an_import_cycle_is_found() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": [], "e": ["d", "f"], "f": ["e"]}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]
