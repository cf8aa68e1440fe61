"""Validates the software name and version that a client reports (KIP-511)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_client_software"]

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_TOLD_SINCE: Final = 3


def is_client_software(name: str, version: str, *, api_version: int) -> bool:
    """Whether Kafka accepts the name and version of an ApiVersions request; before version 3 nothing is said."""
    return api_version < _TOLD_SINCE or bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))
