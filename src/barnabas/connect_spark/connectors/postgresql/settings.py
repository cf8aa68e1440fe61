"""The settings of PostgresChanges, by the names that Debezium's connector for PostgreSQL has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Range,
    ValidString,
)
from barnabas.connect_spark.connectors.postgresql.connection import DatabaseLogin
from barnabas.connect_spark.connectors.postgresql.debezium.column_types import DECIMAL_MODES, TIME_MODES, Modes

__all__ = ["CONFIG", "ChangesSettings", "setting_errors"]

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_TOPIC_PREFIX = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_OPERATIONS = ("c", "u", "d", "t")
_TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_OTHERS_OF_DEBEZIUM = {
    "plugin.name": "pgoutput",
    "binary.handling.mode": "bytes",
    "hstore.handling.mode": "json",
    "interval.handling.mode": "numeric",
    "schema.name.adjustment.mode": "none",
    "provide.transaction.metadata": "false",
    "slot.drop.on.stop": "false",
    "include.schema.changes": "false",
    "column.include.list": "",
    "column.exclude.list": "",
    "message.key.columns": "",
    "table.exclude.list": "",
    "schema.include.list": "",
    "schema.exclude.list": "",
    "snapshot.include.collection.list": "",
    "snapshot.select.statement.overrides": "",
    "signal.data.collection": "",
    "heartbeat.action.query": "",
    "publish.via.partition.root": "false",
    "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
}
"""Settings that would change events. Each has the only value that is accepted."""


def _text(name: str, default: Any, documentation: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, documentation, **more)


CONFIG = ConfigDef(
    [
        _text(
            "database.hostname",
            REQUIRED,
            "The database server's host.",
            validator=NonEmptyString(),
            importance=Importance.HIGH,
        ),
        ConfigKey("database.port", ConfigType.INT, "5432", "The server's port.", Range(1, 65_535)),
        _text(
            "database.user",
            REQUIRED,
            "A user with the attribute REPLICATION, who may read the tables.",
            validator=NonEmptyString(),
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "database.password",
            ConfigType.PASSWORD,
            None,
            "The user's password.",
            importance=Importance.HIGH,
        ),
        _text("database.dbname", REQUIRED, "The database.", validator=NonEmptyString(), importance=Importance.HIGH),
        _text(
            "database.sslmode",
            "prefer",
            "Whether the connection is encrypted, as libpq defines it.",
            validator=ValidString(_TLS_MODES),
        ),
        _text("database.sslcert", None, "The file with the client's certificate."),
        _text("database.sslkey", None, "The file with the client's key."),
        ConfigKey("database.sslpassword", ConfigType.PASSWORD, None, "The password of the client's key."),
        _text("database.sslrootcert", None, "The file with the authorities that may sign the server's certificate."),
        _text(
            "topic.prefix",
            REQUIRED,
            "A name for the database: the topics are PREFIX.SCHEMA.TABLE. Positions belong to it.",
            validator=NonEmptyString(),
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "table.include.list",
            ConfigType.LIST,
            "",
            "The tables, as regular expressions that match schema.table; empty for all that are published.",
            importance=Importance.HIGH,
        ),
        _text("slot.name", "barnabas", "The replication slot. Every connector needs its own."),
        ConfigKey(
            "slot.create",
            ConfigType.BOOLEAN,
            "true",
            "Whether the connector creates a slot that does not exist. If not, it fails without one.",
        ),
        ConfigKey(
            "slot.lag.warn.bytes",
            ConfigType.LONG,
            str(1 << 30),
            "The log that the server may keep for the slot before the task warns.",
            Range(1),
        ),
        _text("publication.name", "barnabas_publication", "The publication."),
        _text(
            "publication.autocreate.mode",
            "filtered",
            "filtered: a missing publication is created for the tables of table.include.list, and missing tables are "
            "added. all_tables: it is created for all tables. disabled: it must exist.",
            validator=ValidString(("filtered", "all_tables", "disabled")),
        ),
        _text(
            "snapshot.mode",
            "initial",
            "initial: tables without a position are read first. no_data: only changes are read.",
            validator=ValidString(("initial", "no_data")),
        ),
        ConfigKey(
            "snapshot.max.threads",
            ConfigType.INT,
            "4",
            "How many parts of a table are read at the same time.",
            Range(1, 64),
        ),
        ConfigKey("snapshot.fetch.size", ConfigType.INT, "50000", "How many rows a part has.", Range(1, 10_000_000)),
        ConfigKey(
            "max.batch.size", ConfigType.INT, "20000", "How many changes a batch has at most.", Range(1, 1_000_000)
        ),
        _text(
            "decimal.handling.mode",
            "precise",
            "How numeric and money are written. precise: as Connect's Decimal. double, string: as these.",
            validator=ValidString(DECIMAL_MODES),
        ),
        _text(
            "time.precision.mode",
            "adaptive",
            "How times are written. adaptive: by the precision of the column. adaptive_time_microseconds: TIME always "
            "in microseconds. connect: as Connect's own types, in milliseconds.",
            validator=ValidString(TIME_MODES),
        ),
        ConfigKey(
            "tombstones.on.delete",
            ConfigType.BOOLEAN,
            "true",
            "Whether a record without a value follows each deletion, so that compaction removes the key.",
        ),
        ConfigKey(
            "skipped.operations",
            ConfigType.LIST,
            "t",
            "Operations without events: c (create), u (update), d (delete), t (truncate), or none.",
        ),
        _text(
            "unavailable.value.placeholder",
            "__debezium_unavailable_value",
            "Stands for a large value that was not changed, and that the log does not repeat.",
        ),
        ConfigKey(
            "heartbeat.interval.ms",
            ConfigType.LONG,
            "10000",
            "How often the position advances while no change arrives, so that the server can remove its log.",
            Range(100),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class ChangesSettings:
    """The settings, typed."""

    login: DatabaseLogin
    prefix: str
    patterns: tuple[re.Pattern[str], ...]
    slot: str
    creates_slot: bool
    lag_warn_bytes: int
    publication: str
    publication_mode: str
    reads_tables: bool
    parts: int
    part_rows: int
    batch_changes: int
    modes: Modes
    has_tombstones: bool
    skipped: frozenset[str]
    heartbeat_s: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ChangesSettings:
        return cls(
            login=DatabaseLogin.of(settings),
            prefix=str(settings["topic.prefix"]),
            patterns=tuple(re.compile(str(pattern)) for pattern in settings["table.include.list"] or ()),
            slot=str(settings["slot.name"]),
            creates_slot=bool(settings["slot.create"]),
            lag_warn_bytes=int(settings["slot.lag.warn.bytes"]),
            publication=str(settings["publication.name"]),
            publication_mode=str(settings["publication.autocreate.mode"]),
            reads_tables=settings["snapshot.mode"] == "initial",
            parts=int(settings["snapshot.max.threads"]),
            part_rows=int(settings["snapshot.fetch.size"]),
            batch_changes=int(settings["max.batch.size"]),
            modes=Modes(
                str(settings["decimal.handling.mode"]),
                str(settings["time.precision.mode"]),
                str(settings["unavailable.value.placeholder"]),
            ),
            has_tombstones=bool(settings["tombstones.on.delete"]),
            skipped=_operations(settings["skipped.operations"]),
            heartbeat_s=int(settings["heartbeat.interval.ms"]) / 1000,
        )

    def includes(self, table: str) -> bool:
        """Return whether events of a table, ``schema.name``, are written."""
        return not self.patterns or any(pattern.fullmatch(table) for pattern in self.patterns)


def _operations(listed: Any) -> frozenset[str]:
    return frozenset(str(operation) for operation in listed or ()) - {"none"}


def setting_errors(config: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the errors by setting, beyond those of ``CONFIG``."""
    errors: dict[str, Sequence[str]] = {
        name: [f"{name}={config[name]} is not supported: remove it, or write {only or 'nothing'}."]
        for name, only in _OTHERS_OF_DEBEZIUM.items()
        if name in config and config[name].strip().lower() != only.lower()
    }
    slot = settings.get("slot.name")
    if slot is not None and not _SLOT.fullmatch(str(slot)):
        errors["slot.name"] = [f"{slot!r} is not a name of a slot: write up to 63 of a-z, 0-9 and _."]
    prefix = settings.get("topic.prefix")
    if prefix and not _TOPIC_PREFIX.fullmatch(str(prefix)):
        errors["topic.prefix"] = [f"{prefix!r} has characters that a topic's name can't have: use a-z, 0-9, . _ and -."]
    unknown = sorted(_operations(settings.get("skipped.operations")) - {*_OPERATIONS})
    if unknown:
        errors["skipped.operations"] = [f"{', '.join(unknown)} is unknown: write some of c, u, d, t, or none."]
    for pattern in settings.get("table.include.list") or ():
        try:
            re.compile(str(pattern))
        except re.error as error:
            errors["table.include.list"] = [f"{pattern!r} is not a regular expression: {error}"]
    return errors
