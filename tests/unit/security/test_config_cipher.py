"""Values can be decrypted only with their key and in their place."""

from __future__ import annotations

import base64
import os
from itertools import count

import pytest

from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource
from barnabas.security.config_cipher import (
    ENCRYPTED_PREFIX,
    NONCE_SIZE,
    ConfigCipher,
    UndecryptableConfig,
    is_encrypted,
    is_sensitive,
    parse_encryption_keys,
    undecryptable,
)

BROKER = ConfigResource.broker(1)
NAME = "ssl.keystore.password"
OLD, NEW = os.urandom(32), os.urandom(32)


def cipher(*keys: bytes) -> ConfigCipher:
    numbers = count(1)
    return ConfigCipher(keys or (NEW,), new_nonce=lambda: next(numbers).to_bytes(NONCE_SIZE, "big"))


@pytest.mark.parametrize("value", ["", "hush", "päß wörd ✓", "x" * 20_000])
def test_an_encrypted_value_is_decrypted(value: str) -> None:
    sealed = cipher().encrypt(BROKER, NAME, value)
    assert is_encrypted(sealed)
    assert sealed.isascii()
    assert not value or value not in sealed
    assert cipher().decrypt(BROKER, NAME, sealed) == value


def test_equal_values_have_different_ciphertexts() -> None:
    sealer = cipher()
    assert sealer.encrypt(BROKER, NAME, "hush") != sealer.encrypt(BROKER, NAME, "hush")


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (ConfigResource.broker(2), NAME),
        (DEFAULT_BROKER, NAME),
        (BROKER, "ssl.key.password"),
        (ConfigResource(2, "1"), NAME),
    ],
)
def test_a_moved_value_cannot_be_decrypted(resource: ConfigResource, name: str) -> None:
    sealed = cipher().encrypt(BROKER, NAME, "hush")
    with pytest.raises(UndecryptableConfig, match="belongs to another setting"):
        cipher().decrypt(resource, name, sealed)


def test_a_changed_or_truncated_value_cannot_be_decrypted() -> None:
    sealed = cipher().encrypt(BROKER, NAME, "hush")
    start = len(sealed) - sealed[::-1].index(":")
    for position in range(start, len(sealed)):
        other = "A" if sealed[position] != "A" else "B"
        with pytest.raises(UndecryptableConfig):
            assert cipher().decrypt(BROKER, NAME, sealed[:position] + other + sealed[position + 1 :]) != "hush"
    for end in range(len(ENCRYPTED_PREFIX), len(sealed)):
        with pytest.raises(UndecryptableConfig) as problem:
            cipher().decrypt(BROKER, NAME, sealed[:end])
        assert NAME in str(problem.value)


def test_unused_bits_of_the_encoding_are_checked_too() -> None:
    """Only some bits of the last character before the padding are data."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for length in range(1, 4):
        sealed = cipher().encrypt(BROKER, NAME, "x" * length)
        last = len(sealed.rstrip("=")) - 1
        for other in alphabet.replace(sealed[last], ""):
            with pytest.raises(UndecryptableConfig):
                cipher().decrypt(BROKER, NAME, sealed[:last] + other + sealed[last + 1 :])


def test_keys_can_be_rotated_and_the_newest_encrypts() -> None:
    before = cipher(OLD).encrypt(BROKER, NAME, "hush")
    both = cipher(NEW, OLD)
    assert both.decrypt(BROKER, NAME, before) == "hush"
    assert not both.is_newest(before)
    assert both.is_newest(both.encrypt(BROKER, NAME, "hush"))
    with pytest.raises(UndecryptableConfig, match="not among this node's"):
        cipher(NEW).decrypt(BROKER, NAME, before)


def test_a_node_without_the_key_names_the_affected_settings() -> None:
    sealed = cipher().encrypt(BROKER, NAME, "hush")
    configs = {BROKER: {NAME: sealed, "log.retention.ms": "5"}, DEFAULT_BROKER: {"ssl.key.password": "clear"}}
    assert [str(problem) for problem in undecryptable(configs, None)] == [
        "broker 1: the value of ssl.keystore.password is encrypted"
    ]
    assert undecryptable(configs, cipher()) == []
    assert len(undecryptable(configs, cipher(OLD))) == 1


def test_hidden_settings_are_sensitive() -> None:
    assert is_sensitive(4, "ssl.keystore.password")
    assert is_sensitive(4, "listener.name.external.ssl.key.password")
    assert is_sensitive(4, "my.plugin.token")
    assert not is_sensitive(4, "log.retention.ms")
    assert not is_sensitive(2, "my.plugin.token")


def test_keys_are_base64_of_32_bytes_and_no_message_shows_one() -> None:
    good = base64.b64encode(OLD).decode()
    assert parse_encryption_keys([good, base64.urlsafe_b64encode(NEW).decode()]) == [OLD, NEW]
    for bad in ("TopSecretTopSecret!", base64.b64encode(b"TopSecret").decode(), ""):
        with pytest.raises(ValueError, match="key 2") as problem:
            parse_encryption_keys([good, bad])
        assert good not in str(problem.value)
        assert not bad or bad not in str(problem.value)
    with pytest.raises(ValueError, match="twice"):
        parse_encryption_keys([good, good])


def test_a_cipher_shows_no_key() -> None:
    assert OLD.hex() not in repr(cipher(OLD))
    assert base64.b64encode(OLD).decode() not in repr(cipher(OLD))
