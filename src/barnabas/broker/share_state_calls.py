"""Performs a request about the state of several share-partitions, in steps if there are many."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred, gather
from barnabas.coordinator.share.persister import StateOutcome
from barnabas.network.stepped_responses import serve_others

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.share_state_service import ShareStateService
    from barnabas.common.uuid import Uuid
    from barnabas.coordinator.share.persister import SharePartitionKey

__all__ = ["ByTopic", "performed"]

A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")

ByTopic = dict["Uuid", dict[int, R]]
"""Results by topic id and partition. If a request names a share-partition twice, the last result, as in Kafka."""

_PER_STEP = 64
"""A step takes some milliseconds."""
_REPLACED = StateOutcome(ErrorCode.NOT_COORDINATOR, "Another broker may coordinate this share-partition.")


def performed(
    service: ShareStateService,
    calls: Sequence[tuple[SharePartitionKey, A]],
    perform: Callable[[SharePartitionKey, A], Deferred[R]],
    respond: Callable[[ByTopic[R]], S],
    *,
    unconfirmed: Callable[[StateOutcome], R] | None = None,
) -> S | Awaitable[S]:
    """Return the response to all calls, or an awaitable of it.

    ``unconfirmed``: for reads, the result of a share-partition that another broker may coordinate.
    """
    if len(calls) > _PER_STEP or (unconfirmed is not None and not service.are_reads_safe):
        return _performed_in_steps(service, calls, perform, respond, unconfirmed)
    return service.answer(_response(calls, [perform(key, argument) for key, argument in calls], respond))


async def _performed_in_steps(
    service: ShareStateService,
    calls: Sequence[tuple[SharePartitionKey, A]],
    perform: Callable[[SharePartitionKey, A], Deferred[R]],
    respond: Callable[[ByTopic[R]], S],
    unconfirmed: Callable[[StateOutcome], R] | None,
) -> S:
    results: list[Deferred[R]] = []
    for first in range(0, len(calls), _PER_STEP):
        step = calls[first : first + _PER_STEP]
        refused = set() if unconfirmed is None else await service.unconfirmed(key for key, _ in step)
        for key, argument in step:
            if unconfirmed is not None and key in refused:
                results.append(Deferred.completed(unconfirmed(_REPLACED)))
            else:
                results.append(perform(key, argument))
        await serve_others()
    answer = service.answer(_response(calls, results, respond))
    return await answer if isinstance(answer, Awaitable) else answer


def _response(
    calls: Sequence[tuple[SharePartitionKey, A]], results: list[Deferred[R]], respond: Callable[[ByTopic[R]], S]
) -> Deferred[S]:
    def by_topic(found: list[R]) -> S:
        topics: ByTopic[R] = {}
        for (key, _), result in zip(calls, found, strict=True):
            topics.setdefault(key.topic_id, {})[key.partition] = result
        return respond(topics)

    return gather(results).map(by_topic)
