"""JSON Schema, with ``jsonschema``: the data is JSON, which is validated when it is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
from jsonschema import SchemaError as InvalidSchema
from jsonschema import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from barnabas.clients.schema_registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JsonSchemaCodec"]


class JsonSchemaCodec:
    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        """``references`` are the texts of other schemas by the names that this one uses. Raise SchemaError."""
        try:
            schema = json.loads(text)
            known = Registry().with_resources(
                (name, Resource.from_contents(json.loads(used), default_specification=DRAFT7))
                for name, used in references.items()
            )
            checks = validator_for(schema)
            checks.check_schema(schema)
        except (ValueError, InvalidSchema) as error:
            raise SchemaError(f"the JSON Schema can't be read: {getattr(error, 'message', error)}") from error
        self._validator = checks(schema, registry=known)

    def read(self, payload: bytes) -> object:
        """Return the value. Raise SchemaError."""
        try:
            return msgspec.json.decode(payload)
        except msgspec.DecodeError as error:
            raise SchemaError(f"it is not JSON: {error}") from error

    def write(self, value: object) -> bytes:
        """Return the bytes of a value that fits the schema. Raise SchemaError."""
        try:
            self._validator.validate(value)
        except ValidationError as error:
            raise SchemaError(f"it does not fit the JSON Schema: {error.json_path}: {error.message}") from error
        except Unresolvable as error:
            raise SchemaError(f"the JSON Schema uses {error}, which is not one of its references") from error
        return msgspec.json.encode(value)
