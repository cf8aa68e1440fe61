"""Creates topics that clients request, and the brokers' own internal topics, through the controller.

A creation in progress is not requested again, and its outcome is not awaited: the client retries, as it does with
Kafka. If clients should fail fast (KIP-590), the reason of a refusal is kept for a few seconds. During this time the
topic is not requested again either.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from barnabas.broker.internal_topics import internal_topics
from barnabas.broker.streams_topic_creation import StreamsTopicCreation, creating
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_name import INTERNAL_TOPIC_NAMES
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.broker_settings import BrokerSettings
    from barnabas.broker.ports import ControllerChannel
    from barnabas.security.request_context import RequestContext

__all__ = ["INTERNAL_TOPICS", "AutoTopicCreation"]

log = logging.getLogger(__name__)

INTERNAL_TOPICS = INTERNAL_TOPIC_NAMES

_CREATE_TIMEOUT_MS = 30000
_REMEMBERED_S = 5.0
_REMEMBERED_MAX = 1000
_QUIET_S = 60.0
_LINES_PER_WINDOW = 20


class AutoTopicCreation:
    def __init__(self, *, settings: BrokerSettings, controller: ControllerChannel) -> None:
        self._settings = settings
        self._internal = internal_topics(settings.internal_topics)
        self._controller = controller
        self.of_streams = StreamsTopicCreation(controller=controller, timeout_ms=settings.request_timeout_ms)
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, tuple[float, ErrorCode]] = {}
        self._logged_lines: set[str] = set()
        self._window_end_s = 0.0
        self._suppressed = 0

    def refusal_of(self, name: str) -> ErrorCode | None:
        """Return the reason of a recent failure to create the topic, if clients should receive it."""
        known = self._refused.get(name)
        if known is None:
            return None
        until, code = known
        if asyncio.get_running_loop().time() < until:
            return code
        del self._refused[name]
        return None

    def _remember(self, name: str, code: ErrorCode) -> None:
        if not self._settings.autocreate_fails_fast or ApiException(code).retriable:
            return
        if len(self._refused) >= _REMEMBERED_MAX:
            self._refused.pop(next(iter(self._refused)))
        self._refused[name] = (asyncio.get_running_loop().time() + _REMEMBERED_S, code)

    def create(self, names: Iterable[str], context: RequestContext | None) -> None:
        """Start creating the topics; ``context`` is the client's, None for the broker itself."""
        missing = [name for name in names if name not in self._under_way]
        if missing:
            task = asyncio.get_running_loop().create_task(self._create(missing, context))
            for name in missing:
                self._under_way[name] = task

    async def create_and_wait(self, names: Iterable[str], context: RequestContext | None) -> None:
        """Like ``create``, and wait until the controller has answered."""
        wanted = list(names)
        self.create(wanted, context)
        tasks = {self._under_way[name] for name in wanted if name in self._under_way}
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.request_timeout_ms / 1000)

    async def _create(self, names: list[str], context: RequestContext | None) -> None:
        request = CreateTopicsRequest(topics=[self._topic(name) for name in names], timeout_ms=_CREATE_TIMEOUT_MS)
        try:
            answer = await (
                self._controller.send(request)
                if context is None
                else self._controller.forward(request, creating(context))
            )
            for topic in cast("CreateTopicsResponse", answer).topics:
                if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._remember(topic.name, ErrorCode(topic.error_code))
                    code = ErrorCode(topic.error_code).name
                    self._log_line(f"auto creation of topic {topic.name} failed: {code} {topic.error_message or ''}")
        except ApiException as error:
            more = "" if len(names) == 1 else f" and {len(names) - 1} more"
            self._log_line(f"auto creation of {names[0]}{more} failed: {error}")
        finally:
            for name in names:
                self._under_way.pop(name, None)

    def _log_line(self, line: str) -> None:
        """Log each line once a minute, up to a limit of lines: clients retry often, and they choose the names."""
        now = asyncio.get_running_loop().time()
        if now >= self._window_end_s:
            if self._suppressed:
                log.warning("auto creation failed %d more times within a minute", self._suppressed)
            self._logged_lines.clear()
            self._window_end_s, self._suppressed = now + _QUIET_S, 0
        if line in self._logged_lines or len(self._logged_lines) >= _LINES_PER_WINDOW:
            self._suppressed += 1
            return
        self._logged_lines.add(line)
        log.warning("%s", line)

    def _topic(self, name: str) -> CreatableTopic:
        internal = self._internal.get(name)
        if internal is not None:
            return internal
        return CreatableTopic(
            name=name,
            num_partitions=self._settings.num_partitions,
            replication_factor=self._settings.default_replication_factor,
        )
