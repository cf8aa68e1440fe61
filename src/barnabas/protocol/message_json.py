"""Kafka's JSON form of a message, as its tools and logs print it.

Names are camelCase, bytes and record batches base64, uuids Kafka's text form. A tagged field that holds its
default is omitted; a field that the version lacks is omitted if it may be ignored and refused otherwise.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, TypeVar, cast

from barnabas.common.uuid import Uuid
from barnabas.protocol.errors import DecodeError, EncodeError

if TYPE_CHECKING:
    from barnabas.protocol.schema import Field, Message, Struct

__all__ = ["message_from_json", "message_to_json"]

M = TypeVar("M", bound="Message")


def message_to_json(message: Message, version: int) -> dict[str, object]:
    """Raises EncodeError where the binary form would."""
    return _struct_to_json(message, version)


def _struct_to_json(struct: Struct, version: int) -> dict[str, object]:
    out: dict[str, object] = {}
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if not field.in_version(version):
            if not field.ignorable and not _is_default(field, value, version):
                raise EncodeError(f"{type(struct).__name__}.{field.name} is set, but version {version} cannot carry it")
            continue
        if field.is_tagged(version) and _is_default(field, value, version):
            continue
        if value is None and not field.is_nullable(version) and field.kind != "records":
            raise EncodeError(f"{type(struct).__name__}.{field.name} is None, which version {version} does not allow")
        out[field.json_name] = _value_to_json(field, field.kind, value, version)
    return out


def _is_default(field: Field, value: object, version: int) -> bool:
    if field.kind == "struct":
        if value is None or (field.default is None and field.is_nullable(version)):
            return value is None and field.default is None
        return field.type is not None and value == field.type()
    if field.kind == "array" and field.default is not None:
        return value is not None and not value
    return bool(value == field.default)


def _value_to_json(field: Field, kind: str, value: Any, version: int) -> Any:
    if value is None:
        return None
    if kind == "array":
        return [_value_to_json(field, field.element or "", item, version) for item in value]
    if kind == "struct":
        return _struct_to_json(value, version)
    if kind in ("bytes", "records"):
        return b64encode(value).decode("ascii")
    if kind == "uuid":
        return str(value)
    return value


def message_from_json(cls: type[M], json: object, version: int) -> M:
    """Raises DecodeError for a missing, surplus or mistyped field."""
    return cast("M", _struct_from_json(cls, json, version))


def _struct_from_json(cls: type[Struct], json: object, version: int) -> Struct:
    if not isinstance(json, dict):
        raise DecodeError(f"{cls.__name__} is a JSON object, not {type(json).__name__}")
    struct = cls()
    known = set()
    for field in cls.FIELDS:
        if not field.in_version(version):
            continue
        known.add(field.json_name)
        if field.json_name in json:
            value = _value_from_json(field, field.kind, json[field.json_name], version, field.is_nullable(version))
            setattr(struct, field.name, value)
        elif not field.is_tagged(version):
            raise DecodeError(f"{cls.__name__} lacks {field.json_name}, which version {version} needs")
    if surplus := json.keys() - known:
        raise DecodeError(f"{cls.__name__} version {version} has no field {', '.join(sorted(map(str, surplus)))}")
    return struct


_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool,), "string": (str,), "float64": (int, float), "array": (list,)}


def _value_from_json(field: Field, kind: str, value: Any, version: int, nullable: bool) -> Any:
    if value is None:
        if nullable or kind == "records":
            return None
        raise DecodeError(f"{field.json_name} is null, which version {version} does not allow")
    if kind == "struct" and field.type is not None:
        return _struct_from_json(field.type, value, version)
    if kind in ("bytes", "records", "uuid"):
        try:
            return Uuid.from_string(value) if kind == "uuid" else b64decode(value, validate=True)
        except (ValueError, TypeError, AttributeError) as error:
            raise DecodeError(f"{field.json_name}: {value!r} is not {kind} in its text form") from error
    wanted: Any = _TYPES.get(kind, (int,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
        raise DecodeError(f"{field.json_name}: {value!r} is not a {kind}")
    if kind == "array":
        return [_value_from_json(field, field.element or "", item, version, False) for item in value]
    return float(value) if kind == "float64" else value
