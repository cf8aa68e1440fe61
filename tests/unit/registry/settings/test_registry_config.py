"""The settings of a registry: all problems are reported, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.registry.settings.registry_config import (
    InvalidRegistryConfig,
    RegistryConfig,
    load_registry_config,
    registry_config_of,
)

LEAST = {"kafkastore.bootstrap.servers": "localhost:9092"}


def config_of(**settings: str) -> RegistryConfig:
    return registry_config_of({**LEAST, **{name.replace("_", "."): text for name, text in settings.items()}})


def problems(**settings: str) -> str:
    with pytest.raises(InvalidRegistryConfig) as refused:
        config_of(**settings)
    return str(refused.value)


def test_without_listeners_and_authentication_only_this_machine_is_served() -> None:
    assert [str(listener) for listener in config_of().listeners_] == ["http://127.0.0.1:8081"]
    assert [str(listener) for listener in config_of(barnabas_registry_insecure="true").listeners_] == ["http://:8081"]


def test_a_listener_for_other_machines_needs_authentication() -> None:
    assert "http://0.0.0.0:8081 can be reached" in problems(listeners="http://0.0.0.0:8081")
    config_of(listeners="http://0.0.0.0:8081", barnabas_registry_insecure="true")


def test_settings_of_clients_lose_their_prefix() -> None:
    config = config_of(kafkastore_security_protocol="SSL", kafkastore_request_timeout_ms="9000")
    assert config.client_properties == {
        "client.id": "barnabas-registry",
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
        "request.timeout.ms": "9000",
    }


def test_all_problems_are_reported_together() -> None:
    text = problems(schema_compatibility_level="some", kafkastore_topics="x", leader_eligibility="perhaps")
    assert "schema.compatibility.level" in text
    assert "did you mean kafkastore.topic?" in text
    assert "leader.eligibility" in text


def test_the_brokers_are_required() -> None:
    with pytest.raises(InvalidRegistryConfig, match=r"kafkastore\.bootstrap\.servers"):
        registry_config_of({})


def test_names_of_older_and_other_registries_are_known() -> None:
    config = config_of(avro_compatibility_level="full", master_eligibility="false", kafkastore_group_id="x")
    assert (config.schema_compatibility_level, config.leader_eligibility) == ("full", False)
    assert config.warnings == ["kafkastore.group.id has no effect here"]


@pytest.mark.parametrize(
    ("ways", "what"),
    [
        ("basic", "needs barnabas.registry.users.file"),
        ("jwt", "needs barnabas.registry.jwt.keys.file"),
        ("mtls", "ssl.client.auth is none"),
        ("none,basic", "has none and others"),
        ("kerberos", "barnabas.registry.authentication"),
    ],
)
def test_a_way_to_authenticate_needs_its_settings(ways: str, what: str) -> None:
    assert what in problems(barnabas_registry_authentication=ways)


def test_a_file_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "schema-registry.properties"
    file.write_text("kafkastore.bootstrap.servers=localhost:9092\nkafkastore.topic=_one\n")
    config = load_registry_config(str(file), ["kafkastore.topic=_two"])
    assert config.kafkastore_topic == "_two"
    with pytest.raises(InvalidRegistryConfig, match="does not have the form key=value"):
        load_registry_config(str(file), ["kafkastore.topic"])
