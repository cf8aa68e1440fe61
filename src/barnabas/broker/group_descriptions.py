"""Answers the requests that describe groups, once it is confirmed that this broker still coordinates them.

The members of a large group are described in steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ErrorCode
from barnabas.common.long_response import LongAnswer
from barnabas.common.resource import ResourceType
from barnabas.network.stepped_responses import worked_out

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence, Set

    from barnabas.broker.broker import Broker
    from barnabas.coordinator.group.assignor.group_spec import Steps
    from barnabas.network.api_handler import Access

__all__ = ["MEMBERS_A_STEP", "DescribedKind", "describe_confirmed"]

MEMBERS_A_STEP = 1_000
"""The members whose topics a step looks at."""
_DONE = object()

R = TypeVar("R")


class _Request(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


class _DescribedGroup(Protocol):
    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=_DescribedGroup)


class DescribedKind(NamedTuple, Generic[D]):
    """How groups of one of the newer kinds are described."""

    new_description: Callable[..., D]
    describe: Callable[[Broker, str], Steps[D]]
    topics: Callable[[D], Steps[Set[str]]]
    """Returns the topics that the caller must be allowed to describe."""
    has_hidden_topics: str
    """The message for a group with another topic."""

    def steps(
        self, broker: Broker, request: _Request, access: Access, groups: list[D], unconfirmed: Set[str]
    ) -> Iterator[None]:
        """Add the descriptions of the requested groups. ``unconfirmed``: this broker may no longer coordinate these."""
        for group_id in request.group_ids:
            if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group_id):
                denial = access.denial(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
                described = self._refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, denial)
            elif group_id in unconfirmed:
                described = self._refused(group_id, ErrorCode.NOT_COORDINATOR)
            else:
                described = yield from self.describe(broker, group_id)
                if request.include_authorized_operations and described.error_code == ErrorCode.NONE:
                    described.authorized_operations = access.operations_on(ResourceType.GROUP, group_id)
                topics = yield from self.topics(described)
                if len(access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, topics)) < len(topics):
                    described = self._refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, self.has_hidden_topics)
            groups.append(described)

    def _refused(self, group_id: str, code: ErrorCode, message: str | None = None) -> D:
        return self.new_description(group_id=group_id, error_code=code, error_message=message)


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
