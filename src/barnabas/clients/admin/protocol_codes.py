"""Numbers of the protocol as words."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from barnabas.common.acl import AclOperation

__all__ = ["authorized_operations", "known"]

_NOT_TOLD = -2147483648
E = TypeVar("E", bound=IntEnum)


def authorized_operations(mask: int) -> frozenset[AclOperation] | None:
    """The operations in a bit field; None when the node did not say. Operations of a newer Kafka are left out."""
    if mask == _NOT_TOLD:
        return None
    return frozenset(operation for operation in AclOperation if operation > AclOperation.ALL and mask >> operation & 1)


def known(kind: type[E], code: int, otherwise: E) -> E:
    """The word of a number, ``otherwise`` for one of a newer Kafka."""
    try:
        return kind(code)
    except ValueError:
        return otherwise
