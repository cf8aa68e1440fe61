"""The keys of a node, how they are refused, and how a node handles configs that it can't read."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from barnabas.common.settings.problem import InvalidSettings
from barnabas.metadata.features import CONFIG_ENCRYPTION, SUPPORTED_FEATURES
from barnabas.metadata.image.configs import DEFAULT_BROKER
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.security.config_cipher import ConfigCipher
from barnabas.server.settings.encryption_keys import EncryptedConfigsCheck, config_cipher, offered_features
from barnabas.server.settings.node_config import NodeConfig, load_node_config
from barnabas.server.start_errors import NodeStartError

KEYS = "barnabas.config.encryption.keys"
NAME = "ssl.keystore.password"
PROVENANCE = MetadataProvenance(5, 1, 0)


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def config(*overrides: str) -> NodeConfig:
    return load_node_config(None, list(overrides))


def image_with(*values: str | None) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(MetadataImage.EMPTY)
    for value in values:
        delta.replay(ConfigRecord(resource_type=4, resource_name="", name=NAME, value=value))
    return delta, delta.apply(PROVENANCE)


def cipher_of(key: str) -> ConfigCipher:
    cipher = config_cipher(config(f"{KEYS}={key}"))
    assert cipher is not None
    return cipher


def test_without_keys_nothing_is_encrypted_or_offered() -> None:
    assert config_cipher(config()) is None
    assert CONFIG_ENCRYPTION not in offered_features(None)
    offered = offered_features(cipher_of(new_key()))
    assert offered[CONFIG_ENCRYPTION] == (0, 1)
    assert {name: levels for name, levels in offered.items() if name != CONFIG_ENCRYPTION} == SUPPORTED_FEATURES


def test_keys_come_from_the_setting_or_a_file_newest_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    new, old = new_key(), new_key()
    sealed = cipher_of(old).encrypt(DEFAULT_BROKER, NAME, "hush")
    file = tmp_path / "keys"
    file.write_text(f"# newest first\n{new}\n\n{old}\n")
    file.chmod(0o600)
    for given in (f"{KEYS}={new}, {old}", f"{KEYS}.file={file}"):
        cipher = config_cipher(config(given))
        assert cipher is not None
        assert cipher.decrypt(DEFAULT_BROKER, NAME, sealed) == "hush"
        assert not cipher.is_newest(sealed)
    assert not caplog.records
    file.chmod(0o644)
    config_cipher(config(f"{KEYS}.file={file}"))
    assert "can be read by others" in caplog.text


@pytest.mark.parametrize("given", ["TopSecretTopSecret", base64.b64encode(b"TopSecret").decode(), " , "])
def test_unusable_keys_stop_the_start_and_are_not_shown(given: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(given.strip(" ,") + "\n")
    for override in (f"{KEYS}={given}", f"{KEYS}.file={file}"):
        with pytest.raises((NodeStartError, InvalidSettings)) as problem:
            config_cipher(config(override))
        assert "openssl rand -base64 32" in str(problem.value)
        assert given.strip(" ,") not in str(problem.value) or not given.strip(" ,")


def test_keys_in_two_places_or_in_a_missing_file_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="keep one of them"):
        config_cipher(config(f"{KEYS}={new_key()}", f"{KEYS}.file={tmp_path / 'keys'}"))
    with pytest.raises(NodeStartError, match="No such file"):
        config_cipher(config(f"{KEYS}.file={tmp_path / 'keys'}"))


def test_a_node_does_not_start_with_a_value_that_it_cannot_read() -> None:
    key = new_key()
    _, image = image_with(cipher_of(key).encrypt(DEFAULT_BROKER, NAME, "hush"))
    EncryptedConfigsCheck(cipher_of(key)).require_readable(image)
    with pytest.raises(NodeStartError, match=f"all brokers: the value of {NAME} is encrypted. Set {KEYS}"):
        EncryptedConfigsCheck(None).require_readable(image)
    with pytest.raises(NodeStartError, match="not among this node's. Add the key"):
        EncryptedConfigsCheck(cipher_of(new_key())).require_readable(image)


def test_an_unreadable_value_replaced_by_a_readable_one_is_ignored() -> None:
    _, image = image_with(cipher_of(new_key()).encrypt(DEFAULT_BROKER, NAME, "hush"), "clear")
    EncryptedConfigsCheck(None).require_readable(image)


def test_an_unreadable_value_set_later_is_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    check = EncryptedConfigsCheck(None)
    delta, image = image_with(cipher_of(new_key()).encrypt(DEFAULT_BROKER, NAME, "hush"))
    manifest = LoaderManifest(PROVENANCE, is_snapshot=False)
    check.publish(delta, image, manifest)
    assert not caplog.records, "the log is still being replayed"
    check.require_readable(MetadataImage.EMPTY)
    check.publish(delta, image, manifest)
    assert f"the value of {NAME} is encrypted; it is not in force" in caplog.text
