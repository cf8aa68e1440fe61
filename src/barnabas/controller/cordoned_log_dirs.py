"""Checks changes of a broker's ``cordoned.log.dirs`` (KIP-1066)."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.metadata.metadata_version import MetadataVersion

__all__ = ["validate_cordoned_log_dirs"]

_NAME = "cordoned.log.dirs"
_FIRST_VERSION = "4.3-IV0"


def validate_cordoned_log_dirs(
    resource: ConfigResource,
    changed: Mapping[str, str | None],
    current: Mapping[str, str],
    *,
    version: MetadataVersion,
    is_forwarded: bool,
) -> None:
    """Only the broker knows its directories: a caller of the controller may remove entries from the list, not add
    any."""
    if resource.type != ConfigResourceType.BROKER or _NAME not in changed:
        return
    if not version.is_cordoned_log_dirs_supported:
        raise ApiException(
            ErrorCode.INVALID_CONFIG,
            f"The {_NAME} configuration value cannot be set because it requires metadata.version >= {_FIRST_VERSION}",
        )
    if not is_forwarded and not _paths(changed[_NAME]) <= _paths(current.get(_NAME)):
        raise ApiException(
            ErrorCode.INVALID_CONFIG,
            f"When updating {_NAME} via controllers, the new value must be a subset of the current configuration "
            "value.",
        )


def _paths(text: str | None) -> set[str]:
    return {path.strip() for path in (text or "").split(",") if path.strip()}
