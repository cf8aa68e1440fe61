"""Settings that all sinks to tables with positions have, and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.connect.plugins.api import ConfigKey, ConfigType, Importance, Range, ValidString
from barnabas.connect_spark.connectors.columns.row_keys import AUTO_EVOLVE, DELETE_ENABLED, key_errors

__all__ = ["TABLE_KEYS", "TOPIC", "listed", "table_errors"]

TOPIC = "${topic}"
"""Stands in a table's name for the topic."""

_RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "headers", "date", "hour")

TABLE_KEYS = (
    ConfigKey(
        "insert.mode",
        ConfigType.STRING,
        "insert",
        "insert: each record is a row. upsert: it replaces the row of its key.",
        ValidString(("insert", "upsert")),
        Importance.HIGH,
    ),
    ConfigKey(
        "pk.mode",
        ConfigType.STRING,
        "none",
        "Where the key of a row comes from. Needed for upsert.",
        ValidString(("none", "record_key", "record_value")),
        Importance.HIGH,
    ),
    ConfigKey(
        "pk.fields",
        ConfigType.LIST,
        "",
        "The columns of the key: fields of the key or value. A key that is not an object needs one name.",
    ),
    DELETE_ENABLED,
    ConfigKey("auto.create", ConfigType.BOOLEAN, "true", "Whether missing tables are created."),
    AUTO_EVOLVE,
    ConfigKey(
        "record.columns",
        ConfigType.LIST,
        "",
        "Parts of the record that are written beside its value, as columns that begin with _: any of "
        f"{', '.join(_RECORD_COLUMNS)}. Date and hour are those of the record's timestamp, in UTC.",
    ),
    ConfigKey(
        "commit.retries",
        ConfigType.INT,
        "20",
        "How often a batch is written again because another writer has changed the table meanwhile.",
        Range(0),
    ),
    ConfigKey(
        "transaction.name",
        ConfigType.STRING,
        "",
        "The name under which tables keep the connector's positions. Empty: barnabas-connect:<connector>. Connectors "
        "with the same name in several clusters that write one table need different names.",
        importance=Importance.LOW,
    ),
)


def table_errors(settings: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the errors of settings that contradict each other, for ``Connector.validate``."""
    errors = key_errors(settings)
    mode, keys = settings.get("pk.mode"), listed(settings.get("pk.fields"))
    if settings.get("insert.mode") == "upsert" and mode == "none":
        errors["pk.mode"] = ["insert.mode=upsert needs a key: set record_key or record_value."]
    if settings.get("insert.mode") == "insert" and mode != "none":
        errors["pk.mode"] = [f"{mode} is for insert.mode=upsert: set that, or omit pk.mode."]
    if mode == "record_value" and not keys:
        errors["pk.fields"] = ["pk.mode=record_value needs the fields of the value that are the key."]
    wrong = [column for column in listed(settings.get("record.columns")) if column not in _RECORD_COLUMNS]
    if wrong:
        errors["record.columns"] = [f"{', '.join(wrong)}: allowed: {', '.join(_RECORD_COLUMNS)}."]
    return errors


def listed(value: Any) -> list[str]:
    """Return the items of a LIST setting."""
    return [str(item) for item in value or ()]
