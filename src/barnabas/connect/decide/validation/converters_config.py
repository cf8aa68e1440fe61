"""The settings of converters: Kafka's, under Kafka's names, and ours. ``connect_spark.converters`` does the work."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.config_validators import CaseInsensitiveString, Validator, ValidString
from barnabas.connect.decide.validation.registry_settings import JSON_SCHEMA_KEYS, REGISTRY_KEYS
from barnabas.connect.settings.plugin_config_def import REQUIRED, ConfigDef, ConfigKey, ConfigType, Importance, Width

__all__ = ["CONVERTERS", "CONVERTER_TYPE", "HEADER_CONVERTERS", "WITH_REGISTRY"]

CONVERTER_TYPE = "converter.type"
"""The use of the converter, set by the worker."""

_TYPE = ConfigKey(
    CONVERTER_TYPE,
    ConfigType.STRING,
    REQUIRED,
    "The use of the converter; the worker sets it.",
    ValidString(["key", "value", "header"]),
    Importance.LOW,
)
_ONLY_TYPE = ConfigDef([_TYPE])


_VALIDATORS: Mapping[str, Validator] = {
    "decimal.format": CaseInsensitiveString(["BASE64", "NUMERIC"]),
    "barnabas.schema.unknown.fields": ValidString(["error", "ignore"]),
}


def _key(
    name: str, type_: ConfigType, default: str | None, group: str, order: int, display_name: str, doc: str
) -> ConfigKey:
    return ConfigKey(
        name,
        type_,
        default,
        doc,
        importance=Importance.HIGH if group == "Schemas" else Importance.LOW,
        validator=_VALIDATORS.get(name),
        group=group,
        order_in_group=order,
        width=Width.MEDIUM,
        display_name=display_name,
    )


# A row: how the value is parsed, its description, and how a form shows it; each on one line of any length.
# fmt: off
_JSON = ConfigDef(
    [
        _TYPE,
        _key("schemas.enable", ConfigType.BOOLEAN, "true", "Schemas", 0, "Enable Schemas",
            "Whether each key or value includes its schema, as an object with schema and payload."),
        _key("schemas.cache.size", ConfigType.INT, "1000", "Schemas", 1, "Schema Cache Size",
            "How many schemas are kept parsed."),
        _key("schema.content", ConfigType.STRING, None, "Schemas", 2, "Schema Content",
            "The schema of all records, as JSON, instead of one in each record."),
        _key("barnabas.schema", ConfigType.STRING, None, "Schemas", 3, "Columns",
            "The columns of JSON without a schema, as in CREATE TABLE, such as id BIGINT, name STRING. For schemas.enable=false; empty: the columns of each batch."),
        _key("barnabas.schema.unknown.fields", ConfigType.STRING, "error", "Schemas", 4, "Unknown Fields",
            "With barnabas.schema: how to treat a record with another field. error: as a bad record; ignore: as a good one, without the field."),
        _key("decimal.format", ConfigType.STRING, "BASE64", "Serialization", 0, "Decimal Format",
            "How decimals are written: BASE64 of their bytes, or NUMERIC."),
        _key("replace.null.with.default", ConfigType.BOOLEAN, "true", "Serialization", 1, "Replace null with default",
            "Whether a field that is null and has a default in its schema counts as that default."),
    ]
)

_STRING = ConfigDef(
    [
        _TYPE,
        ConfigKey("converter.encoding", ConfigType.STRING, "UTF-8",
            "The encoding of strings, by its name in Java.",
            importance=Importance.HIGH),
    ]
)

_AVRO = ConfigDef(
    [
        _TYPE,
        ConfigKey("barnabas.avro.schema", ConfigType.STRING, None,
            "The schema of all records, as Avro's own JSON. Either this or the file is needed.",
            importance=Importance.HIGH),
        ConfigKey("barnabas.avro.schema.file", ConfigType.STRING, None,
            "A file with this schema, on every worker.",
            importance=Importance.HIGH),
    ]
)

_PROTOBUF = ConfigDef(
    [
        _TYPE,
        ConfigKey("barnabas.protobuf.descriptor.file", ConfigType.STRING, REQUIRED,
            "A file written by protoc --include_imports --descriptor_set_out, on every worker.",
            importance=Importance.HIGH),
        ConfigKey("barnabas.protobuf.message", ConfigType.STRING, REQUIRED,
            "The full name of the message, such as shop.v1.Order.",
            importance=Importance.HIGH),
    ]
)

_OWN: Mapping[str, ConfigDef] = {
    "barnabas.connect.converters.AvroConverter": _AVRO,
    "barnabas.connect.converters.ProtobufConverter": _PROTOBUF,
}

_FOR_ALL: Mapping[str, ConfigDef] = {
    **{
        f"org.apache.kafka.connect.converters.{name}Converter": _ONLY_TYPE
        for name in ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")
    },
    "org.apache.kafka.connect.json.JsonConverter": _JSON,
}

WITH_REGISTRY: Mapping[str, ConfigDef] = {
    "io.confluent.connect.avro.AvroConverter": ConfigDef([_TYPE, *REGISTRY_KEYS]),
    "io.confluent.connect.json.JsonSchemaConverter": ConfigDef([_TYPE, *REGISTRY_KEYS, *JSON_SCHEMA_KEYS]),
    "io.confluent.connect.protobuf.ProtobufConverter": ConfigDef([_TYPE, *REGISTRY_KEYS]),
}
"""Converters of keys and values that take schemas from a registry."""

CONVERTERS: Mapping[str, ConfigDef] = {
    **_FOR_ALL,
    "org.apache.kafka.connect.storage.StringConverter": _STRING,
    **_OWN,
    **WITH_REGISTRY,
}
"""Converters by full name."""

HEADER_CONVERTERS: Mapping[str, ConfigDef] = {
    **_FOR_ALL,
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": ConfigDef(),
    "org.apache.kafka.connect.storage.StringConverter": _STRING,
    **_OWN,
}
# fmt: on
