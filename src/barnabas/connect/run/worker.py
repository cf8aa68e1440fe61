"""A worker: its parts, put together, started and stopped.

Start: the REST API listens (and answers 404), the topics are read to their ends, the API opens, the group is joined.
Stop: tasks and connectors stop and say so, the group is left so that others take over at once, the API closes last.
Deciding is the herder's; see ``herder.herder``. What blocks (plugins, Spark) runs on threads.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from time import monotonic, monotonic_ns, time_ns
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from barnabas import __version__
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import client_config
from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import Terminal
from barnabas.connect.decide.group.client_ids import default_client_id
from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership_events import Notice
from barnabas.connect.decide.herder.effects import ConfigMap
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.herder_settings import HerderSettings, RestartBudget
from barnabas.connect.decide.herder.procedures import Now
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.decide.tasks.task_progress import TaskInsight
from barnabas.connect.decide.tasks.task_runtime import OffsetStore, TaskEvent, TaskRuntime
from barnabas.connect.decide.validation.worker_validation import validation_of
from barnabas.connect.entities import ConfigInfos
from barnabas.connect.mac_algorithms import key_size
from barnabas.connect.metrics.task_metrics import MeasuredTasks
from barnabas.connect.metrics.worker_metrics import WorkerMetrics
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.rest.application import Mount
from barnabas.connect.rest.console.console import PREFIX, Console
from barnabas.connect.rest.console.group_lag import AdminLags
from barnabas.connect.rest.console.page_data import PageData
from barnabas.connect.rest.rest_server import RestServer
from barnabas.connect.rest.rest_settings import RestSettings
from barnabas.connect.run.connector_offsets import ConnectorPositions
from barnabas.connect.run.group_client import GroupClient
from barnabas.connect.run.herder_loop import HerderLoop
from barnabas.connect.run.internal_topics.worker_topics import WorkerTopics
from barnabas.connect.run.known_secrets import InsightWithoutSecrets, KnownSecrets, LinesWithoutSecrets
from barnabas.connect.run.running_connectors import RunningConnectors, TopicPartitions
from barnabas.connect.run.worker_effects import WorkerEffects
from barnabas.connect.run.worker_port import WorkerPort
from barnabas.connect.settings.worker_config import WorkerConfig

__all__ = ["MakeRuntime", "Worker", "WorkerFailed", "run_worker"]

log = logging.getLogger(__name__)

_POLL_S = 1.0
_START_TIMEOUT_S = 60.0
_ATTEMPT_S = 5.0
_STOP_SLACK_S = 10.0


class WorkerFailed(Terminal, Exception):
    """The worker can't start, or can't go on. The text says what to change."""


class MakeRuntime(Protocol):
    """Makes what runs the tasks, on the event loop."""

    async def __call__(
        self, *, config: WorkerConfig, offsets: OffsetStore, registry: PluginRegistry, worker_id: str
    ) -> TaskRuntime: ...


async def _spark_runtime(
    *, config: WorkerConfig, offsets: OffsetStore, registry: PluginRegistry, worker_id: str
) -> TaskRuntime:
    """Its modules take a while to import."""
    module = await asyncio.to_thread(import_module, "barnabas.connect_spark.spark_runtime")
    runtime: TaskRuntime = module.SparkTaskRuntime(
        registry.with_full_names(config.texts),
        offsets,
        registry.connector_class,
        worker_id=worker_id,
        client_properties=config.client_properties,
    )
    return runtime


class SystemClock:
    def now_ms(self) -> int:
        return time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return monotonic_ns() // 1_000_000


class Worker:
    """``await start()``, then ``await ended()``, which returns when ``stop`` was called or raises WorkerFailed."""

    def __init__(self, config: WorkerConfig, make_runtime: MakeRuntime | None = None) -> None:
        """Raises UnusableRestSetting. Made on the event loop. ``make_runtime`` is for another one than Spark's."""
        self.config = config
        self.secrets = KnownSecrets(config.providers)
        self._runtime_maker: MakeRuntime = make_runtime or _spark_runtime
        self._clock = SystemClock()
        self._settings = {**config.texts}
        self.rest = RestServer(RestSettings.read(self._settings), clock=self._clock, random_bytes=secrets.token_bytes)
        self._admin = AdminClient(config=client_config(config.client_properties, source="the worker's settings"))
        self._network: NetworkClient | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._poller: asyncio.Task[None] | None = None
        self._topics: WorkerTopics | None = None
        self._connectors: RunningConnectors | None = None
        self._tasks: TaskRuntime | None = None
        self._loop: HerderLoop | None = None
        self._group: GroupClient | None = None
        self._herder: Herder | None = None

    # -- start

    async def start(self) -> None:
        """Raises WorkerFailed, ConnectError, ClientError, AdminError, OSError, and for settings that can't be used
        InvalidWorkerConfig, ConfigException and UnusableRestSetting."""
        await self.rest.start()
        registry = await asyncio.to_thread(self._discover)
        validation = validation_of(self.config, registry)
        topics = self._topics = WorkerTopics(
            self._settings,
            received_config=self._config_received,
            received_status=self._status_received,
        )
        self._tasks = await self._runtime_maker(
            config=self.config, offsets=topics.offsets, registry=registry, worker_id=self.rest.worker_id
        )
        cluster_id = await self._cluster_id()  # All that can be checked without the cluster has been.
        herder = self._herder = self._make_herder(registry)
        port = WorkerPort(herder, registry, validation, kafka_cluster_id=cluster_id)
        client = self.rest.client(port.session)
        group = self._group = GroupClient(
            self._group_network(), self._group_settings(), snapshot=lambda: herder.config, on_notice=self._noticed
        )
        self._connectors = RunningConnectors(
            registry,
            self.config.providers,
            self.secrets,
            TopicPartitions(self._admin),
            self,
            self.config.admin_properties,
        )

        async def validate(config: ConfigMap) -> ConfigInfos:
            return await port.validate_config(config)

        effects = WorkerEffects(
            topics=topics,
            group=group,
            connectors=self._connectors,
            tasks=self._tasks,
            positions=ConnectorPositions(self._admin, topics.offsets, registry, self.secrets),
            client=client,
            loggers=self.rest.loggers,
            admin=self._admin,
            secrets=self.secrets,
            validate=validate,
            on_task_event=self._task_event,
            registry=registry,
        )
        self._loop = port.loop = HerderLoop(herder, self._clock, effects.make, self._fail)
        await topics.start()
        herder.topics_read()
        self.rest.open(port, client, version=__version__, commit=_commit())
        self._mount_metrics(herder)
        if self.config.barnabas_connect_console_enable:
            self._mount_console(port)
        group.start()
        self._poller = asyncio.create_task(self._poll(), name="poll of the group")
        self._loop.wake()
        log.info("worker of group %s is listening on %s", self.config.group_id, self.rest.advertised_url)

    def _discover(self) -> PluginRegistry:
        registry = discover(allowed=self.config.barnabas_connect_plugins)
        for problem in registry.problems:
            log.warning("%s", problem)
        return registry

    async def _cluster_id(self) -> str:
        """Of the backing cluster: without it there is no worker, so it is waited for."""
        servers = self._settings["bootstrap.servers"]
        deadline_ms = self._clock.monotonic_ms() + _START_TIMEOUT_S * 1000
        while True:
            try:
                return (await self._admin.describe_cluster(timeout_s=_ATTEMPT_S)).cluster_id or ""
            except (ClientError, AdminError, TimeoutError) as error:
                if isinstance(error, Terminal) or self._clock.monotonic_ms() >= deadline_ms:
                    raise WorkerFailed(
                        f"no broker of bootstrap.servers={servers} can be asked: {error}. Start the cluster, "
                        "or change the addresses"
                    ) from error
                log.warning("waiting for a broker of bootstrap.servers=%s: %s", servers, error)
                await asyncio.sleep(0.5)

    def _make_herder(self, registry: PluginRegistry) -> Herder:
        config = self.config
        rotation = KeyRotation(
            algorithm=config.inter_worker_key_generation_algorithm,
            size=key_size(config.inter_worker_key_generation_algorithm, config.inter_worker_key_size),
            ttl_ms=config.inter_worker_key_ttl_ms,
            random_bytes=secrets.token_bytes,
        )
        settings = HerderSettings(
            worker_id=self.rest.worker_id,
            url=self.rest.advertised_url,
            group_id=config.group_id,
            protocol=self._protocol,
            sync_timeout_ms=config.worker_sync_timeout_ms,
            rebalance_wait_ms=0,  # The REST API waits, once for a request however many times it asks.
            is_topic_tracking_enabled=config.topic_tracking_enable,
            restart_budget=RestartBudget(
                max_attempts=config.barnabas_connect_task_restart_max_attempts,
                backoff_ms=config.barnabas_connect_task_restart_backoff_ms,
                backoff_max_ms=config.barnabas_connect_task_restart_backoff_max_ms,
                reset_ms=config.barnabas_connect_task_restart_reset_ms,
            ),
        )
        if self._protocol < ProtocolVersion.SESSIONED:
            log.warning(
                "connect.protocol is %s: requests between workers will not be verified, so whoever reaches this worker "
                "can change the tasks of its connectors. Set connect.protocol=sessioned on every worker",
                config.connect_protocol,
            )
        return Herder(settings, registry, rotation, self._now())

    def _now(self) -> Now:
        return Now(self._clock.monotonic_ms(), self._clock.now_ms())

    @property
    def _protocol(self) -> ProtocolVersion:
        return ProtocolVersion.of_config_value(self.config.connect_protocol)

    def _group_network(self) -> NetworkClient:
        """Members of the group are told apart by the worker's address, as Kafka's are."""
        properties = self.config.client_properties
        name = properties.get("client.id") or default_client_id(self.rest.worker_id)
        settings = client_config({**properties, "client.id": name}, source="the worker's settings")
        self._network = NetworkClient(settings)
        return self._network

    def _group_settings(self) -> GroupSettings:
        config = self.config
        return GroupSettings(
            group_id=config.group_id,
            url=self.rest.advertised_url,
            protocol=self._protocol,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            worker_sync_timeout_ms=config.worker_sync_timeout_ms,
            worker_unsync_backoff_ms=config.worker_unsync_backoff_ms,
            scheduled_rebalance_max_delay_ms=config.scheduled_rebalance_max_delay_ms,
            task_shutdown_graceful_timeout_ms=config.task_shutdown_graceful_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            reassign_immediately=config.barnabas_connect_reassign_immediately,
        )

    def _mount_metrics(self, herder: Herder) -> None:
        metrics = WorkerMetrics(
            herder, self._tasks if isinstance(self._tasks, MeasuredTasks) else None, self._clock.monotonic_ms
        )

        async def page(scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
            Request(scope)
            body, content_type = metrics.exposition()
            await Response(body, media_type=content_type)(scope, receive, send)  # type: ignore[arg-type]

        self.rest.mount(Mount("/metrics", page))  # type: ignore[arg-type]

    def _mount_console(self, port: WorkerPort) -> None:
        worker_id = self.rest.worker_id
        insight = self._tasks if isinstance(self._tasks, TaskInsight) else None
        page_data = PageData(
            port,
            worker_id=worker_id,
            now_s=monotonic,
            lags=AdminLags(self._admin, monotonic),
            insight=None if insight is None else InsightWithoutSecrets(insight, self.secrets.hide),
        )
        console = Console(
            page_data,
            worker_id=worker_id,
            group_id=self.config.group_id,
            cluster_id=port.kafka_cluster_id,
            version=__version__,
        )
        self.rest.mount(Mount(PREFIX, console))

    # -- what comes in

    def _config_received(self, record: ConsumerRecord) -> None:
        if self._herder is not None:
            self._herder.replay_config(record.key, record.value, record.offset)
            self._wake()

    def _status_received(self, record: ConsumerRecord) -> None:
        if self._herder is not None:
            self._herder.replay_status(record.key, record.value)
            self._wake()

    def _noticed(self, notice: Notice) -> None:
        if self._herder is not None and self._group is not None:
            membership = self._group.membership
            self._herder.notice(
                notice,
                membership.owners,
                membership.member_urls,
                self._now(),
                are_all_members_ours=membership.are_all_members_ours,
            )
            if self._herder.failure is not None:
                self._fail(WorkerFailed(self._herder.failure))
            self._wake()

    def _task_event(self, event: TaskEvent) -> None:
        if self._herder is not None:
            self._herder.task_event(event, self._now())
            self._wake()

    def connector_error(self, connector: str, trace: str, *, retriable: bool) -> None:
        if self._herder is not None:
            self._herder.connector_error(connector, trace, retriable=retriable)
            self._wake()

    def reconfiguration_requested(self, connector: str) -> None:
        if self._herder is not None:
            self._herder.reconfiguration.request(connector)
            self._wake()

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    async def _poll(self) -> None:
        """Show the membership that this worker is alive: its loop runs."""
        while True:
            if self._group is not None and self._herder is not None:
                self._group.poll(self._herder.context.stages.current() or "")
            await asyncio.sleep(_POLL_S)

    # -- end

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    def request_stop(self) -> None:
        """Have ``ended`` return."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def ended(self) -> None:
        """Raises what the worker can't go on with."""
        await self._ended

    async def stop(self) -> None:
        """Let go of everything, in order. After a failed start, too."""
        graceful_s = self.config.task_shutdown_graceful_timeout_ms / 1000 + _STOP_SLACK_S
        if self._loop is not None and self._herder is not None:
            try:
                async with asyncio.timeout(graceful_s):
                    await self._loop.ask(self._herder.shut_down())
            except TimeoutError:
                log.warning("not everything has stopped in %g s; the worker ends all the same", graceful_s)
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        if self._group is not None:
            try:
                async with asyncio.timeout(_STOP_SLACK_S):
                    await self._group.leave("the worker stops")
            except TimeoutError:
                log.warning("the group could not be told that this worker leaves")
            await self._group.close()
        await self.rest.stop()
        if self._loop is not None:
            await self._loop.close()
        if self._connectors is not None:
            await self._connectors.close()
        if self._tasks is not None:
            await self._tasks.close()
        if self._topics is not None:
            await self._topics.close()
        await self._admin.close()
        if self._network is not None:
            await self._network.close()


async def run_worker(config: WorkerConfig) -> None:
    """Run until SIGTERM or SIGINT. Raises what ``Worker.start`` and ``Worker.ended`` raise."""
    loop = asyncio.get_running_loop()
    worker = Worker(config)
    logging.getLogger().addHandler(worker.rest.recent_log)
    for handler in logging.getLogger().handlers:
        if handler.formatter is not None:
            handler.setFormatter(LinesWithoutSecrets(handler.formatter, worker.secrets.hide))
    running = asyncio.create_task(_start_and_wait(worker))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, worker, running)
    try:
        await running
    except asyncio.CancelledError:
        if not worker._ended.done():
            raise
    finally:
        log.info("the worker stops")
        await worker.stop()


async def _start_and_wait(worker: Worker) -> None:
    await worker.start()
    await worker.ended()


def _stop(worker: Worker, running: asyncio.Task[None]) -> None:
    """In the middle of the start there is nothing that would end by itself."""
    worker.request_stop()
    if worker._loop is None:
        running.cancel()


def _commit() -> str:
    try:
        return version("barnabas")
    except PackageNotFoundError:
        return __version__
