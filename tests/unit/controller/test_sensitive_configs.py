"""With keys, dynamic configs keep secrets encrypted in the metadata log, and every registered node can read them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller.apis import broker_registration, incremental_alter_configs
from barnabas.metadata.features import CONFIG_ENCRYPTION, SUPPORTED_FEATURES
from barnabas.metadata.image.configs import ConfigResource
from barnabas.protocol.messages.broker_registration import Feature
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.security.config_cipher import ConfigCipher, is_encrypted
from tests.peers.admin_requests import BROKER, DELETE, SET, alter
from tests.unit.controller.controller_harness import ControllerHarness

NAME = "ssl.keystore.password"
OLD, NEW = os.urandom(32), os.urandom(32)
CAPABLE = [
    Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
    for name, levels in SUPPORTED_FEATURES.items()
] + [Feature(name=CONFIG_ENCRYPTION, min_supported_version=0, max_supported_version=1)]


def cipher(*keys: bytes) -> ConfigCipher:
    return ConfigCipher(keys, new_nonce=lambda: os.urandom(12))


def with_keys(*keys: bytes, log: Any = (), **broker: Any) -> ControllerHarness:
    harness = ControllerHarness(config_cipher=cipher(*keys) if keys else None, log=log).activate()
    harness.register(1, **{"features": CAPABLE, **broker})
    return harness


def change(harness: ControllerHarness, *resources: Any) -> Any:
    return harness.call(incremental_alter_configs.handle, alter(*resources), 1).responses[0]


def stored(harness: ControllerHarness, resource: str = "1", name: str = NAME) -> str:
    return harness.controller.committed_image.configs.of(ConfigResource(4, resource))[name]


def logged(harness: ControllerHarness) -> list[str | None]:
    """Return the values of NAME in the log."""
    records = [record for batch in harness.log for record in batch.records if isinstance(record, ConfigRecord)]
    return [record.value for record in records if record.name == NAME]


def test_a_secret_is_ciphertext_in_the_log_and_everything_else_is_not() -> None:
    harness = with_keys(NEW)
    assert change(harness, (BROKER, "1", (NAME, SET, "hush"), ("log.retention.ms", SET, "5000"))).error_code == 0
    assert is_encrypted(stored(harness))
    assert cipher(NEW).decrypt(ConfigResource.broker(1), NAME, stored(harness)) == "hush"
    assert stored(harness, name="log.retention.ms") == "5000"
    assert "hush" not in logged(harness)


def test_without_keys_a_secret_is_stored_in_clear_as_in_kafka() -> None:
    harness = with_keys()
    assert change(harness, (BROKER, "1", (NAME, SET, "hush"))).error_code == 0
    assert stored(harness) == "hush"


def test_without_keys_values_that_look_encrypted_are_refused() -> None:
    harness = with_keys()
    answer = change(harness, (BROKER, "1", (NAME, SET, "barnabas-encrypted:1:aa:bb")))
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert NAME in answer.error_message


def test_nothing_is_encrypted_while_a_registered_node_could_not_read_it() -> None:
    harness = with_keys(NEW)
    harness.register(2)
    answer = change(harness, (BROKER, "1", (NAME, SET, "hush")))
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "broker 2" in answer.error_message
    assert "barnabas.config.encryption.keys" in answer.error_message
    assert "hush" not in answer.error_message
    assert logged(harness) == []
    assert change(harness, (BROKER, "1", ("log.retention.ms", SET, "5000"))).error_code == 0


def test_a_node_that_cannot_read_encrypted_values_cannot_register() -> None:
    harness = with_keys(NEW)
    change(harness, (BROKER, "", (NAME, SET, "hush")))
    refused = harness.call(broker_registration.handle, harness.registration(2))
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    harness.register(2, features=CAPABLE)
    change(harness, (BROKER, "", (NAME, DELETE, None)))
    harness.register(3)


def test_a_value_that_is_too_long_once_encrypted_is_refused() -> None:
    answer = change(with_keys(NEW), (BROKER, "1", (NAME, SET, "s" * 30_000)))
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert "too long to be encrypted" in answer.error_message


def test_validation_checks_the_value_and_not_its_ciphertext() -> None:
    harness = with_keys(NEW)
    change(harness, (BROKER, "1", (NAME, SET, "hush")))
    assert change(harness, (BROKER, "1", ("log.retention.ms", SET, "5000"))).error_code == 0
    assert cipher(NEW).decrypt(ConfigResource.broker(1), NAME, stored(harness)) == "hush"


@pytest.mark.parametrize("before", [(), (OLD,)])
def test_values_are_encrypted_with_a_new_key_when_the_controller_becomes_active(before: tuple[bytes, ...]) -> None:
    first = with_keys(*before)
    change(first, (BROKER, "1", (NAME, SET, "hush")))
    second = ControllerHarness(config_cipher=cipher(NEW, *before), log=first.log)
    second.epoch = 2
    second.activate()
    assert cipher(NEW).decrypt(ConfigResource.broker(1), NAME, stored(second)) == "hush"
    third = ControllerHarness(config_cipher=cipher(NEW), log=second.log)
    third.epoch = 3
    length = len(third.log)
    third.activate()
    assert len(third.log) == length, "values under the newest key are kept"


def test_values_keep_their_key_while_another_node_could_not_read_the_new_one() -> None:
    first = with_keys()
    first.register(2)
    change(first, (BROKER, "1", (NAME, SET, "hush")))
    second = ControllerHarness(config_cipher=cipher(NEW), log=first.log)
    second.epoch = 2
    second.activate()
    assert stored(second) == "hush"
