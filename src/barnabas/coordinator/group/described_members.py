"""Describes the members of a group in steps, between which other requests are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.coordinator.group.assignor.group_spec import Steps

__all__ = ["described_in_steps"]

M = TypeVar("M")
D = TypeVar("D")

_MEMBERS_A_STEP = 100
"""Up to some milliseconds, for members with a hundred partitions."""


def described_in_steps(members: Iterable[M], describe: Callable[[M], D]) -> Steps[list[D]]:
    """Return the descriptions of members as they are now, whatever changes between the steps."""
    described: list[D] = []
    for number, member in enumerate(list(members), start=1):
        described.append(describe(member))
        if number % _MEMBERS_A_STEP == 0:
            yield
    return described
