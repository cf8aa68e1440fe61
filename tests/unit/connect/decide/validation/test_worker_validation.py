from __future__ import annotations

import pytest

from barnabas.connect.decide.validation.worker_validation import validation_of
from barnabas.connect.settings.worker_config import InvalidWorkerConfig, worker_config_of
from tests.unit.connect.plugins.example_connectors import registry

LEAST = {
    "bootstrap.servers": "127.0.0.1:9092",
    "group.id": "connect-v",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "JsonConverter",
    "config.storage.topic": "a",
    "offset.storage.topic": "b",
    "status.storage.topic": "c",
}


def test_connectors_are_validated_with_the_settings_of_the_worker() -> None:
    config = worker_config_of({**LEAST, "connector.client.config.override.policy": "None"})
    checked = {
        "name": "v",
        "connector.class": "FileStreamSink",
        "topics": "a",
        "consumer.override.max.poll.records": "5",
    }
    errors = [
        error for info in validation_of(config, registry()).validate(checked).configs for error in info.value.errors
    ]
    assert errors == [
        "Consumer group for sink connector named v conflicts with Connect worker group connect-v",
        "The 'None' policy does not allow 'max.poll.records' to be overridden in the connector configuration.",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("key.converter", "com.example.Mine"),
        ("value.converter", "SimpleHeaderConverter"),
        ("header.converter.plugin.version", "99"),
    ],
)
def test_a_worker_does_not_start_without_its_converters(name: str, text: str) -> None:
    with pytest.raises(InvalidWorkerConfig, match=name.removesuffix(".plugin.version")):
        validation_of(worker_config_of({**LEAST, name: text}), registry())
