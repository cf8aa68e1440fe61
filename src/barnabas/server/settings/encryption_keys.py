"""The keys of a node for encrypted configs, and the check that it can read the configs in the metadata log.

A node does not start if it finds a sensitive config that it can't decrypt: it would run with another value than the one
that was set. If a controller with other keys writes such a config later, the node logs an error and does not apply it.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING

from barnabas.common.config_value import Password
from barnabas.metadata.features import CONFIG_ENCRYPTION, SUPPORTED_FEATURES, VersionRange
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.security.config_cipher import NONCE_SIZE, ConfigCipher, key_texts, parse_encryption_keys, undecryptable
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.metadata.image.configs import ConfigResource
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.security.config_cipher import ConfigCipher
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["EncryptedConfigsCheck", "config_cipher", "offered_features"]

log = logging.getLogger(__name__)

_KEYS = "barnabas.config.encryption.keys"
_FILE = "barnabas.config.encryption.keys.file"
_ADVICE = "create one with: openssl rand -base64 32"


def config_cipher(config: NodeConfig) -> ConfigCipher | None:
    """Return the keys; None without encryption. Raise NodeStartError for unusable keys."""
    keys, path = config.value(_KEYS), str(config.value(_FILE) or "")
    if keys is None and not path:
        return None
    name = _KEYS if isinstance(keys, Password) else f"{_FILE}={path}"
    try:
        texts = key_texts(keys.value if isinstance(keys, Password) else ",".join(_lines(path)))
        parsed = parse_encryption_keys(texts)
    except ValueError as error:
        raise NodeStartError(f"{name}: {error} ({_ADVICE})") from None
    return ConfigCipher(parsed, new_nonce=lambda: os.urandom(NONCE_SIZE))


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRGRP | stat.S_IROTH):
                log.warning("%s can be read by others than its owner; chmod 600 it", path)
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise NodeStartError(f"{_FILE}={path}: {reason}") from None
    return [line for line in lines if line and not line.startswith("#")]


def offered_features(cipher: ConfigCipher | None) -> Mapping[str, VersionRange]:
    """Return the features for registrations, including the ability to read encrypted configs."""
    if cipher is None:
        return SUPPORTED_FEATURES
    return {**SUPPORTED_FEATURES, CONFIG_ENCRYPTION: VersionRange(0, 1)}


class EncryptedConfigsCheck:
    """A publisher that checks the configs of brokers. It costs nothing while none are encrypted."""

    def __init__(self, cipher: ConfigCipher | None) -> None:
        self._cipher = cipher
        self._has_started = False

    def require_readable(self, image: MetadataImage) -> None:
        """Check the configs once the node has caught up. Raise NodeStartError if one can't be decrypted."""
        brokers = [resource for resource in image.configs.by_resource if resource.type == ConfigResourceType.BROKER]
        problems = self._problems({resource: image.configs.of(resource) for resource in brokers})
        if problems:
            raise NodeStartError("; ".join(problems) + f". {self._what_to_do()}")
        self._has_started = True

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        """Check changed configs, but not during the replay: later records may still replace an unreadable value."""
        if delta.configs is None or not self._has_started:
            return
        changed = {
            resource: new_image.configs.of(resource)
            for resource in delta.configs.changes
            if resource.type == ConfigResourceType.BROKER
        }
        for problem in self._problems(changed):
            log.error("%s; it is not in force. %s", problem, self._what_to_do())

    def _problems(self, configs: Mapping[ConfigResource, Mapping[str, str]]) -> list[str]:
        if not configs:
            return []
        return [str(problem) for problem in undecryptable(configs, self._cipher)]

    def _what_to_do(self) -> str:
        given = "Add the key to" if self._cipher is not None else "Set"
        return (
            f"{given} {_KEYS} (or its file), or decrypt the configs on a node that has the key: "
            "barnabas storage decrypt-configs --config server.properties"
        )
