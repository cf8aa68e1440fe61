"""Validates the software name and version that a client reports (KIP-511)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_client_software"]

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3


def is_client_software(name: str, version: str, *, api_version: int) -> bool:
    """Return whether Kafka accepts the name and version of an ApiVersions request; older versions have neither."""
    if api_version < _FIRST_VERSION_WITH_SOFTWARE:
        return True
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))
