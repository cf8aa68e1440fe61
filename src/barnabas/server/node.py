"""Builds a node from its configuration and runs it until a stop is requested. Only this module connects its parts.

A node is a core (``node_core``) with a controller (``controller_part``), a broker (``broker_part``) or both, according
to ``process.roles``.

Start: ports free, directories, metadata log, listeners bound, registration, unfenced, listeners serve, ready line.
Stop (SIGTERM, SIGINT): leave the cluster, stop accepting, close logs, metadata log last.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from time import perf_counter
from typing import TYPE_CHECKING

from barnabas.broker.client_quotas import ClientQuotas
from barnabas.broker.lifecycle import BrokerState
from barnabas.common.errors import ApiException
from barnabas.common.switch_interval import shorten_switch_interval
from barnabas.server.broker_part import BrokerPart
from barnabas.server.controller_channel.combined import network_channel
from barnabas.server.controller_part import ControllerPart
from barnabas.server.listeners.node_listeners import NodeListeners
from barnabas.server.metrics.endpoint import MetricsEndpoint
from barnabas.server.node_core import NodeCore
from barnabas.server.process.event_loop_turns import measured_loop
from barnabas.server.process.garbage_collection import BoundedPauses
from barnabas.server.process.listening_ports import require_free_ports
from barnabas.server.process.logging_setup import configure_logging
from barnabas.server.process.readiness import Readiness
from barnabas.server.start_errors import LogDirectoriesLost, NodeStartError
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from barnabas.metadata.image.metadata_image import MetadataImage
    from barnabas.server.audit.service import AccessAuditService
    from barnabas.server.controller_channel.network import NetworkChannel
    from barnabas.server.settings.endpoints import Endpoint
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["Node", "run"]

log = logging.getLogger("barnabas.server.node")


class Node:
    """A running node. ``start`` returns when the node serves; ``stop`` may be called at any time."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.started = asyncio.Event()
        self.core = NodeCore(config)
        self.listeners = NodeListeners(self.core)
        self.controller_part = ControllerPart(self.core, self._make_remote) if config.is_controller else None
        self.channel = self._make_remote() if self.controller_part is None else self.controller_part.channel
        self.broker_part = BrokerPart(self.core, self.channel) if config.is_broker else None
        broker = self.broker_part
        self.client_quotas = ClientQuotas(
            clock=self.core.clock,
            window_count=config.quota_window_num,
            window_s=config.quota_window_size_seconds,
            on_change=self._follow_quotas,
        )
        registration = () if self.controller_part is None else (self.controller_part.registration,)
        self.core.follow_metadata(
            first=() if broker is None else broker.publishers, last=(self.client_quotas, *registration)
        )
        self.metrics = MetricsEndpoint(self)
        self.audit = self._build_audit()

    def _make_remote(self) -> NetworkChannel:
        return network_channel(self.core, self.listeners.serialize_principal)

    def _build_audit(self) -> AccessAuditService | None:
        if self.core.authorizer.is_absent and not self.config.barnabas_audit_topic_enable:
            return None
        from barnabas.server.audit.service import audit_of

        return audit_of(self.core, self.broker_part)

    def _follow_quotas(self, is_any_set: bool) -> None:
        """Count requests only while quotas are set."""
        quotas = self.client_quotas if is_any_set else None
        if self.broker_part is not None:
            self.broker_part.broker.quotas = quotas
        for dispatcher in self.listeners.dispatchers:
            dispatcher.quotas = quotas

    @property
    def is_ready(self) -> bool:
        """Whether the node serves as a member of the cluster."""
        if not self.started.is_set() or self.core.failure is not None:
            return False
        return self.broker_part is None or self.broker_part.lifecycle.state is BrokerState.RUNNING

    def metadata_images(self) -> list[MetadataImage]:
        controller = self.controller_part
        of_controller = () if controller is None else (controller.controller.committed_image,)
        return [self.core.loader.image, *of_controller]

    # --- life

    async def start(self) -> None:
        """Start the node, and return when it serves clients. Raise NodeStartError if it can't start."""
        core = self.core
        await self._bind()
        self.metrics.start_soon()
        controller = self.controller_part
        if controller is not None:
            controller.connect()
        core.start_log(None if controller is None else controller.controller)
        await self.listeners.start(early=True)
        try:
            await self._join()
        except ApiException as error:
            core.encrypted_configs.require_readable(core.metadata.image)
            raise NodeStartError(str(error)) from error
        core.encrypted_configs.require_readable(core.metadata.image)
        if self.broker_part is not None:
            self.broker_part.start()
        core.snapshots.start()
        await core.dynamic_settings.applied()
        await core.authorization.ready.wait()
        if controller is not None and self.broker_part is not None:
            core.authorization.warn_about_own_broker(controller.own_principal)
        await self.listeners.start(early=False)
        await self.metrics.start()
        if self.audit is not None:
            self.audit.start()
        self.started.set()

    async def _bind(self) -> None:
        try:
            self.metrics.bind()
            for part in (self.broker_part, self.controller_part):
                if part is not None:
                    await part.bind(self.listeners)
        except OSError as error:
            raise NodeStartError(f"a listener cannot be opened: {error.strerror or error}") from error

    async def _join(self) -> None:
        for part in (self.controller_part, self.broker_part):
            if part is not None:
                await part.join(self.listeners)

    def advertised(self) -> list[Endpoint]:
        parts = [part for part in (self.broker_part, self.controller_part) if part is not None]
        return [endpoint for part in parts for endpoint in part.advertised(self.listeners)]

    def ready_facts(self) -> dict[str, object]:
        """Return what a program needs that waits for this node: the ready line in JSON."""
        config, brokers = self.config, self.broker_part
        clients = () if brokers is None else brokers.advertised(self.listeners)
        return {
            "node_id": config.node_id,
            "cluster_id": self.core.identity.cluster_id,
            "bootstrap_servers": ",".join(str(endpoint).partition("://")[2] for endpoint in clients[:1]),
            "listeners": {endpoint.listener: str(endpoint).partition("://")[2] for endpoint in self.advertised()},
            "metrics_port": self.metrics.port or None,
            "log_dirs": [os.path.abspath(path) for path in config.log_dirs],
        }

    async def stop(self) -> None:
        """Leave the cluster and close everything. Afterwards all acknowledged records are on disk."""
        core, broker, controller = self.core, self.broker_part, self.controller_part
        if self.audit is not None:
            await self.audit.flush()
        may_leave = core.failure is None or isinstance(core.failure, LogDirectoriesLost)
        if broker is not None and self.started.is_set() and may_leave:
            await broker.leave()
        await core.leave_quorum()
        await self.metrics.stop()
        await self.listeners.close()
        if self.audit is not None:
            await self.audit.stop()
        if broker is not None:
            await broker.stop()
        if controller is not None:
            controller.close()
        await self.channel.close()
        core.snapshots.close()
        await core.snapshot_generator.close()
        if broker is not None:
            broker.close_logs()
        await core.close_log()
        if controller is not None:
            controller.close_policies()


def run(config: NodeConfig, readiness: Readiness | None = None) -> int:
    """Run a node until SIGTERM or SIGINT. Return the exit status: 0 after a clean stop, 1 after an error."""
    configure_logging(config)
    shorten_switch_interval()
    for warning in config.warnings:
        log.warning("%s", warning)
    try:
        with asyncio.Runner(loop_factory=measured_loop) as runner:
            return runner.run(_main(config, readiness or Readiness()))
    except NodeStartError as error:
        log.critical("the node can't start: %s", error)
        return 1
    except StorageError as error:
        log.critical("the node can't start: %s", error)
        return 1
    except OSError as error:
        log.critical("the node can't continue: %s: %s", error.filename or "a file", error.strerror or error)
        return 1


async def _main(config: NodeConfig, readiness: Readiness) -> int:
    began = perf_counter()
    require_free_ports(config)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config)
    # Objects read at start-up stay alive: repeated collections over them would take half of the start-up time.
    gc.collect()
    gc.disable()
    pauses = BoundedPauses(node.metadata_images)
    starting = loop.create_task(node.start())
    stopped = loop.create_task(stop.wait())
    failed = loop.create_task(node.core.stopping.wait())
    try:
        await asyncio.wait({starting, stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            gc.freeze()
            gc.enable()
            pauses.install()
            start_s = perf_counter() - began
            log.info(
                "barnabas node %d is ready in %.2f s: %s; cluster %s; data in %s",
                config.node_id,
                start_s,
                ", ".join(map(str, node.advertised())),
                node.core.identity.cluster_id,
                ", ".join(config.log_dirs),
            )
            readiness.ready({**node.ready_facts(), "start_s": round(start_s, 3)})
            await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        readiness.stopping()
        pauses.remove()
        gc.enable()
        for task in (starting, stopped, failed):
            task.cancel()
        await node.stop()
    if node.core.failure is not None:
        return 1
    log.info("barnabas node %d has stopped", config.node_id)
    return 0
