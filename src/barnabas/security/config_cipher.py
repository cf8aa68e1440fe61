"""Sensitive dynamic configs, encrypted in the metadata log (``barnabas.config.encryption.keys``).

The values that DescribeConfigs hides are encrypted: passwords, and unknown broker settings. A value becomes
AES-256-GCM ciphertext in a text of its own form, ``barnabas-encrypted:1:<key id>:<base64url of nonce and ciphertext>``,
bound to its resource and name: moved to another place in the log, it can't be read. A real Kafka would take the text
for the value, so nothing is encrypted unless keys are given, and ``barnabas storage decrypt-configs`` undoes it.

The first key encrypts, all of them decrypt. Nonces come from the caller: this code draws no randomness.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from barnabas.common.broker_config import broker_config_key
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType

__all__ = [
    "ENCRYPTED_PREFIX",
    "KEY_SIZE",
    "NONCE_SIZE",
    "ConfigCipher",
    "UndecryptableConfig",
    "is_encrypted",
    "is_sensitive",
    "key_texts",
    "parse_encryption_keys",
    "undecryptable",
]

ENCRYPTED_PREFIX = "barnabas-encrypted:"
KEY_SIZE = 32
NONCE_SIZE = 12

_VERSION = "1"
_KEY_ID_DOMAIN = b"barnabas config encryption key id\0"
_ASSOCIATED_DOMAIN = b"barnabas config encryption 1"


class UndecryptableConfig(Exception):
    """A value of the log can't be read with the keys of this node. The message names the setting, not its value."""


def is_sensitive(resource_type: int, name: str) -> bool:
    """Return whether values of this setting are hidden, and encrypted if encryption is enabled."""
    if resource_type != ConfigResourceType.BROKER:
        return False
    key = broker_config_key(name)
    return key is None or key.sensitive


def is_encrypted(value: str) -> bool:
    return value.startswith(ENCRYPTED_PREFIX)


def key_texts(text: str) -> list[str]:
    """Return the keys in the value of a setting. Raises ValueError if it has none."""
    texts = [part for part in text.split(",") if part.strip()]
    if not texts:
        raise ValueError("the value has no key")
    return texts


def parse_encryption_keys(texts: Sequence[str]) -> list[bytes]:
    """Return the keys, newest first. Raises ValueError with a message that shows none of them."""
    keys = []
    for number, text in enumerate(texts, 1):
        try:
            key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"key {number} is not base64") from None
        if len(key) != KEY_SIZE:
            raise ValueError(f"key {number} has {len(key)} bytes, not {KEY_SIZE}")
        keys.append(key)
    if len(set(keys)) < len(keys):
        raise ValueError("a key occurs twice")
    return keys


class ConfigCipher:
    """``new_nonce`` returns NONCE_SIZE random bytes, never the same twice."""

    __slots__ = ("_ciphers", "_new_nonce", "_newest_id")

    def __init__(self, keys: Sequence[bytes], *, new_nonce: Callable[[], bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # Loaded only where values are encrypted.

        self._ciphers: dict[str, Any] = {_key_id(key): AESGCM(key) for key in keys}
        self._newest_id = _key_id(keys[0])
        self._new_nonce = new_nonce

    def encrypt(self, resource: ConfigResource, name: str, value: str) -> str:
        nonce = self._new_nonce()
        sealed = self._ciphers[self._newest_id].encrypt(nonce, value.encode("utf-8"), _associated(resource, name))
        text = base64.urlsafe_b64encode(nonce + sealed).decode("ascii")
        return f"{ENCRYPTED_PREFIX}{_VERSION}:{self._newest_id}:{text}"

    def decrypt(self, resource: ConfigResource, name: str, value: str) -> str:
        """Return the value in clear; an unencrypted value is returned unchanged. Raises UndecryptableConfig."""
        if not is_encrypted(value):
            return value
        version, _, rest = value.removeprefix(ENCRYPTED_PREFIX).partition(":")
        key_id, _, text = rest.partition(":")
        where = f"{_place(resource)}: the value of {name}"
        if version != _VERSION:
            raise UndecryptableConfig(f"{where} is encrypted in a form that this release does not know")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise UndecryptableConfig(f"{where} is encrypted with key {key_id}, which is not among this node's")
        try:
            data = base64.b64decode(text, altchars=b"-_", validate=True)
            if base64.urlsafe_b64encode(data).decode("ascii") != text:
                raise ValueError("bits that belong to no byte were changed")
            clear: bytes = cipher.decrypt(data[:NONCE_SIZE], data[NONCE_SIZE:], _associated(resource, name))
            return clear.decode("utf-8")
        except Exception:  # Its own InvalidTag, or text that was cut short.
            raise UndecryptableConfig(f"{where} was damaged, or belongs to another setting") from None

    def reveal(self, resource: ConfigResource, configs: Mapping[str, str]) -> Mapping[str, str]:
        """Return the configs of a resource in clear. Raises UndecryptableConfig for the first that can't be read."""
        if not any(map(is_encrypted, configs.values())):
            return configs
        return {name: self.decrypt(resource, name, value) for name, value in configs.items()}

    def is_newest(self, value: str) -> bool:
        """Whether the value is encrypted with the first key."""
        return value.startswith(f"{ENCRYPTED_PREFIX}{_VERSION}:{self._newest_id}:")

    def __repr__(self) -> str:
        return f"ConfigCipher({', '.join(self._ciphers)})"


def undecryptable(
    configs: Mapping[ConfigResource, Mapping[str, str]], cipher: ConfigCipher | None
) -> list[UndecryptableConfig]:
    """Yield the configs that a node with this cipher, or without one, can't read."""
    problems = []
    for resource, values in sorted(configs.items()):
        for name, value in sorted(values.items()):
            if not is_encrypted(value) or not is_sensitive(resource.type, name):
                continue
            try:
                if cipher is None:
                    raise UndecryptableConfig(f"{_place(resource)}: the value of {name} is encrypted")
                cipher.decrypt(resource, name, value)
            except UndecryptableConfig as problem:
                problems.append(problem)
    return problems


def _key_id(key: bytes) -> str:
    return sha256(_KEY_ID_DOMAIN + key).hexdigest()[:8]


def _associated(resource: ConfigResource, name: str) -> bytes:
    parts = (str(resource.type).encode(), resource.name.encode("utf-8"), name.encode("utf-8"))
    return _ASSOCIATED_DOMAIN + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _place(resource: ConfigResource) -> str:
    if resource.type == ConfigResourceType.BROKER:
        return f"broker {resource.name}" if resource.name else "all brokers"
    return f"resource {resource.type} {resource.name}"
