"""A worker from its start to its stop: the herder, the group client, the connectors and tasks, wired together.

``Worker.start`` creates it and documents the order. Everything that exists only while a worker runs is an attribute of
this object, so it is never half built. External input arrives here and is passed to the herder.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from time import monotonic
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from barnabas import __version__
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.clients.network_client import NetworkClient
from barnabas.common.clock import Clock
from barnabas.common.errors import Terminal
from barnabas.connect.decide.group.membership_events import MembershipEvent
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.decide.lag.sink_groups import SinkGroups
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_progress import TaskInsight
from barnabas.connect.decide.tasks.task_runtime import TaskRuntime
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation
from barnabas.connect.metrics.task_metrics import MeasuredTasks
from barnabas.connect.metrics.worker_metrics import WorkerMetrics
from barnabas.connect.rest.application import Mount
from barnabas.connect.rest.console.console import PREFIX, Console
from barnabas.connect.rest.console.page_data import PageData
from barnabas.connect.rest.rest_server import RestServer
from barnabas.connect.run.admin_lags import AdminLags
from barnabas.connect.run.dead_letter_reader import DeadLetterReader
from barnabas.connect.run.group_client import GroupClient
from barnabas.connect.run.herder_setup import group_settings, herder_settings, key_rotation
from barnabas.connect.run.history_sampler import HistorySampler
from barnabas.connect.run.internal_topics.worker_topics import WorkerTopics
from barnabas.connect.run.known_secrets import InsightWithoutSecrets, KnownSecrets
from barnabas.connect.run.running_connectors import RunningConnectors, TopicPartitions
from barnabas.connect.run.sink_lags import SinkLags
from barnabas.connect.run.webhook import Webhook, WebhookSettings
from barnabas.connect.run.worker_figures import WorkerFigures
from barnabas.connect.run.worker_outside import WorkerOutside
from barnabas.connect.settings.worker_config import WorkerConfig

__all__ = ["RunningWorker", "WorkerFailed"]

log = logging.getLogger(__name__)

_POLL_S = 1.0
_STOP_SLACK_S = 10.0


class WorkerFailed(Terminal, Exception):
    """The worker can't start, or can't continue. The text says what to change."""


class RunningWorker:
    """``parts`` closes the parts that exist already; this class adds its own. Created on the event loop."""

    def __init__(
        self,
        config: WorkerConfig,
        rest: RestServer,
        parts: AsyncExitStack,
        *,
        clock: Clock,
        secrets: KnownSecrets,
        admin: AdminClient,
        network: NetworkClient,
        registry: PluginRegistry,
        validation: ConnectorValidation,
        topics: WorkerTopics,
        tasks: TaskRuntime,
        kafka_cluster_id: str,
    ) -> None:
        self.config = config
        self.rest = rest
        self.tasks = tasks
        self._parts = parts
        self._secrets = secrets
        self._admin = admin
        self._registry = registry
        self._kafka_cluster_id = kafka_cluster_id
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.group = GroupClient(
            network,
            group_settings(config, url=rest.advertised_url),
            snapshot=lambda: self.herder.config,
            on_notice=self._noticed,
        )
        self._dead_letters = DeadLetterReader(config.texts, secrets)
        self._clock = clock
        self._history = WorkerHistory(rest.worker_id) if config.barnabas_connect_history_enable else None
        self._client = rest.client(lambda: self.herder.session())
        connectors = RunningConnectors(
            registry, config.providers, secrets, TopicPartitions(admin), self, config.admin_properties
        )
        self.outside = WorkerOutside(
            clock,
            self._fail,
            topics=topics,
            group=self.group,
            connectors=connectors,
            tasks=tasks,
            client=self._client,
            loggers=rest.loggers,
            admin=admin,
            secrets=secrets,
            registry=registry,
            validation=validation,
            admin_properties=config.admin_properties,
            offset_reset=self._offset_reset,
        )
        self._webhook = _webhook_of(config, rest, clock, secrets)
        self.herder = Herder(
            herder_settings(config, worker_id=rest.worker_id, url=rest.advertised_url),
            registry,
            key_rotation(config),
            self.outside,
            [listener for listener in (self._webhook, self._history) if listener is not None],
        )
        self._sink_lags = SinkLags(self.herder, AdminLags(admin, monotonic), self._offset_reset)
        if self._webhook is not None:
            parts.push_async_callback(self._webhook.close)
        parts.push_async_callback(self._sink_lags.close)
        self.history_sampler = None if self._history is None else self._sampler(self._history)
        for close in (connectors.close, self.outside.close, rest.stop, self.group.close):  # The last one closes first.
            parts.push_async_callback(close)

    def begin(self) -> None:
        """Open the REST API and join the group, after the topics were read to their ends."""
        if self._webhook is not None:
            self._webhook.begin()
        self.herder.topics_read()
        self._group_reads = self.rest.open(
            self.herder,
            self._client,
            self._registry,
            kafka_cluster_id=self._kafka_cluster_id,
            version=__version__,
            commit=_commit(),
            dead_letters=self._dead_letters,
            own_figures=WorkerFigures(self.herder, self._history, self._clock, __version__),
        )
        self._mount_metrics()
        if self.config.barnabas_connect_console_enable:
            self._mount_console()
        self.group.start()
        self._sink_lags.begin()
        self._run_beside(self._poll(), "poll of the group")
        if self.history_sampler is not None:
            self._run_beside(self.history_sampler.run(), "history of connectors")
        log.info("worker of group %s is listening on %s", self.config.group_id, self.rest.advertised_url)

    def _run_beside(self, work: Coroutine[object, object, None], name: str) -> None:
        self._parts.callback(asyncio.create_task(work, name=name).cancel)

    # -- input

    def config_received(self, record: ConsumerRecord) -> None:
        self.herder.replay_config(record.key, record.value, record.offset)

    def status_received(self, record: ConsumerRecord) -> None:
        self.herder.replay_status(record.key, record.value)

    def connector_error(self, connector: str, trace: str, *, retriable: bool) -> None:
        self.herder.connector_error(connector, trace, retriable=retriable)

    def reconfiguration_requested(self, connector: str) -> None:
        self.herder.reconfiguration_requested(connector)

    def topics_missing(self, connector: str, topics: tuple[str, ...]) -> None:
        self.herder.topics_missing(connector, topics)

    def _noticed(self, notice: MembershipEvent) -> None:
        membership = self.group.membership
        self.herder.notice(
            notice,
            membership.owners,
            membership.member_urls,
            are_all_members_ours=membership.are_all_members_ours,
        )
        if self.herder.failure is not None:
            self._fail(WorkerFailed(self.herder.failure))

    async def _poll(self) -> None:
        """Show the membership that this worker is alive, because its loop runs."""
        while True:
            self.group.poll(self.herder.stage() or "")
            await asyncio.sleep(_POLL_S)

    @property
    def _offset_reset(self) -> str:
        return self.config.texts.get("consumer.auto.offset.reset") or "earliest"

    # -- pages beside the API

    def _mount_metrics(self) -> None:
        measured = self.tasks if isinstance(self.tasks, MeasuredTasks) else None
        metrics = WorkerMetrics(self.herder, measured, self._webhook, lambda: self._sink_lags.lags)

        async def page(scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
            Request(scope)
            body, content_type = metrics.exposition()
            await Response(body, media_type=content_type)(scope, receive, send)  # type: ignore[arg-type]

        self.rest.mount(Mount("/metrics", page))  # type: ignore[arg-type]

    def _mount_console(self) -> None:
        worker_id = self.rest.worker_id
        page_data = PageData(
            self.herder,
            self._registry,
            worker_id=worker_id,
            now_s=monotonic,
            lags=AdminLags(self._admin, monotonic),
            offset_reset=self._offset_reset,
            insight=self._insight,
            dead_letters=self._dead_letters,
            group_reads=self._group_reads,
        )
        console = Console(
            page_data,
            worker_id=worker_id,
            group_id=self.config.group_id,
            cluster_id=self._kafka_cluster_id,
            version=__version__,
            recent_log=self.rest.recent_log if self.rest.shows_log else None,
        )
        self.rest.mount(Mount(PREFIX, console))

    @property
    def _insight(self) -> TaskInsight | None:
        return InsightWithoutSecrets(self.tasks, self._secrets.hide) if isinstance(self.tasks, TaskInsight) else None

    def _sampler(self, history: WorkerHistory) -> HistorySampler:
        return HistorySampler(
            history,
            self.herder,
            self._clock,
            groups=SinkGroups(self.herder, self._offset_reset),
            lags=AdminLags(self._admin, monotonic),
            insight=self._insight,
        )

    # -- end

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    async def ended(self) -> None:
        """Wait forever, or raise the error that prevents the worker from continuing."""
        await self._ended

    async def stop(self) -> None:
        """Stop the work, leave the group and close everything, in this order."""
        graceful_s = self.config.task_shutdown_graceful_timeout_ms / 1000 + _STOP_SLACK_S
        try:
            async with asyncio.timeout(graceful_s):
                await self.herder.shut_down()
        except TimeoutError:
            log.warning("not everything has stopped in %g s; the worker ends nevertheless", graceful_s)
        try:
            async with asyncio.timeout(_STOP_SLACK_S):
                await self.group.leave("the worker stops")
        except TimeoutError:
            log.warning("the group could not be informed that this worker leaves")
        await self.close()

    async def close(self) -> None:
        """Close everything immediately, without leaving the group."""
        await self._parts.aclose()


def _webhook_of(config: WorkerConfig, rest: RestServer, clock: Clock, secrets: KnownSecrets) -> Webhook | None:
    settings = WebhookSettings.of(config)
    if settings is None:
        return None
    if settings.url.rstrip("/") != settings.server:
        secrets.add([settings.url])  # An admin may have the logger of httpx write each URL.
    return Webhook(
        settings, group=config.group_id, worker=rest.worker_id, clock=clock, new_id=lambda: f"msg_{uuid4().hex}"
    )


def _commit() -> str:
    try:
        return version("barnabas")
    except PackageNotFoundError:
        return __version__
