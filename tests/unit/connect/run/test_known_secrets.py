from __future__ import annotations

import asyncio
import logging

import pytest

from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.decide.tasks.task_progress import QueryPlan, TaskProgress
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.run.known_secrets import (
    InsightWithoutSecrets,
    KnownSecrets,
    LinesWithoutSecrets,
    hide_secrets,
    trace_of,
)

PROVIDERS = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> KnownSecrets:
    monkeypatch.setenv("PASSWORD", 'hunter"2 ')
    monkeypatch.setenv("COUNT", "1")
    secrets = KnownSecrets(ConfigProviders(PROVIDERS))
    config = {"url": "db://u:${env:PASSWORD}@host", "tasks.max": "${env:COUNT}", "topic": "orders", "none": None}
    assert secrets.resolve(config) == {"url": 'db://u:hunter"2 @host', "tasks.max": "1", "topic": "orders"}
    return secrets


def test_resolved_references_are_hidden_and_literal_values_are_shown() -> None:
    raw = {"password": "${env:PASSWORD}", "topic": "orders", "empty": "${env:NOTHING}"}
    resolved = {"password": "hunter2", "topic": "orders", "empty": ""}
    text = hide_secrets("login with hunter2 to read orders", raw, resolved)
    assert text == "login with [hidden] to read orders"


def test_only_the_secret_inside_a_setting_is_hidden_without_surrounding_blanks(known: KnownSecrets) -> None:
    assert known.hide('user u, password hunter"2, topic orders-1') == "user u, password [hidden], topic orders-1"


@pytest.mark.parametrize("formatter", [logging.Formatter("%(message)s"), logging.Formatter('{"m": "%(message)s"}')])
def test_secrets_are_hidden_in_the_log(known: KnownSecrets, formatter: logging.Formatter) -> None:
    lines = LinesWithoutSecrets(formatter, known.hide)
    try:
        raise ValueError('refused: hunter"2')
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("py4j", logging.ERROR, "", 0, 'hunter\\"2 of %s', ("orders",), info)
    logged = lines.format(record)
    assert "hunter" not in logged
    assert logged.count("[hidden]") >= 2


def test_secrets_are_hidden_in_a_plan(known: KnownSecrets) -> None:
    class Insight:
        def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
            return None

        async def query_plan(self, task: ConnectorTaskId) -> QueryPlan | None:
            return QueryPlan('Scan hunter"2', '{"at": "hunter\\"2"}', None)

    plan = asyncio.run(InsightWithoutSecrets(Insight(), known.hide).query_plan(ConnectorTaskId("a", 0)))
    assert plan == QueryPlan("Scan [hidden]", '{"at": "[hidden]"}', None)


def test_a_trace_names_the_error_and_its_cause() -> None:
    try:
        try:
            raise ValueError("the cause")
        except ValueError as error:
            raise RuntimeError("the error") from error
    except RuntimeError as error:
        trace = trace_of(error)
    assert trace.index("the cause") < trace.index("the error")
