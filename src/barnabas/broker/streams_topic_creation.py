"""Creates the internal topics of streams groups through the controller, in the name of the member that needs them.

The member is answered before: it learns of a failure with a later heartbeat. So the reasons of failures are kept for
two intervals between heartbeats. During this time the topic is not requested again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, cast

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.security.request_context import RequestContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.ports import ControllerChannel
    from barnabas.protocol.messages.create_topics import CreatableTopic

__all__ = ["StreamsTopicCreation", "creating"]

log = logging.getLogger(__name__)

_FAILURES_MAX = 1_000


class _Failure(NamedTuple):
    until_s: float
    reason: str


class StreamsTopicCreation:
    def __init__(self, *, controller: ControllerChannel, timeout_ms: int) -> None:
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failure] = {}

    def create(self, topics: Mapping[str, CreatableTopic], context: RequestContext, *, keep_failures_ms: int) -> None:
        """Start to create topics for a client, except those whose creation is under way or has just failed."""
        missing = [
            topic for name, topic in topics.items() if name not in self._under_way and self.failure_of(name) is None
        ]
        if missing:
            creation = self._create(missing, context, keep_failures_ms / 1000)
            task = asyncio.get_running_loop().create_task(creation)
            self._under_way.update((topic.name, task) for topic in missing)

    def failures_of(self, names: Iterable[str]) -> dict[str, str]:
        """Return the reasons why topics could not be created, by topic."""
        return {name: reason for name in names if (reason := self.failure_of(name)) is not None}

    def failure_of(self, name: str) -> str | None:
        failure = self._failures.get(name)
        if failure is None:
            return None
        if asyncio.get_running_loop().time() < failure.until_s:
            return failure.reason
        del self._failures[name]
        return None

    async def _create(self, topics: list[CreatableTopic], context: RequestContext, keep_s: float) -> None:
        request = CreateTopicsRequest(topics=topics, timeout_ms=self._timeout_ms)
        try:
            answer = await self._controller.forward(request, creating(context))
            for outcome in cast("CreateTopicsResponse", answer).topics:
                if outcome.error_code != ErrorCode.NONE:
                    code = ErrorCode(outcome.error_code)
                    self._keep(outcome.name, outcome.error_message or code.name, keep_s)
        except ApiException as error:
            for topic in topics:
                self._keep(topic.name, error.message or error.code.name, keep_s)
        finally:
            for topic in topics:
                self._under_way.pop(topic.name, None)

    def _keep(self, name: str, reason: str, keep_s: float) -> None:
        log.warning("The internal topic %s of a streams group could not be created: %s", name, reason)
        self._failures.pop(name, None)
        if len(self._failures) >= _FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = _Failure(asyncio.get_running_loop().time() + keep_s, reason)


def creating(context: RequestContext) -> RequestContext:
    """Return the context of the CreateTopics request that the broker sends in the client's name, from its host."""
    return RequestContext(
        api_key=ApiKey.CREATE_TOPICS,
        api_version=API_TABLE[ApiKey.CREATE_TOPICS].highest,
        correlation_id=context.correlation_id,
        client_id=context.client_id,
        principal=context.principal,
        client_host=context.client_host,
        listener_name=context.listener_name,
        connection_id=context.connection_id,
    )
