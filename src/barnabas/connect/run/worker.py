"""A worker with its settings. ``start`` returns a ``RunningWorker``.

Start: the REST API listens (and returns 404), the topics are read to their ends, the API opens, the worker joins the
group. Stop: tasks and connectors stop and write their statuses, the worker leaves the group so that others take over
immediately, the API closes last. The herder decides; see ``decide.herder.herder``. Blocking calls (plugins, Spark) run
on threads.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
from contextlib import AsyncExitStack
from typing import Protocol

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import Terminal
from barnabas.common.system_clock import SystemClock
from barnabas.connect.decide.group.client_ids import default_client_id
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_runtime import OffsetStore, StartChecks, TaskRuntime
from barnabas.connect.decide.validation.worker_validation import validation_of
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.rest.rest_server import RestServer
from barnabas.connect.rest.rest_settings import RestSettings
from barnabas.connect.run.internal_topics.worker_topics import WorkerTopics
from barnabas.connect.run.known_secrets import KnownSecrets, LinesWithoutSecrets
from barnabas.connect.run.retries import Retries
from barnabas.connect.run.running_worker import RunningWorker, WorkerFailed
from barnabas.connect.settings.worker_config import WorkerConfig
from barnabas.network.daemon_call import daemon_call

__all__ = ["MakeRuntime", "Worker", "WorkerFailed", "run_worker"]

log = logging.getLogger(__name__)

_START_TIMEOUT_S = 60.0
_ATTEMPT_S = 5.0


class MakeRuntime(Protocol):
    """Creates the task runtime, on the event loop."""

    async def __call__(
        self, *, config: WorkerConfig, offsets: OffsetStore, registry: PluginRegistry, worker_id: str
    ) -> TaskRuntime: ...


class Worker:
    """``running = await start()``, then ``await running.ended()`` and ``await running.stop()``."""

    def __init__(self, config: WorkerConfig, make_runtime: MakeRuntime) -> None:
        """Raise UnusableRestSetting for invalid settings."""
        self.config = config
        self.secrets = KnownSecrets(config.providers)
        self._make_runtime = make_runtime
        self._clock = SystemClock()
        self._settings = {**config.texts}
        self.rest = RestServer(RestSettings.read(self._settings), clock=self._clock, random_bytes=secrets.token_bytes)

    async def start(self) -> RunningWorker:
        """Start. After an error or a cancellation everything is closed.

        Raise WorkerFailed, ConnectError, ClientError, AdminError, OSError, and for unusable settings
        InvalidWorkerConfig, ConfigException and UnusableRestSetting.
        """
        parts = AsyncExitStack()
        try:
            return await self._start(parts)
        except BaseException:
            await parts.aclose()
            raise

    async def _start(self, parts: AsyncExitStack) -> RunningWorker:
        parts.push_async_callback(self.rest.stop)
        await self.rest.start()
        registry = await daemon_call(self._discover)
        validation_of(self.config, registry)  # Raises for unusable settings, before anything else starts.
        topics = WorkerTopics(
            self._settings,
            received_config=lambda record: running.config_received(record),
            received_status=lambda record: running.status_received(record),
        )
        parts.push_async_callback(topics.close)
        tasks = await self._make_runtime(
            config=self.config, offsets=topics.offsets, registry=registry, worker_id=self.rest.worker_id
        )
        parts.push_async_callback(tasks.close)
        validation = validation_of(self.config, registry, tasks if isinstance(tasks, StartChecks) else None)
        admin = AdminClient(config=client_config(self.config.client_properties, source="the worker's settings"))
        parts.push_async_callback(admin.close)
        cluster_id = await self._cluster_id(admin)  # All checks without the cluster are done.
        network = self._group_network()
        parts.push_async_callback(network.close)
        running = RunningWorker(
            self.config,
            self.rest,
            parts,
            clock=self._clock,
            secrets=self.secrets,
            admin=admin,
            network=network,
            registry=registry,
            validation=validation,
            topics=topics,
            tasks=tasks,
            kafka_cluster_id=cluster_id,
        )
        await topics.start()
        running.begin()
        return running

    def _discover(self) -> PluginRegistry:
        registry = discover(allowed=self.config.barnabas_connect_plugins)
        for problem in registry.problems:
            log.warning("%s", problem)
        return registry

    async def _cluster_id(self, admin: AdminClient) -> str:
        """Return the id of the backing cluster. Wait for it, because the worker needs it to start."""
        servers = self._settings["bootstrap.servers"]
        deadline_ms = self._clock.monotonic_ms() + _START_TIMEOUT_S * 1000
        retries = Retries()
        while True:
            try:
                return (await admin.describe_cluster(timeout_s=_ATTEMPT_S)).cluster_id or ""
            except (ClientError, AdminError, TimeoutError) as error:
                if isinstance(error, Terminal) or self._clock.monotonic_ms() >= deadline_ms:
                    raise WorkerFailed(
                        f"no broker of bootstrap.servers={servers} can be reached: {error}. Start the cluster, "
                        "or change the addresses"
                    ) from error
                cause = str(error) or f"no answer in {_ATTEMPT_S:g} s"
                await retries.failed(f"waiting for a broker of bootstrap.servers={servers}: {cause}")

    def _group_network(self) -> NetworkClient:
        """Return the network. The worker's address identifies the member in the group, as in Kafka."""
        properties = self.config.client_properties
        name = properties.get("client.id") or default_client_id(self.rest.worker_id)
        return NetworkClient(client_config({**properties, "client.id": name}, source="the worker's settings"))


async def run_worker(config: WorkerConfig, make_runtime: MakeRuntime) -> None:
    """Run until SIGTERM or SIGINT. Raises the errors of ``Worker.start`` and ``RunningWorker.ended``."""
    worker = Worker(config, make_runtime)
    logging.getLogger().addHandler(worker.rest.recent_log)
    for handler in logging.getLogger().handlers:
        if handler.formatter is not None:
            handler.setFormatter(LinesWithoutSecrets(handler.formatter, worker.secrets.hide))
    loop = asyncio.get_running_loop()
    is_stopping = asyncio.Event()
    running = asyncio.create_task(_start_and_wait(worker))

    def stop() -> None:
        if not is_stopping.is_set():  # A second signal does not interrupt the stop.
            is_stopping.set()
            running.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await running
    except asyncio.CancelledError:
        if not is_stopping.is_set():
            raise


async def _start_and_wait(worker: Worker) -> None:
    running = await worker.start()
    try:
        await running.ended()
    finally:
        log.info("the worker stops")
        await running.stop()
