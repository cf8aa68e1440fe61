"""Request bodies, parsed as Kafka does: maps of texts in which a number or a boolean counts as its text.

``100`` becomes ``"100"`` and ``1.50`` stays ``"1.50"``: the text of the JSON counts, not its value. Null
stays null, and validation then reports it.

An unreadable body returns 500, as in Kafka, because clients may expect that; 400 would be correct. The text
contains the place of the error and the expected form.
"""

from __future__ import annotations

from typing import Any

import msgspec

from barnabas.connect.entities import ConnectorOffset
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.identifiers import TargetState

__all__ = [
    "CreateConnector",
    "MalformedBody",
    "read_config",
    "read_create",
    "read_level",
    "read_offsets",
    "read_task_configs",
]

ConfigMap = dict[str, str | None]

_INITIAL_STATES = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
_SETTINGS_MAX = 10_000
_CREATE_FIELDS = ("name", "config", "initial_state")


class MalformedBody(ConnectError):
    """The body is invalid: 500, as in Kafka."""


class CreateConnector(msgspec.Struct, frozen=True):
    """``name`` is trimmed, and empty if missing."""

    name: str
    config: ConfigMap
    initial_state: TargetState | None


def read_config(body: bytes) -> ConfigMap:
    return _texts(_object(body, "an object with the connector's settings"))


def read_create(body: bytes) -> CreateConnector:
    fields = _object(body, 'an object with "name" and "config"')
    unknown = [name for name in fields if name not in _CREATE_FIELDS]
    if unknown:
        raise MalformedBody(f'Unrecognized field "{unknown[0]}"; known are: {", ".join(_CREATE_FIELDS)}')
    name = _text("name", fields["name"]) if "name" in fields else None
    config = fields.get("config")
    if config is None or bytes(config) == b"null":
        raise MalformedBody('The request has no "config"; it should be an object with the connector\'s settings')
    return CreateConnector(
        (name or "").strip(), _texts(_decode(bytes(config), dict[str, msgspec.Raw], '"config"')), _initial_state(fields)
    )


def read_task_configs(body: bytes) -> list[ConfigMap]:
    """Parse the body, after its signature was verified."""
    if not body.strip():
        raise MalformedBody("The request has no body; expected a list of task configurations")
    found = _decode(body, list[dict[str, msgspec.Raw]] | None, "a list of task configurations")
    if found is None:
        raise MalformedBody("The body is null; expected a list of task configurations")
    return [_texts(config) for config in found]


def read_offsets(body: bytes) -> list[ConnectorOffset]:
    fields = _object(body, 'an object with "offsets"')
    unknown = [name for name in fields if name != "offsets"]
    if unknown:
        raise MalformedBody(f'Unrecognized field "{unknown[0]}"; known is: offsets')
    raw = fields.get("offsets")
    offsets = (
        _decode(bytes(raw), list[_OffsetBody] | None, '"offsets", a list of {"partition": {...}, "offset": {...}}')
        if raw is not None
        else None
    )
    if not offsets:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    return [ConnectorOffset(offset.partition, offset.offset) for offset in offsets]


def read_level(body: bytes) -> str | None:
    """Return the level of ``{"level": "DEBUG"}``; None if it is missing."""
    fields = _object(body, 'an object with "level"')
    return _text("level", fields["level"]) if "level" in fields else None


class _OffsetBody(msgspec.Struct, forbid_unknown_fields=True):
    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


def _object(body: bytes, expected: str) -> dict[str, msgspec.Raw]:
    if not body.strip():
        raise MalformedBody(f"The request has no body; expected {expected}")
    found: dict[str, msgspec.Raw] | None = _decode(body, dict[str, msgspec.Raw] | None, expected)
    if found is None:
        raise MalformedBody(f"The body is null; expected {expected}")
    return found


def _decode(body: bytes, kind: Any, expected: str) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MalformedBody(f"The body can't be read: {reason}; expected {expected}") from None


def _texts(fields: dict[str, msgspec.Raw]) -> ConfigMap:
    if len(fields) > _SETTINGS_MAX:
        raise BadRequest(f"A configuration may have {_SETTINGS_MAX} settings; this one has {len(fields)}.")
    return {name: _text(name, raw) for name, raw in fields.items()}


def _text(name: str, raw: msgspec.Raw) -> str | None:
    data = bytes(raw)
    if data[:1] == b'"':
        text: str = _decode(data, str, f'a text for "{name}"')
        return text
    if data[:1] in (b"{", b"["):
        kind = "an object" if data[:1] == b"{" else "a list"
        raise MalformedBody(f'"{name}" is {kind}; expected a string, a number, true, false or null')
    # Also checks the rest of literals, because the decoder skips values that it leaves raw.
    _decode(data, Any, f'a text for "{name}"')
    return None if data == b"null" else data.decode("ascii")


def _initial_state(fields: dict[str, msgspec.Raw]) -> TargetState | None:
    text = _text("initial_state", fields["initial_state"]) if "initial_state" in fields else None
    if text is None:
        return None
    state = _INITIAL_STATES.get(text.upper())
    if state is None:
        raise MalformedBody(f'"initial_state" is {text}; it can be one of {", ".join(_INITIAL_STATES)}')
    return state
