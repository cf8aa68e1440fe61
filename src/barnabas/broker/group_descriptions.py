"""Answers the requests that describe groups, once it is confirmed that this broker still coordinates them.

The members of a large group are described in steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.common.long_response import LongAnswer
from barnabas.network.stepped_responses import worked_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence, Set

    from barnabas.broker.broker import Broker

__all__ = ["MEMBERS_A_STEP", "describe_confirmed"]

MEMBERS_A_STEP = 1_000
"""The members whose topics a step looks at."""
_DONE = object()

R = TypeVar("R")


def describe_confirmed(
    broker: Broker, group_ids: Sequence[str], response: R, describe: Callable[[Set[str]], Iterator[None]]
) -> R | Awaitable[R]:
    """Return a response that the steps of ``describe`` complete: at once if one step is enough.

    ``describe`` receives the groups that this broker may no longer coordinate.
    """
    confirming = broker.groups.confirm(group_ids)
    if confirming is not None:
        return _described_later(response, describe, confirming)
    description = _Description(response, describe(frozenset()))
    return description.completed() if description.advance() else response


async def _described_later(
    response: R, describe: Callable[[Set[str]], Iterator[None]], confirming: Awaitable[Set[str]]
) -> R:
    description = _Description(response, describe(await confirming))
    return (await worked_out(description)).response


class _Description(LongAnswer, Generic[R]):
    __slots__ = ("_steps", "response")

    def __init__(self, response: R, steps: Iterator[None]) -> None:
        super().__init__()
        self.response = response
        self._steps = steps

    def advance(self) -> bool:
        return next(self._steps, _DONE) is not _DONE

    async def completed(self) -> R:
        return (await worked_out(self, is_begun=True)).response
