"""Reads the alert rules and dashboards of ``packaging/monitoring``, and the metrics and labels in their expressions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import promql_parser as promql
import yaml

from tests.docs.tracked import PROJECT

__all__ = ["ALERTS", "DASHBOARDS", "Expression", "UsedMetric", "alert_rules", "dashboard", "expressions", "panels"]

MONITORING = PROJECT / "packaging" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
DASHBOARDS = sorted(MONITORING.glob("*.json"))

_VARIABLES = {"$__rate_interval": "5m", "$datasource": "prometheus"}
OF_PROMETHEUS = frozenset({"job", "instance"})
"""The labels that Prometheus adds to each metric of a target."""


@dataclass
class UsedMetric:
    """A metric in an expression, with the labels that the expression needs of it."""

    name: str
    labels: set[str] = field(default_factory=set)


@dataclass
class Expression:
    where: str
    text: str

    @property
    def metrics(self) -> list[UsedMetric]:
        """Parse it. Raise ValueError for an invalid one."""
        text = self.text
        for variable, value in _VARIABLES.items():
            text = text.replace(variable, value)
        return list(_metrics(promql.parse(text), frozenset()))


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MONITORING / name).read_text())
    return found


def panels(name: str) -> list[dict[str, Any]]:
    """Return the panels of a dashboard, without the titles of rows."""
    return [panel for panel in dashboard(name)["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[Expression]:
    """Yield all expressions, those of the variables of dashboards too."""
    for rule in alert_rules():
        yield Expression(f"{ALERTS.name}: {rule['alert']}", rule["expr"])
    for path in DASHBOARDS:
        for panel in panels(path.name):
            for target in panel["targets"]:
                yield Expression(f"{path.name}: {panel['title']}", target["expr"])
        for variable in dashboard(path.name)["templating"]["list"]:
            if variable["type"] == "query":
                inner, _, label = variable["definition"].removeprefix("label_values(").rpartition(", ")
                yield Expression(f"{path.name}: variable {variable['name']}", f"sum by ({label[:-1]}) ({inner})")


def _metrics(node: Any, labels: frozenset[str]) -> Iterator[UsedMetric]:
    """Yield the metrics below a node. ``labels`` are those by which something above it aggregates or matches."""
    if isinstance(node, promql.VectorSelector):
        matchers = {matcher.name for matcher in node.matchers.matchers}
        yield UsedMetric(str(node.name), set(labels) | matchers)
        return
    if isinstance(node, promql.AggregateExpr):
        by = frozenset(node.modifier.labels) if node.modifier is not None else labels
        yield from _metrics(node.expr, by)
        return
    if isinstance(node, promql.BinaryExpr):
        matching = node.modifier.matching if node.modifier is not None else None
        on = frozenset(matching.labels) if matching is not None else labels
        yield from _metrics(node.lhs, labels | on)
        yield from _metrics(node.rhs, on)
        return
    for inner in _inner(node):
        yield from _metrics(inner, labels)


def _inner(node: Any) -> list[Any]:
    if isinstance(node, promql.Call):
        return list(node.args)
    if isinstance(node, promql.MatrixSelector):
        return [node.vector_selector]
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        return [node.expr]
    return []
