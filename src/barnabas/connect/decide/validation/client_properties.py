"""Define the properties of the Java clients inside Spark that connectors override: name, type, default, importance.

Other properties are passed to the clients unchecked, because clients ignore unknown properties.
"""

from __future__ import annotations

from functools import cache

from barnabas.common.settings.client_settings import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
)
from barnabas.common.settings.setting import SettingTable, rows_of
from barnabas.connect.settings.plugin_config_def import ConfigKey
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF, worker_config_doc

__all__ = ["client_property"]

_TABLES: dict[str, type[SettingTable]] = {
    "consumer": ConsumerSettings,
    "producer": ProducerSettings,
    "admin": AdminSettings,
}

# Settings that all clients and the worker have. For the settings in _DEFAULTS, the defaults differ from the worker's.
_COMMON = ("bootstrap.servers", "client.", "metadata.", "reconnect.", "retry.", "request.", "connections.", "security.",
           "send.", "receive.", "socket.", "sasl.", "ssl.", "metric")  # fmt: skip
_DEFAULTS = {
    ("producer", "request.timeout.ms"): ClientSettings.request_timeout_ms.default_text,
    ("consumer", "request.timeout.ms"): ClientSettings.request_timeout_ms.default_text,
    ("admin", "request.timeout.ms"): ClientSettings.request_timeout_ms.default_text,
    ("consumer", "receive.buffer.bytes"): ClientSettings.receive_buffer_bytes.default_text,
    ("admin", "receive.buffer.bytes"): ClientSettings.receive_buffer_bytes.default_text,
    ("consumer", "session.timeout.ms"): "45000",
}


def client_property(kind: str, name: str) -> ConfigKey | None:
    """Return the definition of a property of a ``producer``, ``consumer`` or ``admin`` client, or None if unknown."""
    own = _own(kind)
    if name in own:
        return own[name]
    shares = name.startswith(_COMMON) or (
        kind == "consumer" and name in ("session.timeout.ms", "heartbeat.interval.ms")
    )
    worker_key = WORKER_CONFIG_DEF.get(name) if shares and name != "ssl.client.auth" else None
    if worker_key is None:
        return None
    default = _DEFAULTS.get((kind, name), "" if worker_key.required else worker_key.default_text)
    return ConfigKey(
        name,
        worker_key.type,
        default,
        worker_config_doc(name) or "",
        worker_key.validator if name != "bootstrap.servers" else None,
        worker_key.importance,
    )


@cache
def _own(kind: str) -> dict[str, ConfigKey]:
    return {
        row.name: ConfigKey(row.name, row.type, row.default, row.doc, importance=row.importance)
        for row in rows_of(_TABLES[kind])
        if row.doc  # The worker's setting of the same name explains the others.
    }
