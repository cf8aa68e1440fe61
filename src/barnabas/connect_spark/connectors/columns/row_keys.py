"""Settings of sinks to tables whose rows may have keys, by the names of the widely known JDBC sink connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["AUTO_EVOLVE", "DELETE_ENABLED", "key_errors", "refused_deletion"]

DELETE_ENABLED = ConfigKey(
    "delete.enabled",
    ConfigType.BOOLEAN,
    "false",
    "Whether a record without a value deletes the row of its key. Needs pk.mode=record_key.",
)
AUTO_EVOLVE = ConfigKey("auto.evolve", ConfigType.BOOLEAN, "false", "Whether missing columns are added.")


def key_errors(settings: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the errors of key settings that contradict each other, for ``Connector.validate``."""
    errors: dict[str, list[str]] = {}
    mode = settings.get("pk.mode")
    if settings.get("delete.enabled") and mode != "record_key":
        errors["delete.enabled"] = ["A record without a value has only its key: set pk.mode=record_key."]
    if mode == "none" and settings.get("pk.fields"):
        errors["pk.fields"] = ["pk.mode=none does not use a key: omit pk.fields, or set another pk.mode."]
    return errors


def refused_deletion(settings: Mapping[str, object]) -> list[Column]:
    """Return why a record without a value is rejected; nothing if it deletes a row."""
    from pyspark.sql import functions as F

    if settings["delete.enabled"]:
        return []
    return [F.when(F.col("value").isNull(), F.lit("the record has no value, and delete.enabled is false"))]
