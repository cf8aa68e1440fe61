"""Levels of loggers by their own names, and by the names that Kafka's operators know."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from barnabas.common.errors import ApiException
from barnabas.metadata.config_operations import ConfigOperation, OpType
from barnabas.metadata.log_levels import alter_log_levels, log_levels
from barnabas.metadata.logger_aliases import LOGGER_ALIASES
from barnabas.security.principal import Principal

WHO = Principal("User", "operator")


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    names = {*LOGGER_ALIASES.values(), "barnabas"}
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def alter(name: str, level: str | None) -> None:
    operation = ConfigOperation(name, OpType.DELETE if level is None else OpType.SET, level)
    alter_log_levels([operation], who=WHO, validate_only=False)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        *LOGGER_ALIASES.items(),
        ("kafka.server.metadata.BrokerMetadataPublisher", "barnabas.server"),
        ("org.apache.kafka.raft.KafkaRaftClientDriver", "barnabas.server.quorum.raft_driver"),
        ("org.apache.kafka.common.network.Selector", "barnabas.network"),
        ("org.apache.kafka.storage.internals.log.TimeIndex", "barnabas.storage"),
    ],
)
def test_a_kafka_logger_name_is_an_alias_of_a_logger_here(name: str, ours: str) -> None:
    alter(name, "TRACE")
    assert logging.getLogger(ours).level == 5
    assert log_levels([name]) == [(name, "TRACE")]
    alter(name, None)
    assert logging.getLogger(ours).level == logging.NOTSET


def test_well_known_names_are_listed_as_kafkas_tool_expects() -> None:
    listed = dict(log_levels())
    assert {*LOGGER_ALIASES, "root"} <= listed.keys()
    assert listed["kafka.server.KafkaApis"] == dict(log_levels(["barnabas.broker"]))["barnabas.broker"]


def test_every_alias_names_an_existing_module() -> None:
    from importlib.util import find_spec

    assert [ours for ours in LOGGER_ALIASES.values() if find_spec(ours) is None] == []


@pytest.mark.parametrize(
    "name", ["kafka.nonsense", "org.apache.kafka.Nonsense", "kafka.sever.KafkaApis", "org.example"]
)
def test_other_names_are_unknown(name: str) -> None:
    with pytest.raises(ApiException, match=f"Logger {name} does not exist!"):
        alter(name, "DEBUG")
    assert log_levels([name]) == []


def test_the_log_names_the_actual_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        alter("kafka.server.KafkaApis", "DEBUG")
    assert "User:operator changed log levels: kafka.server.KafkaApis=DEBUG (barnabas.broker)" in caplog.text
