"""Read and write keys and values with the schemas of a registry."""

from __future__ import annotations

from typing import Protocol

import msgspec

from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.clients.schema_registry.references import referenced_texts
from barnabas.clients.schema_registry.registry_client import RegisteredSchema, SchemaRegistry
from barnabas.clients.schema_registry.wire_format import framed, schema_id_of

__all__ = ["SchemaReader", "SchemaWriter", "chosen_schema"]

_KINDS = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


class Codec(Protocol):
    def read(self, payload: bytes) -> object: ...
    def write(self, value: object) -> bytes: ...


class SchemaReader:
    """Decode data by the schema that it names."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._codecs: dict[int, Codec] = {}

    def read(self, data: bytes) -> object:
        """Return the data as JSON has it. Raise SchemaError."""
        schema_id, payload = schema_id_of(data)
        codec = self._codecs.get(schema_id)
        if codec is None:
            codec = self._codecs[schema_id] = _codec_of(self._registry, self._registry.schema(schema_id), "")
        return codec.read(payload)


class SchemaWriter:
    """Encode data with one schema. ``message`` is the message of a Protobuf schema."""

    def __init__(self, registry: SchemaRegistry, schema: RegisteredSchema, *, message: str = "") -> None:
        self._schema_id = schema.schema_id
        self._codec = _codec_of(registry, schema, message)

    def write(self, value: object) -> bytes:
        """Return the data of a value from JSON. Raise SchemaError."""
        return framed(self._schema_id, self._codec.write(value))

    def write_text(self, text: bytes) -> bytes:
        """Return the data of a value in JSON. Raise SchemaError."""
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise SchemaError(f"it is not JSON: {error}", "a line with a schema is a value in JSON") from error
        return self.write(value)


def chosen_schema(registry: SchemaRegistry, subject: str, choice: str) -> RegisteredSchema:
    """Return the schema that an option names: ``latest``, an id, or a file to register. Raise SchemaError."""
    if choice == "latest":
        return registry.latest(subject)
    if choice.isdecimal():
        return registry.schema(int(choice))
    kind = next((kind for ending, kind in _KINDS.items() if choice.endswith(ending)), None)
    if kind is None:
        raise SchemaError(f"{choice} is not latest, the id of a schema, or a file .avsc, .json or .proto")
    try:
        with open(choice, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"can't read {choice}: {getattr(error, 'strerror', None) or error}") from error
    return registry.register(subject, kind, text)


def _codec_of(registry: SchemaRegistry, schema: RegisteredSchema, message: str) -> Codec:
    if message and schema.kind != "PROTOBUF":
        raise SchemaError(f"only a Protobuf schema has messages, but schema {schema.schema_id} is {schema.kind}")
    used = referenced_texts(registry, schema)
    if schema.kind == "AVRO":
        from barnabas.cli.records.schemas.avro import AvroCodec

        return AvroCodec(schema.text, list(used.values()))
    if schema.kind == "JSON":
        from barnabas.cli.records.schemas.json_schema import JsonSchemaCodec

        return JsonSchemaCodec(schema.text, used)
    if schema.kind == "PROTOBUF":
        from barnabas.cli.records.schemas.protobuf import ProtobufCodec

        return ProtobufCodec(schema.text, used, message=message)
    raise SchemaError(f"schema {schema.schema_id} has the type {schema.kind}; AVRO, JSON and PROTOBUF are supported")
