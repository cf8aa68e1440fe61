"""Convert codes of the protocol to words."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from barnabas.common.acl import AclOperation

__all__ = ["authorized_operations", "known"]

_NOT_TOLD = -2147483648
E = TypeVar("E", bound=IntEnum)


def authorized_operations(mask: int) -> frozenset[AclOperation] | None:
    """Return the operations in a bit field; None when the node did not return any. Unknown operations are omitted."""
    if mask == _NOT_TOLD:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ALL and mask >> operation & 1)


def known(kind: type[E], code: int, otherwise: E) -> E:
    """Return the word of a code, ``otherwise`` for an unknown one."""
    try:
        return kind(code)
    except ValueError:
        return otherwise
