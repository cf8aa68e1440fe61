"""The ``producer.override.*``, ``consumer.override.*`` and ``admin.override.*`` settings that a connector may set.

The policy is the worker's ``connector.client.config.override.policy``. No connector may set transactions: the worker
decides them for a task's clients, and Spark's writer has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.common.config_value import ConfigType, value_to_string
from barnabas.connect.decide.validation.client_properties import client_property
from barnabas.connect.decide.validation.connector_config import key_info
from barnabas.connect.entities import ConfigInfo, ConfigValueInfo
from barnabas.connect.settings.plugin_config_def import ConfigException, ConfigKey

__all__ = ["PREFIXES", "ClientOverrides"]

PREFIXES = {kind: f"{kind}.override." for kind in ("producer", "consumer", "admin")}

_LOGIN = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_DECIDED = {
    ("producer", "transactional.id"): "Spark's writer has no transactions",
    ("producer", "key.serializer"): "converters decide it",
    ("producer", "value.serializer"): "converters decide it",
    ("consumer", "key.deserializer"): "converters decide it",
    ("consumer", "value.deserializer"): "converters decide it",
    ("consumer", "enable.auto.commit"): "positions are committed after each batch",
}


class ClientOverrides:
    """``allowlist`` is that of the policy Allowlist."""

    def __init__(self, policy: str, allowlist: tuple[str, ...] = ()) -> None:
        self._policy = policy
        self._allowed = {"All": None, "None": (), "Principal": _LOGIN, "Allowlist": allowlist}[policy]

    def infos(self, kind: str, config: Mapping[str, str | None]) -> Iterator[ConfigInfo]:
        """Return the validation result of settings for one kind of client; values are as written."""
        prefix = PREFIXES[kind]
        for full_name, text in config.items():
            if full_name.startswith(prefix):
                name = full_name.removeprefix(prefix)
                yield self._info(kind, name, full_name, text)

    def _info(self, kind: str, name: str, full_name: str, text: str | None) -> ConfigInfo:
        key = client_property(kind, name)
        errors: list[str] = []
        shown = text
        if self._allowed is not None and name not in self._allowed:
            errors.append(
                f"The '{self._policy}' policy does not allow '{name}' to be overridden in the connector configuration."
            )
        elif (kind, name) in _DECIDED:
            errors.append(f"'{name}' can't be overridden: {_DECIDED[kind, name]}.")
        if key is not None:
            try:
                shown = value_to_string(key.type, key.parse(text))
            except ConfigException as error:
                errors.append(str(error))
                shown = "[hidden]" if key.type is ConfigType.PASSWORD else text
        definition = None if key is None else key_info(_prefixed(key, full_name))
        return ConfigInfo(definition, ConfigValueInfo(full_name, shown, [], errors, True))


def _prefixed(key: ConfigKey, full_name: str) -> ConfigKey:
    return ConfigKey(
        full_name, key.type, key.default, key.documentation, importance=key.importance, display_name=key.name
    )
