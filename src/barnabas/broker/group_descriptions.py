"""Answers the requests that describe groups; the members of a large group are described in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.common.long_response import LongAnswer
from barnabas.network.stepped_responses import worked_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

__all__ = ["MEMBERS_A_STEP", "answered_in_steps"]

MEMBERS_A_STEP = 1_000
"""The members whose topics a step looks at."""
_DONE = object()

R = TypeVar("R")


def answered_in_steps(response: R, steps: Iterator[None]) -> R | Awaitable[R]:
    """Return a response that ``steps`` complete: at once if one step is enough."""
    description = _Description(response, steps)
    return description.completed() if description.advance() else response


class _Description(LongAnswer, Generic[R]):
    __slots__ = ("_response", "_steps")

    def __init__(self, response: R, steps: Iterator[None]) -> None:
        super().__init__()
        self._response = response
        self._steps = steps

    def advance(self) -> bool:
        return next(self._steps, _DONE) is not _DONE

    async def completed(self) -> R:
        return (await worked_out(self, is_begun=True))._response
