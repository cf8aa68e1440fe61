"""Secrets are hidden; names of classes that contain a secret's letters stay readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.redaction import without
from barnabas.connect.run.known_secrets import KnownSecrets, hide_secrets
from barnabas.connect_spark.queries.failure_trace import failure_trace

TRACE = (
    "org.apache.kafka.common.errors.TimeoutException: no answer\n"
    "\tat org.postgresql.Driver.connect(Driver.java:1)\n"
    '  File "/usr/lib/python3/site-packages/pyspark/sql.py", line 7, in run\n'
    "barnabas.connect_spark.connectors.kafka:KafkaSink"
)


@pytest.mark.parametrize("secret", ["kafka", "postgres", "spark", "apache", "Timeout", "Kafka", "connect_spark"])
def test_names_of_classes_stay(secret: str) -> None:
    assert without(TRACE, [secret]) == TRACE
    assert without(f"{TRACE} with password={secret}", [secret]) == f"{TRACE} with password=[hidden]"


@pytest.mark.parametrize(
    "text",
    [
        "kafka",
        "user:kafka@db.example.com",
        "jdbc:x://org:kafka@host",
        "x org.kafka@host kafka",
        "\\nkafka",
        "prefixkafkasuffix",
        "password=kafka.",
        "https://kafka.example.com",
        "Basic kafka",
    ],
)
def test_other_occurrences_are_hidden(text: str) -> None:
    hidden = without(f"{text}; {TRACE}", ["kafka"])
    assert hidden.startswith(text.replace("kafka", "[hidden]"))


def test_a_secret_that_looks_like_a_class_is_hidden() -> None:
    assert without("login with org.x.Secret", ["org.x.Secret"]) == "login with [hidden]"
    assert without("login with org.x.Secret.more", ["org.x.Secret"]) == "login with [hidden].more"


@given(st.text(), st.text(alphabet="abc[]hiden.\0 ", min_size=1, max_size=6), st.text())
def test_a_secret_outside_of_names_never_stays(before: str, secret: str, after: str) -> None:
    marked = f"{before} <{secret}> {after}"
    assert f"<{secret}>" not in without(marked, [secret])


def test_a_trace_of_a_task_names_its_classes() -> None:
    error = RuntimeError("org.apache.kafka.common.KafkaException: login with kafka failed")
    trace = failure_trace(error, {"connection.password": "kafka"})
    assert trace.startswith("org.apache.kafka.common.KafkaException: login with [hidden] failed")


def test_a_class_that_a_provider_gives_is_not_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECTOR", "FileStreamSink")
    monkeypatch.setenv("PASSWORD", "hunter22")
    providers = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    providers["config.providers.env.class"] = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    secrets = KnownSecrets(ConfigProviders(providers))
    raw = {"connector.class": "${env:CONNECTOR}", "transforms.a.type": "${env:CONNECTOR}", "x": "${env:PASSWORD}"}
    resolved = secrets.resolve(raw)
    assert list(resolved) == list(raw)
    text = "FileStreamSink failed with hunter22"
    assert secrets.hide(text) == hide_secrets(text, raw, resolved) == "FileStreamSink failed with [hidden]"
