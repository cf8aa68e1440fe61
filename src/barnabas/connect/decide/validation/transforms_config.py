"""The settings of Kafka's transforms and predicates. ``connect_spark.transforms`` applies them to DataFrames.

Names, types, defaults and importances are Kafka's. Where a transform works on keys or on values, Kafka has two classes
with the same settings, ``$Key`` and ``$Value``.
"""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.config_validators import CaseInsensitiveString, NonEmptyString, NonNull, ValidString
from barnabas.connect.decide.validation.plugin_validators import All, JavaRegex, NonEmptyList, Pairs
from barnabas.connect.settings.plugin_config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
)

__all__ = ["PREDICATES", "PREDICATES_PACKAGE", "TRANSFORMS", "TRANSFORMS_PACKAGE"]

TRANSFORMS_PACKAGE = "org.apache.kafka.connect.transforms"
PREDICATES_PACKAGE = "org.apache.kafka.connect.transforms.predicates"

_CAST_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def _text(
    name: str, doc: str, default: ConfigValue = REQUIRED, *, importance: Importance = Importance.MEDIUM
) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, doc, importance=importance)


def _list(name: str, doc: str, default: ConfigValue = REQUIRED) -> ConfigKey:
    needed = default is REQUIRED
    validator = NonEmptyList() if needed else None
    return ConfigKey(name, ConfigType.LIST, default, doc, validator, Importance.HIGH if needed else Importance.MEDIUM)


def _cast_problem(left: str, right: str) -> str | None:
    type_ = right or left
    if type_ not in _CAST_TYPES:
        return f"{type_} is not a type to cast to; allowed: {', '.join(_CAST_TYPES)}"
    return None


def _rename_problem(left: str, right: str) -> str | None:
    return None if right else f"{left} has no new name; write {left}:new"


# A row: how the value is parsed, its description, and how a form shows it; each on one line of any length.
# fmt: off
_REPLACE_NULL = ConfigKey("replace.null.with.default", ConfigType.BOOLEAN, "true",
    "Whether a field that is null and has a default in its schema counts as that default.")

_ON_KEY_AND_VALUE: Mapping[str, ConfigDef] = {
    "Cast": ConfigDef(
        [
            ConfigKey("spec", ConfigType.LIST, REQUIRED,
                f"Fields and their new types, as field:type with commas between; a type alone is for the whole key or value. Types: {', '.join(_CAST_TYPES)}.",
                All(NonEmptyList(), Pairs("foo:int32,bar:string", _cast_problem)), Importance.HIGH),
            _REPLACE_NULL,
        ]
    ),
    "ExtractField": ConfigDef(
        [
            _text("field", "The field that becomes the whole key or value."),
            ConfigKey("field.syntax.version", ConfigType.STRING, "V1",
                "V1: the name of a field. V2: a path, with dots between the names of nested fields.",
                CaseInsensitiveString(["V1", "V2"]), Importance.HIGH),
            _REPLACE_NULL,
        ]
    ),
    "Flatten": ConfigDef(
        [_text("delimiter", "The separator between the names of nested fields in the name of a flat one.", ".")]
    ),
    "HeaderFrom": ConfigDef(
        [
            _list("fields", "The fields that become headers."),
            _list("headers", "The names of these headers, in the order of the fields."),
            ConfigKey("operation", ConfigType.STRING, REQUIRED,
                "move removes the fields, copy leaves them.",
                ValidString(["move", "copy"]), Importance.HIGH),
            _REPLACE_NULL,
        ]
    ),
    "HoistField": ConfigDef([_text("field", "The name of the only field of the structure around the key or value.")]),
    "InsertField": ConfigDef(
        [
            _text(
                "topic.field",
                "The name of a field for the topic. ! at the end: required; ?: optional, the default.",
                None,
            ),
            _text("partition.field", "The name of a field for the partition.", None),
            _text("offset.field", "The name of a field for the offset; only for sinks.", None),
            _text("timestamp.field", "The name of a field for the record's timestamp.", None),
            _text("static.field", "The name of a field with the same value in all records.", None),
            _text("static.value", "The value of that field.", None),
            _REPLACE_NULL,
        ]
    ),
    "MaskField": ConfigDef(
        [
            _list("fields", "The fields to mask."),
            ConfigKey("replacement", ConfigType.STRING, None,
                "The replacement for numbers and strings; by default 0, an empty string, false and so on.",
                NonEmptyString(), Importance.LOW),
            _REPLACE_NULL,
        ]
    ),
    "ReplaceField": ConfigDef(
        [
            _list("exclude", "The fields to drop; takes precedence over include.", ""),
            _list("include", "The fields to keep; empty for all.", ""),
            ConfigKey("renames", ConfigType.LIST, "",
                "New names of fields, as old:new, separated by commas.",
                Pairs("foo:bar,abc:xyz", _rename_problem)),
            _REPLACE_NULL,
        ]
    ),
    "SetSchemaMetadata": ConfigDef(
        [
            _text("schema.name", "The new name of the schema.", None, importance=Importance.HIGH),
            ConfigKey(
                "schema.version", ConfigType.INT, None, "The new version of the schema.", None, Importance.HIGH
            ),
            _REPLACE_NULL,
        ]
    ),
    "TimestampConverter": ConfigDef(
        [
            _text(
                "field",
                "The field with the timestamp; empty if the whole key or value is one.",
                "",
                importance=Importance.HIGH,
            ),
            ConfigKey("target.type", ConfigType.STRING, REQUIRED,
                "The target type: string, unix (a number), Date, Time or Timestamp.",
                ValidString(["string", "unix", "Date", "Time", "Timestamp"]), Importance.HIGH),
            _text("format", "The pattern of a string, as Java's SimpleDateFormat has it.", ""),
            ConfigKey("unix.precision", ConfigType.STRING, "milliseconds", "The unit of a number.", ValidString(["nanoseconds", "microseconds", "milliseconds", "seconds"]), Importance.LOW),
            _REPLACE_NULL,
        ]
    ),
}

_ON_RECORD: Mapping[str, ConfigDef] = {
    "DropHeaders": ConfigDef([_list("headers", "The names of the headers to drop.")]),
    "Filter": ConfigDef(),
    "InsertHeader": ConfigDef(
        [
            ConfigKey("header", ConfigType.STRING, REQUIRED, "The name of the header.", NonNull(), Importance.HIGH),
            ConfigKey("value.literal", ConfigType.STRING, REQUIRED,
                "Its value; numbers, true and false, lists and maps keep their type.",
                NonNull(), Importance.HIGH),
        ]
    ),
    "RegexRouter": ConfigDef(
        [
            ConfigKey("regex", ConfigType.STRING, REQUIRED,
                "A Java regular expression for whole names of topics.",
                JavaRegex(null_allowed=False), Importance.HIGH),
            _text(
                "replacement", "The replacement for a matching name; $1 and so on are the groups.", importance=Importance.HIGH
            ),
        ]
    ),
    "TimestampRouter": ConfigDef(
        [
            _text(
                "topic.format",
                "The new name of the topic, in which ${topic} and ${timestamp} are filled in.",
                "${topic}-${timestamp}",
                importance=Importance.HIGH,
            ),
            _text(
                "timestamp.format",
                "The pattern of the timestamp, as Java's SimpleDateFormat has it.",
                "yyyyMMdd",
                importance=Importance.HIGH,
            ),
        ]
    ),
    "ValueToKey": ConfigDef([_list("fields", "The fields of the value that become the key."), _REPLACE_NULL]),
}

TRANSFORMS: Mapping[str, ConfigDef] = {
    **{f"{name}${side}": config_def for name, config_def in _ON_KEY_AND_VALUE.items() for side in ("Key", "Value")},
    **_ON_RECORD,
}
"""Transforms by the name of the class, without the package."""

PREDICATES: Mapping[str, ConfigDef] = {
    "HasHeaderKey": ConfigDef(
        [ConfigKey("name", ConfigType.STRING, REQUIRED, "The name of the header.", NonEmptyString())]
    ),
    "RecordIsTombstone": ConfigDef(),
    "TopicNameMatches": ConfigDef(
        [
            ConfigKey("pattern", ConfigType.STRING, REQUIRED,
                "A Java regular expression for whole names of topics.",
                All(NonEmptyString(), JavaRegex(null_allowed=False)))
        ]
    ),
}
# fmt: on
