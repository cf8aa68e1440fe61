"""What heartbeats of the newer kinds have in common."""

from __future__ import annotations

from barnabas.common.errors import ApiException, ErrorCode

__all__ = ["JOIN_EPOCH", "LEAVE_EPOCH", "require_text"]

JOIN_EPOCH = 0
"""A member joins, or starts again after it was fenced."""
LEAVE_EPOCH = -1

_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` removes."""


def require_text(value: str | None, message: str) -> None:
    """Raise INVALID_REQUEST for a field that is set to nothing but spaces."""
    if value is not None and not value.strip(_BLANKS):
        raise ApiException(ErrorCode.INVALID_REQUEST, message)
