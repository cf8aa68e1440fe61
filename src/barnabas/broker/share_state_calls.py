"""Performs a request about the state of share-partitions, in steps if there are many, and builds its response."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred, gather
from barnabas.coordinator.share.persister import SharePartitionState, StateOutcome
from barnabas.network.stepped_responses import serve_others
from barnabas.protocol.messages.read_share_group_state import StateBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.share_state_service import ShareStateService
    from barnabas.common.errors import ApiException
    from barnabas.common.uuid import Uuid
    from barnabas.coordinator.share.persister import SharePartitionKey, SharePartitionSummary

__all__ = ["ByTopic", "StateResponses", "performed"]

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


class StateResponses(Generic[S]):
    """Builds the responses of one API. All of them have topics with partitions, in classes of their own."""

    def __init__(self, response: Callable[..., S], topic: Callable[..., Any], partition: Callable[..., Any]) -> None:
        self._response = response
        self._topic = topic
        self._partition = partition

    def failed(self, request: Any, error: ApiException) -> S:
        """Return the same error for each share-partition of the request."""
        results = [
            self._topic(
                topic_id=topic.topic_id,
                partitions=[
                    self._partition(partition=partition.partition, error_code=error.code, error_message=error.message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return self._response(results=results)

    def of(self, found: Mapping[Uuid, Mapping[int, StateOutcome | SharePartitionState | SharePartitionSummary]]) -> S:
        """Return a response with the fields of each result, which have the names of the message's."""
        results = [
            self._topic(
                topic_id=topic_id,
                partitions=[
                    self._partition(partition=partition, **_fields(result)) for partition, result in partitions.items()
                ],
            )
            for topic_id, partitions in found.items()
        ]
        return self._response(results=results)


def _fields(result: StateOutcome | SharePartitionState | SharePartitionSummary) -> dict[str, Any]:
    fields = result._asdict()
    if isinstance(result, SharePartitionState):
        fields["state_batches"] = [StateBatch(**batch._asdict()) for batch in fields.pop("batches")]
    return fields
