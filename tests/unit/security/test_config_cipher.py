"""Values are readable with their key, in their place, and in no other way."""

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
def test_what_was_encrypted_comes_back(value: str) -> None:
    sealed = cipher().encrypt(BROKER, NAME, value)
    assert is_encrypted(sealed)
    assert sealed.isascii()
    assert not value or value not in sealed
    assert cipher().decrypt(BROKER, NAME, sealed) == value


def test_equal_values_look_different() -> None:
    one = cipher()
    assert one.encrypt(BROKER, NAME, "hush") != one.encrypt(BROKER, NAME, "hush")


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (ConfigResource.broker(2), NAME),
        (DEFAULT_BROKER, NAME),
        (BROKER, "ssl.key.password"),
        (ConfigResource(2, "1"), NAME),
    ],
)
def test_a_value_that_was_moved_cannot_be_read(resource: ConfigResource, name: str) -> None:
    sealed = cipher().encrypt(BROKER, NAME, "hush")
    with pytest.raises(UndecryptableConfig, match="belongs to another setting"):
        cipher().decrypt(resource, name, sealed)


def test_a_value_that_was_touched_or_cut_cannot_be_read() -> None:
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


def test_bits_that_belong_to_no_byte_count_too() -> None:
    """Of the last character before the padding only some are data."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for length in range(1, 4):
        sealed = cipher().encrypt(BROKER, NAME, "x" * length)
        last = len(sealed.rstrip("=")) - 1
        for other in alphabet.replace(sealed[last], ""):
            with pytest.raises(UndecryptableConfig):
                cipher().decrypt(BROKER, NAME, sealed[:last] + other + sealed[last + 1 :])


def test_keys_change_over_and_the_newest_encrypts() -> None:
    before = cipher(OLD).encrypt(BROKER, NAME, "hush")
    both = cipher(NEW, OLD)
    assert both.decrypt(BROKER, NAME, before) == "hush"
    assert not both.is_newest(before)
    assert both.is_newest(both.encrypt(BROKER, NAME, "hush"))
    with pytest.raises(UndecryptableConfig, match="not among this node's"):
        cipher(NEW).decrypt(BROKER, NAME, before)


def test_who_has_no_key_is_told_which_settings_that_concerns() -> None:
    sealed = cipher().encrypt(BROKER, NAME, "hush")
    configs = {BROKER: {NAME: sealed, "log.retention.ms": "5"}, DEFAULT_BROKER: {"ssl.key.password": "clear"}}
    assert [str(problem) for problem in undecryptable(configs, None)] == [
        "broker 1: the value of ssl.keystore.password is encrypted"
    ]
    assert undecryptable(configs, cipher()) == []
    assert len(undecryptable(configs, cipher(OLD))) == 1


def test_what_is_hidden_is_sensitive() -> None:
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
