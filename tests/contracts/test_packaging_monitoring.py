"""Alert rules and dashboards are well formed. ``tests/interop/test_monitoring.py`` compares them with what runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from tests.contracts.monitoring_files import (
    ALERTS,
    DASHBOARDS,
    OF_PROMETHEUS,
    Expression,
    alert_rules,
    dashboard,
    expressions,
    panels,
)
from tests.docs.tracked import PROJECT

WIDTH = 24
NAMES = [path.name for path in DASHBOARDS]


@pytest.mark.parametrize("expression", list(expressions()), ids=lambda expression: expression.where)
def test_every_expression_parses_and_names_a_metric(expression: Expression) -> None:
    assert [metric.name for metric in expression.metrics]


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_a_rule_has_what_an_operator_needs(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}
    assert not rule["annotations"]["summary"].endswith(".")
    promql.parse_duration(rule.get("for", "1m"))
    used = {label for metric in Expression(rule["alert"], rule["expr"]).metrics for label in metric.labels}
    shown = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    if " by (" in rule["expr"]:
        assert shown <= used, "the result of the expression does not have this label"


def test_names_of_rules_are_unique_and_begin_alike() -> None:
    names = [rule["alert"] for rule in alert_rules()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("Barnabas") for name in names)
    groups = [group["name"] for group in yaml.safe_load(ALERTS.read_text())["groups"]]
    assert groups == ["barnabas-nodes", "barnabas-workers", "barnabas-pipelines"]


def test_every_command_in_a_description_exists() -> None:
    reference = (PROJECT / "docs" / "reference" / "cli.md").read_text()
    texts = " ".join(rule["annotations"]["description"] for rule in alert_rules())
    commands = re.findall(r"`barnabas ([^`]*)`", texts)
    assert commands
    for command in commands:
        words = [word for word in command.split() if not word.startswith(("{", "$", "}"))]
        verb = [word for word in words if not word.startswith("-")]
        assert f"barnabas {' '.join(verb)}" in reference, command
        assert all(word in reference for word in words if word.startswith("--")), command


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_is_complete(name: str) -> None:
    found = dashboard(name)
    assert (found["uid"], found["tags"]) == (Path(name).stem, ["barnabas"])
    numbers = [panel["id"] for panel in found["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in panels(name):
        assert panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("name", NAMES)
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard(name)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_uses_its_variables_and_no_others(name: str) -> None:
    variables = {variable["name"] for variable in dashboard(name)["templating"]["list"]}
    text = json.dumps(panels(name))
    used = set(re.findall(r"\$\{?(\w+)\}?", text)) - {"__rate_interval", "__all"}
    assert used == variables


@pytest.mark.parametrize("name", NAMES)
def test_a_legend_names_labels_of_the_result(name: str) -> None:
    for panel in panels(name):
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            grouped = re.match(r"(?:sum|max|min|avg|count) by \(([^)]*)\)", target["expr"])
            if grouped is not None:
                assert labels <= set(grouped[1].split(", ")), panel["title"]
            elif target["expr"].startswith(("sum(", "max(", "min(", "count(", "histogram_quantile(")):
                assert labels == set(), panel["title"]
            else:
                assert labels <= OF_PROMETHEUS, panel["title"]
