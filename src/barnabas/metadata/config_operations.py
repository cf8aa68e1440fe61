"""Applies an operation of IncrementalAlterConfigs to the current value (KIP-339).

A broker computes it to check its own settings before it forwards, the controller to decide. APPEND and SUBTRACT start
from the value that is set on the resource, else from the built-in default, never from a broker's effective value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.common.broker_config import broker_config_key
from barnabas.common.config_codes import AlterConfigOpType as OpType
from barnabas.common.config_def import ConfigType
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.group_config import GROUP_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF
from barnabas.metadata.image.configs import ConfigResourceType

__all__ = ["MAX_VALUE_LENGTH", "ConfigOperation", "OpType", "changes_of", "check_operations"]

MAX_VALUE_LENGTH = 32_767
"""The longest text that a record may have."""


class ConfigOperation(NamedTuple):
    name: str
    op: int
    value: str | None

    def __repr__(self) -> str:
        return f"ConfigOperation({self.name}, {self.op})"


def check_operations(operations: Iterable[ConfigOperation]) -> None:
    """Raise ApiException for operations that are invalid for every setting."""
    operations = list(operations)
    names = [operation.name for operation in operations]
    if len(set(names)) != len(names):
        raise ApiException(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [operation.name for operation in operations if operation.value is None and operation.op != OpType.DELETE]
    if nulls:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for operation in operations:
        if operation.op not in OpType._value2member_map_:
            raise ApiException(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation.op}")


def changes_of(
    resource_type: int, operations: Iterable[ConfigOperation], current: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the new text of each named setting, None for a deleted one. Raises ApiException."""
    changed: dict[str, str | None] = {}
    for operation in operations:
        after = _applied(resource_type, operation, current.get(operation.name))
        if after is not None and len(after) > MAX_VALUE_LENGTH:
            raise ApiException(
                ErrorCode.INVALID_CONFIG,
                f"The configuration value cannot be added because it exceeds the maximum value size of "
                f"{MAX_VALUE_LENGTH} bytes.",
            )
        changed[operation.name] = after
    return changed


def _applied(resource_type: int, operation: ConfigOperation, before: str | None) -> str | None:
    if operation.op == OpType.SET:
        return operation.value
    if operation.op == OpType.DELETE:
        return None
    default = _list_default(resource_type, operation.name)
    if default is None:
        raise ApiException(
            ErrorCode.INVALID_CONFIG,
            f"Can't {OpType(operation.op).name} to key {operation.name} because its type is not LIST.",
        )
    text = default if before is None else before
    parts = text.split(",") if text else []
    for part in _java_split(operation.value or ""):
        if operation.op == OpType.APPEND and part not in parts:
            parts.append(part)
        elif operation.op == OpType.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _list_default(resource_type: int, name: str) -> str | None:
    """Return the built-in default text of a setting that supports APPEND and SUBTRACT; None for any other setting.

    The lists of client metrics don't support them, as in Kafka.
    """
    if resource_type == ConfigResourceType.TOPIC:
        key = TOPIC_CONFIG_DEF.get(name)
    elif resource_type == ConfigResourceType.BROKER:
        key = broker_config_key(name)
    else:
        key = GROUP_CONFIG_DEF.get(name)
    if key is None or key.type != ConfigType.LIST:
        return None
    return key.default_text or ""


def _java_split(text: str) -> list[str]:
    """Split on commas as Java does: empty parts at the end are dropped."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
