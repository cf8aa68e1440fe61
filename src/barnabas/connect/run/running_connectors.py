"""The connectors that run on this worker: objects of plugins, each with a thread of its own.

A paused or stopped connector keeps its entry without an object; resuming creates a new one. Its task configs are
completed here: the class of the task, which Kafka's workers need; references in place of secret values; and for a sink
the topic-partitions of each task (``task_partitions``). Topics are checked at intervals: when one is created, deleted
or extended, a sink's tasks receive new configs.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.decide.herder.local_work import StartFailed
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.registry.plugin import Plugin
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_partitions import with_partitions
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.identifiers import TargetState
from barnabas.connect.plugins.api import Connector, SinkConnector, TerminalError
from barnabas.connect.run.config_references import restore_references
from barnabas.connect.run.known_secrets import KnownSecrets, hide_secrets, trace_of
from barnabas.connect.settings.plugin_config_def import ConfigException, ConfigValue

__all__ = ["ConnectorEvents", "RunningConnectors", "TopicPartitions"]

T = TypeVar("T")

log = logging.getLogger(__name__)

_LOOK_AT_TOPICS_S = 5.0
_TOPICS_TIMEOUT_S = 30.0
_JAVA = "org.apache.kafka."


class ConnectorEvents(Protocol):
    """Receives events that connectors cause; called on the loop."""

    def connector_error(self, connector: str, trace: str, *, retriable: bool) -> None: ...

    def reconfiguration_requested(self, connector: str) -> None: ...

    def topics_missing(self, connector: str, topics: tuple[str, ...]) -> None:
        """The topics of a sink for which it waits, maybe none."""


class TopicPartitions:
    """The partition counts of the cluster's topics, from an admin client."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    async def counts(self, topics: Sequence[str] | None = None) -> dict[str, int]:
        """Return the counts of these topics, or of all user topics. Unknown ones are omitted. Raise ConnectError."""
        try:
            if topics is None:
                topics = [topic.name async for topic in self._admin.list_topics(timeout_s=_TOPICS_TIMEOUT_S)]
            found = await self._admin.describe_topics(topics, timeout_s=_TOPICS_TIMEOUT_S)
        except (AdminError, ClientError, TimeoutError) as error:
            raise ConnectError(f"the topics could not be listed: {error}") from error
        return {str(name): len(description.partitions) for name, description in found.values.items()}


@dataclass(frozen=True, slots=True)
class _Subscription:
    """The topics of a sink: names, or a pattern."""

    names: tuple[str, ...]
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> _Subscription:
        names = tuple(dict.fromkeys(topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()))
        pattern = config.get("topics.regex", "").strip()
        return cls(names, re.compile(pattern) if pattern else None)

    def chosen(self, counts: Mapping[str, int]) -> dict[str, int]:
        return {
            topic: count
            for topic, count in sorted(counts.items())
            if topic in self.names or (self.pattern is not None and self.pattern.fullmatch(topic))
        }

    def missing(self, chosen: Mapping[str, int]) -> tuple[str, ...]:
        """Return the named topics that do not exist, or the pattern if no topic matches."""
        if self.pattern is not None:
            return () if chosen else (f"topics.regex={self.pattern.pattern}",)
        return tuple(name for name in self.names if name not in chosen)


class _Running:
    """One connector: its object, if it is started, and the thread for its calls."""

    def __init__(
        self, name: str, plugin: Plugin, raw: ConfigMap, config: dict[str, str], secrets: KnownSecrets
    ) -> None:
        self.name = name
        self.plugin = plugin
        self.raw = raw
        self.config = config
        self._secrets = secrets
        self.object: Connector | None = None
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"connector-{name}")
        self.is_sink = issubclass(plugin.target, SinkConnector)
        self.subscription = _Subscription.of(config) if self.is_sink else None
        self.chosen: dict[str, int] | None = None
        """The partitions for which its tasks were last created."""
        self.missing: tuple[str, ...] = ()

    def trace(self, error: BaseException) -> str:
        return self._secrets.hide(hide_secrets(trace_of(error), self.raw, self.config))

    async def call(self, what: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.thread, what, *arguments)


class RunningConnectors:
    def __init__(
        self,
        registry: PluginRegistry,
        providers: ConfigProviders,
        secrets: KnownSecrets,
        topics: TopicPartitions,
        events: ConnectorEvents,
        admin_properties: Mapping[str, str],
    ) -> None:
        self._registry = registry
        self._providers = providers
        self._secrets = secrets
        self._topics = topics
        self._events = events
        self._admin_properties = admin_properties
        self._running: dict[str, _Running] = {}
        self._watch: asyncio.Task[None] | None = None

    # -- requests of the herder

    async def start(self, name: str, raw: ConfigMap, state: TargetState) -> None:
        """Start a connector. Raise StartFailed, after releasing everything."""
        config: dict[str, str] = {}
        try:
            config = await asyncio.to_thread(self._secrets.resolve, raw)
            running = _Running(name, self._plugin(raw), raw, config, self._secrets)
        except (ConnectError, re.error) as error:
            raise StartFailed(f"{type(error).__name__}: {error}", retriable=False) from error
        self._running[name] = running
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_topics(), name="topics of sinks")
        if state is TargetState.STARTED:
            try:
                await self._start(running)
            except StartFailed:
                await self.stop(name)
                raise

    async def stop(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            await self._stop(running)
            running.thread.shutdown(wait=False)

    async def set_state(self, name: str, state: TargetState) -> None:
        """Set the state. Errors are reported as events."""
        running = self._running.get(name)
        if running is None:
            return
        if state is not TargetState.STARTED:
            await self._stop(running)
        elif running.object is None:
            try:
                await self._start(running)
            except StartFailed as failure:
                self._events.connector_error(name, failure.trace, retriable=failure.retriable)

    async def task_configs(self, name: str, max_tasks: int) -> list[dict[str, str]]:
        """Return the task configs. Raise ConnectError."""
        running = self._running.get(name)
        if running is None or running.object is None:
            raise ConnectError(f"Connector {name} does not run here")
        try:
            made = await running.call(running.object.task_configs, max_tasks)
        except Exception as error:
            raise ConnectError(running.trace(error)) from error
        configs = [{**task_config, "task.class": _task_class(running.plugin)} for task_config in made]
        if running.subscription is not None:
            running.chosen = await self._chosen(running.subscription)
            self._report_missing(running, running.subscription.missing(running.chosen))
            configs = with_partitions(configs, running.chosen)
        return await asyncio.to_thread(restore_references, running.raw, configs, self._providers)

    async def with_all_partitions(self, config: Mapping[str, str], task_config: Mapping[str, str]) -> dict[str, str]:
        """Complete the settings of a sink's only task from a Kafka worker, which lack partitions: it reads all that
        exist now. Raise ConnectError while none exist, so that the task is retried."""
        found = await self._chosen(_Subscription.of(config))
        if not found:
            raise ConnectError("no topic of the connector exists yet")
        (only,) = with_partitions([dict(task_config)], found)
        return only

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        for name in list(self._running):
            await self.stop(name)

    # -- objects

    def _plugin(self, raw: ConfigMap) -> Plugin:
        try:
            return self._registry.connector_of(raw)
        except BadRequest as error:
            raise BadRequest(
                f"this worker does not have the connector class {raw.get('connector.class')} and can't run it: {error}"
            ) from error

    async def _start(self, running: _Running) -> None:
        loop = asyncio.get_running_loop()
        context = _Context(running, loop, self._topics, self._events, self._report_missing, self._admin_properties)

        def make() -> Connector:
            made: Connector = running.plugin.target(context)
            made.start()
            return made

        try:
            running.object = await running.call(make)
        except Exception as error:
            raise StartFailed(
                running.trace(error),
                retriable=not isinstance(error, TerminalError | ConfigException),
            ) from error

    async def _stop(self, running: _Running) -> None:
        made, running.object = running.object, None
        if made is None:
            return
        try:
            await asyncio.to_thread(made.stop)  # Not on its own thread, where another call may still run.
        except Exception as error:
            log.warning("connector %s did not stop cleanly: %s", running.name, error)

    # -- topics

    def _report_missing(self, running: _Running, topics: tuple[str, ...]) -> None:
        if topics and topics != running.missing:
            log.warning("connector %s waits for topics that do not exist: %s", running.name, ", ".join(topics))
        running.missing = topics
        self._events.topics_missing(running.name, topics)

    async def _chosen(self, subscription: _Subscription) -> dict[str, int]:
        asked = None if subscription.pattern is not None else subscription.names
        return subscription.chosen(await self._topics.counts(asked))

    async def _watch_topics(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AT_TOPICS_S)
            sinks = [sink for sink in self._running.values() if sink.chosen is not None and sink.object is not None]
            if not sinks:
                continue
            try:
                counts = await self._counts_for(sinks)
            except ConnectError as error:
                log.warning("%s", error)
                continue
            for sink in sinks:
                if sink.subscription is not None and sink.subscription.chosen(counts) != sink.chosen:
                    log.info("the topics of connector %s have changed: reconfiguring its tasks", sink.name)
                    self._events.reconfiguration_requested(sink.name)

    async def _counts_for(self, sinks: Sequence[_Running]) -> dict[str, int]:
        subscriptions = [sink.subscription for sink in sinks if sink.subscription is not None]
        if any(subscription.pattern is not None for subscription in subscriptions):
            return await self._topics.counts()
        return await self._topics.counts(
            sorted({name for subscription in subscriptions for name in subscription.names})
        )


class _Context:
    """The ConnectorContext of one object; its methods are called on the connector's thread, or any other."""

    def __init__(
        self,
        running: _Running,
        loop: asyncio.AbstractEventLoop,
        topics: TopicPartitions,
        events: ConnectorEvents,
        report_missing: Callable[[_Running, tuple[str, ...]], None],
        admin_properties: Mapping[str, str],
    ) -> None:
        self._running = running
        self._loop = loop
        self._topics = topics
        self._events = events
        self._report_missing = report_missing
        self._admin_properties = admin_properties
        self._settings: Mapping[str, ConfigValue] | None = None

    @property
    def name(self) -> str:
        return self._running.name

    @property
    def config(self) -> Mapping[str, str]:
        return self._running.config

    @property
    def settings(self) -> Mapping[str, ConfigValue]:
        if self._settings is None:
            self._settings = self._running.plugin.config_def.parse(self._running.config)
        return self._settings

    @property
    def client_config(self) -> Mapping[str, str]:
        prefix = "admin.override."
        own = {key.removeprefix(prefix): text for key, text in self.config.items() if key.startswith(prefix)}
        return {**self._admin_properties, **own}

    def partition_counts(self, topics: Sequence[str] | None = None) -> Mapping[str, int]:
        asking = asyncio.run_coroutine_threadsafe(self._topics.counts(topics), self._loop)
        return asking.result(_TOPICS_TIMEOUT_S * 2)

    def request_task_reconfiguration(self) -> None:
        self._loop.call_soon_threadsafe(self._events.reconfiguration_requested, self.name)

    def report_missing(self, topics: Sequence[str]) -> None:
        self._loop.call_soon_threadsafe(self._report_missing, self._running, tuple(topics))

    def raise_error(self, error: Exception) -> None:
        trace = self._running.trace(error)
        retriable = not isinstance(error, TerminalError)

        def notify() -> None:
            self._events.connector_error(self.name, trace, retriable=retriable)

        self._loop.call_soon_threadsafe(notify)


def _task_class(plugin: Plugin) -> str:
    """Return the class that Kafka's workers need to run Kafka's tasks; otherwise our own class."""
    java = next((name for name in plugin.full_names if name.startswith(_JAVA)), None)
    if java is not None:
        return f"{java.removesuffix('Connector')}Task"
    task = plugin.target.task_class
    return f"{task.__module__}:{task.__qualname__}"
