"""Sensitive configs on their way into the metadata log, where ``barnabas.config.encryption.keys`` is set.

A value is encrypted only if every registered node can read it, and a node can register only if it can read encrypted
values: such a node offers the feature ``barnabas.config.encryption``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.config_operations import MAX_VALUE_LENGTH
from barnabas.metadata.features import CONFIG_ENCRYPTION
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType, ConfigsImage
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.security.config_cipher import (
    ENCRYPTED_PREFIX,
    UndecryptableConfig,
    is_encrypted,
    is_sensitive,
)

__all__ = [
    "ConfigEncryption",
    "check_can_read_configs",
    "config_record",
    "reencryption_records",
]


def config_record(resource: ConfigResource, name: str, value: str | None) -> ApiMessageAndVersion:
    record = ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    return ApiMessageAndVersion(record, 0)


class ConfigEncryption:
    def __init__(self, state: ControllerState, config: ControllerConfig) -> None:
        self._state = state
        self._config = config

    def current(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the configs of the resource, in clear text."""
        stored = self._state.image.configs.of(resource)
        cipher = self._config.config_cipher
        if cipher is None:
            return stored
        try:
            return cipher.reveal(resource, stored)
        except UndecryptableConfig as problem:
            raise ApiException(ErrorCode.INVALID_CONFIG, str(problem)) from problem

    def stored(self, resource: ConfigResource, name: str, value: str) -> str:
        """Return the text for the record: the value itself, or its ciphertext. Raises ApiException if not allowed."""
        if not is_sensitive(resource.type, name):
            return value
        cipher = self._config.config_cipher
        if cipher is None:
            if is_encrypted(value):
                raise ApiException(
                    ErrorCode.INVALID_CONFIG, f"A value of {name} must not begin with {ENCRYPTED_PREFIX}"
                )
            return value
        incapable = _incapable_node(self._state)
        if incapable is not None:
            raise ApiException(
                ErrorCode.INVALID_CONFIG,
                f"{name} is encrypted in the metadata log, and {incapable} is registered without being able to read "
                f"it: set barnabas.config.encryption.keys there and restart it, or unregister it.",
            )
        text = cipher.encrypt(resource, name, value)
        if len(text) > MAX_VALUE_LENGTH:
            raise ApiException(
                ErrorCode.INVALID_CONFIG,
                f"The value of {name} is too long to be encrypted: its ciphertext exceeds the maximum value size of "
                f"{MAX_VALUE_LENGTH} bytes.",
            )
        return text


def check_can_read_configs(configs: ConfigsImage, who: str, features: Collection[str]) -> None:
    """Raise UNSUPPORTED_VERSION for a node that registers and can't read encrypted values."""
    if CONFIG_ENCRYPTION in features:
        return
    for name in configs.names(int(ConfigResourceType.BROKER)):
        for setting, value in configs.of(ConfigResource(int(ConfigResourceType.BROKER), name)).items():
            if is_encrypted(value) and is_sensitive(int(ConfigResourceType.BROKER), setting):
                raise ApiException(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"Unable to register because the {who} can't read encrypted configs, such as {setting}: it needs "
                    f"barnabas.config.encryption.keys, or the configs must be decrypted.",
                )


def reencryption_records(state: ControllerState, config: ControllerConfig) -> list[ApiMessageAndVersion]:
    """Return the records that encrypt every sensitive value with the newest key; none while a node could not read it,
    or without keys.

    A controller writes them when it becomes active, so that a new first key takes effect with the next restart, and
    values that were set without keys are encrypted then.
    """
    cipher = config.config_cipher
    if cipher is None or _incapable_node(state, own_id=config.node_id) is not None:
        return []
    records = []
    configs = state.image.configs
    for resource_name in sorted(configs.names(int(ConfigResourceType.BROKER))):
        resource = ConfigResource(int(ConfigResourceType.BROKER), resource_name)
        for name, value in sorted(configs.of(resource).items()):
            if not is_sensitive(resource.type, name) or cipher.is_newest(value):
                continue
            try:
                text = cipher.encrypt(resource, name, cipher.decrypt(resource, name, value))
            except UndecryptableConfig:
                continue  # The node does not start with it, and reports the reason.
            if len(text) <= MAX_VALUE_LENGTH:
                records.append(config_record(resource, name, text))
    return records


def _incapable_node(state: ControllerState, own_id: int | None = None) -> str | None:
    """Return a registered node that can't read encrypted configs. ``own_id`` is about to register, and can."""
    cluster = state.image.cluster
    for broker in cluster.brokers.values():
        if CONFIG_ENCRYPTION not in broker.features and broker.id != own_id:
            return f"broker {broker.id}"
    for controller in cluster.controllers.values():
        if CONFIG_ENCRYPTION not in controller.features and controller.id != own_id:
            return f"controller {controller.id}"
    return None
