"""No module imports itself in the end, not even by imports inside functions."""

from __future__ import annotations

from tests.contracts.import_graph import circles, run_time_graph

KNOWN: list[set[str]] = [
    {"barnabas.connect_spark.connectors.jdbc.database", "barnabas.connect_spark.connectors.jdbc.database_driver"},
    {
        "barnabas.server.controller.policy_worker",
        "barnabas.server.listeners.security",
        "barnabas.server.node_identity",
        "barnabas.server.settings.listener_rules",
        "barnabas.server.settings.node_config",
        "barnabas.server.settings.node_rules",
        "barnabas.server.settings.sasl",
        "barnabas.server.settings.tls",
        "barnabas.server.storage_tool.formatter",
    },
]
"""Circles that are still to be opened. The list gets no new rows."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = circles(run_time_graph())
    assert [circle for circle in found if not any(known.issuperset(circle) for known in KNOWN)] == []


def test_a_circle_is_found() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": ["a"], "d": [], "e": ["d", "f"], "f": ["e"]}
    assert circles(graph) == [["a", "b", "c"], ["e", "f"]]
