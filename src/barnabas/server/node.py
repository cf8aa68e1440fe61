"""Builds a node from its configuration and runs it until it is told to stop: the one place that wires everything.

Start: directories, metadata log, controller, listeners bound, registration, unfenced, listeners serve, ready line.
Stop (SIGTERM, SIGINT): leave the cluster, stop accepting, close logs, metadata log last.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
from functools import partial
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.broker.auto_topic_creation import AutoTopicCreation
from barnabas.broker.broker import Broker
from barnabas.broker.client_quotas import ClientQuotas
from barnabas.broker.fetch_session import FetchSessionCache
from barnabas.broker.group_service import GroupService
from barnabas.broker.lifecycle import BrokerLifecycle, BrokerState, to_listener
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.broker.producer_ids import ProducerIdAllocator
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.topic_defaults import TopicDefaultsPublisher
from barnabas.common.errors import ApiException
from barnabas.common.uuid import Uuid
from barnabas.controller.quorum_controller import QuorumController
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import MetadataLoader
from barnabas.network.api_handler import HandlerTable
from barnabas.network.connection_quotas import ConnectionQuotas
from barnabas.network.listener import ConnectionLimits, Listener
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.security.credential_publisher import CredentialPublisher
from barnabas.security.delegation_tokens import token_hmacs_of
from barnabas.server.config_encryption import EncryptedConfigsCheck, config_cipher, offered_features
from barnabas.server.connection_settings import ConnectionEffect, IpRatePublisher, connection_caps
from barnabas.server.controller_handlers import (
    SERVED_ON_CONTROLLER_LISTENERS,
    SERVED_TO_OWN_BROKER,
    ControllerHandlers,
)
from barnabas.server.controller_registration import register_controller
from barnabas.server.controller_service import ControllerService
from barnabas.server.descriptor_budget import descriptor_budget, raise_descriptor_limit
from barnabas.server.dynamic_effects import CleanerEffect, ListenerEffect, ProducerIdEffect
from barnabas.server.dynamic_settings import DynamicSettings
from barnabas.server.in_process_channel import InProcessChannel
from barnabas.server.listener_security import listener_security
from barnabas.server.log_maintenance import LogMaintenance
from barnabas.server.logging_setup import configure_logging
from barnabas.server.metadata_listener import MetadataListener
from barnabas.server.metadata_record_serde import MetadataRecordSerde
from barnabas.server.metadata_snapshots import MetadataSnapshots, SnapshotGenerator
from barnabas.server.node_authorizer import NodeAuthorizer
from barnabas.server.node_metrics import MetricsEndpoint
from barnabas.server.node_storage import NodeStartError, read_identity
from barnabas.server.own_principal import own_context, own_principal
from barnabas.server.part_settings import (
    broker_settings,
    controller_config,
    group_config,
    metadata_log_config,
    raft_config,
)
from barnabas.server.raft_driver import RaftDriver
from barnabas.server.system_clock import SystemClock
from barnabas.storage.bootstrap_file import read_bootstrap_file
from barnabas.storage.errors import StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.broker_settings import BrokerSettings
    from barnabas.network.api_stats import ApiStats
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.server.access_audit import AccessAuditService
    from barnabas.server.listeners import Endpoint
    from barnabas.server.node_config import NodeConfig
    from barnabas.server.policies import Policies

__all__ = ["Node", "run"]

log = logging.getLogger("barnabas.server.node")

_SHUTDOWN_TIMEOUT_S = 5.0
_SWITCH_INTERVAL_S = 0.0005
"""How long a thread that computes (a cleaner, the check of a large batch) keeps the loop waiting, each time."""
_SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Node:
    """A combined broker and controller. ``start`` returns when it serves; ``stop`` may be called at any time."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.clock = SystemClock()
        self.started = asyncio.Event()
        self.failure: BaseException | None = None
        self.stopping = asyncio.Event()
        self.broker_stats: dict[ApiKey, ApiStats] = {}
        self.controller_stats: dict[ApiKey, ApiStats] = {}
        self.listeners: dict[str, Listener] = {}
        self.dispatchers: list[RequestDispatcher] = []
        self._build()

    @property
    def is_ready(self) -> bool:
        """Whether clients are served as a member of the cluster."""
        return self.started.is_set() and self.failure is None and self.lifecycle.state is BrokerState.RUNNING

    # --- building

    def _build(self) -> None:
        config = self.config
        self.identity = read_identity(config)
        self.serde = MetadataRecordSerde()
        self.authorization = NodeAuthorizer(config, high_watermark=lambda: self.driver.high_watermark)
        self.authorizer = self.authorization.authorizer
        self.own_principal = own_principal(config)
        self.config_cipher = config_cipher(config)
        self.encrypted_configs = EncryptedConfigsCheck(self.config_cipher)
        self.descriptors = descriptor_budget(raise_descriptor_limit(), config.barnabas_max_open_files)
        self.logs = LogManager(
            config.log_dirs,
            default_config=config.topic_defaults,
            pool=FilePool(self.descriptors.files_max),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        self.report = self.logs.startup(now_ms=self.clock.now_ms())
        self._build_controller()
        self._build_broker()
        self.audit = self._build_audit()

    def _build_controller(self) -> None:
        config = self.config
        self.controller_service = ControllerService(clock=self.clock)
        self.policies = self._policies()
        self.controller = QuorumController(
            controller_config(config, self.identity, self.policies, self.config_cipher),
            clock=self.clock,
            new_uuid=lambda: Uuid(os.urandom(16)),
            random_int=random.SystemRandom().randrange,
            bootstrap=[
                ApiMessageAndVersion(record, 0)
                for record in read_bootstrap_file(config.metadata_log_dir, self.serde) or ()
            ],
            on_appends=self.controller_service.wake,
            on_fault=lambda fault: log.error("controller fault", exc_info=fault),
            describe_quorum=lambda request, version: self.driver.describe_quorum(request, version),
        )
        self.driver = RaftDriver(
            config=raft_config(config, self.identity),
            log_config=metadata_log_config(config),
            clock=self.clock,
            serde=self.serde,
            fault_handler=self._fail,
        )
        self.channel = InProcessChannel(
            controller=self.controller,
            handlers=ControllerHandlers(SERVED_TO_OWN_BROKER, self.policies),
            authorizer=self.authorizer,
            own_context=partial(own_context, config, self.own_principal),
        )

    def _build_broker(self) -> None:
        config = self.config
        self.metadata = MetadataCache()
        self.replicas = ReplicaManager(
            broker_id=config.node_id, logs=self.logs, clock=self.clock, defaults=config.topic_defaults
        )
        self.groups = GroupService(
            group_config(config),
            broker_id=config.node_id,
            replicas=self.replicas,
            clock=self.clock,
            new_uuid=lambda: str(_random_uuid()),
        )
        self.token_hmacs = token_hmacs_of(config.delegation_token_secret_key)
        self.credentials = CredentialPublisher(
            clock=self.clock, hmacs=self.token_hmacs, cluster_id=self.identity.cluster_id
        )
        self.lifecycle = BrokerLifecycle(
            broker_id=config.node_id,
            cluster_id=self.identity.cluster_id,
            incarnation_id=Uuid(os.urandom(16)),
            rack=config.broker_rack,
            directory_ids=self.identity.directory_ids,
            features=offered_features(self.config_cipher),
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            metadata_offset=lambda: self.metadata.image.offset,
            controller=self.channel,
        )
        self.maintenance = LogMaintenance(config, self.logs, self.replicas, self.clock)
        settings = broker_settings(config)
        self.dynamic_settings = DynamicSettings(
            config,
            configs=lambda: self.metadata.image.configs,
            cipher=self.config_cipher,
            effects=(CleanerEffect(self.maintenance), ProducerIdEffect(self.logs, settings)),
        )
        self.broker = self._broker(settings)
        self._build_quotas()
        self._follow_metadata()
        self.metrics = MetricsEndpoint(self)

    def _broker(self, settings: BrokerSettings) -> Broker:
        config = self.config
        return Broker(
            broker_id=config.node_id,
            cluster_id=self.identity.cluster_id,
            settings=settings,
            static_configs=config.static,
            served=SERVED_BY_BROKER,
            supported_features=SUPPORTED_FEATURES,
            kraft_version=self._kraft_version,
            metadata=self.metadata,
            replicas=self.replicas,
            fetch_sessions=FetchSessionCache(
                slots=config.max_incremental_fetch_session_cache_slots,
                eviction_ms=120_000,
                new_session_id=lambda: random.randint(1, 2**31 - 1),
            ),
            controller=self.channel,
            dynamic_settings=self.dynamic_settings,
            producer_ids=ProducerIdAllocator(
                broker_id=config.node_id,
                broker_epoch=lambda: self.lifecycle.broker_epoch,
                controller=self.channel,
            ),
            topic_creation=AutoTopicCreation(settings=settings, controller=self.channel),
            groups=self.groups,
            clock=self.clock,
            token_hmacs=self.token_hmacs,
        )

    def _build_quotas(self) -> None:
        config = self.config
        self.client_quotas = ClientQuotas(
            clock=self.clock,
            window_count=config.quota_window_num,
            window_s=config.quota_window_size_seconds,
            on_change=self._follow_quotas,
        )
        self.broker_connections = self._connection_quotas(config.broker_listeners, config.inter_broker_listener_name)
        self.controller_connections = self._connection_quotas(config.controller_listeners)

    def _follow_metadata(self) -> None:
        """Who is told of each new image, in this order: nobody sees a topic before the rules about it."""
        config = self.config
        self.loader = MetadataLoader()
        self.authorization.install(self.loader)
        self.snapshots = MetadataSnapshots(self.driver)
        self.snapshot_generator = SnapshotGenerator(
            self.snapshots,
            self.driver,
            max_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        )
        defaults = TopicDefaultsPublisher(
            broker_id=config.node_id, static_configs=config.static, set_defaults=self.replicas.set_defaults
        )
        for publisher in (
            self.encrypted_configs,
            self.metadata,
            self.credentials,
            defaults,
            self.replicas,
            self.groups,
            self.snapshot_generator,
            self.dynamic_settings,
            self.client_quotas,
            IpRatePublisher((self.broker_connections, self.controller_connections)),
        ):
            self.loader.install(publisher)

    def _connection_quotas(self, endpoints: Sequence[Endpoint], protected: str | None = None) -> ConnectionQuotas:
        config, names = self.config, [endpoint.listener for endpoint in endpoints]
        try:
            caps = connection_caps(config, names, protected=protected)
        except ValueError as error:
            raise NodeStartError(str(error)) from error
        quotas = ConnectionQuotas(
            caps,
            now_s=monotonic,
            window_count=config.quota_window_num,
            window_s=config.quota_window_size_seconds,
        )
        self.dynamic_settings.add_effect(ConnectionEffect(quotas, names, protected))
        return quotas

    def _follow_quotas(self, is_any_set: bool) -> None:
        """Where no quota is set, no request pays for counting."""
        quotas = self.client_quotas if is_any_set else None
        self.broker.quotas = quotas
        for dispatcher in self.dispatchers:
            dispatcher.quotas = quotas

    def _build_audit(self) -> AccessAuditService | None:
        if self.authorizer.is_absent and not self.config.barnabas_audit_topic_enable:
            return None
        from barnabas.server.access_audit import audit_of

        return audit_of(self)

    def _policies(self) -> Policies | None:
        if not (self.config.create_topic_policy_class_name or self.config.alter_config_policy_class_name):
            return None
        from barnabas.server.policies import policies_of  # A node without policies does not load it.

        return policies_of(self.config)

    def _kraft_version(self) -> int:
        return self.driver.control_records.last_kraft_version

    # --- life

    async def start(self) -> None:
        """Returns when the node serves clients. Raises NodeStartError."""
        try:
            self.metrics.bind()
            await self._bind()
        except OSError as error:
            raise NodeStartError(f"a listener cannot be opened: {error.strerror or error}") from error
        self.controller_service.connect(self.driver, self.controller)
        self.driver.register(
            MetadataListener(
                node_id=self.config.node_id,
                loader=self.loader,
                controller=self.controller,
                serde=self.serde,
                next_offset=lambda: self.driver.next_offset,
                kraft_version=self._kraft_version,
            )
        )
        self.driver.start()
        await self._open_listeners(early=True)
        try:
            await register_controller(
                self.channel,
                node_id=self.config.node_id,
                incarnation_id=Uuid(os.urandom(16)),
                endpoints=self._advertised_controllers(),
                features=offered_features(self.config_cipher),
            )
            await self.lifecycle.register(
                [
                    to_listener(each.listener, each.host, each.port, _SECURITY_PROTOCOLS[each.security_protocol])
                    for each in self._advertised()
                ],
                self.logs.previous_broker_epoch,
            )
        except ApiException as error:
            self.encrypted_configs.require_readable(self.metadata.image)
            raise NodeStartError(str(error)) from error
        self.encrypted_configs.require_readable(self.metadata.image)
        self.replicas.delete_strays()
        self.groups.start()
        self.maintenance.start()
        self.snapshots.start()
        await self.dynamic_settings.applied()
        await self.authorization.ready.wait()
        self.authorization.warn_about_own_broker(self.own_principal)
        await self._open_listeners(early=False)
        await self.metrics.start()
        if self.audit is not None:
            self.audit.start()
        self.started.set()

    async def _open_listeners(self, *, early: bool) -> None:
        """Those that read requests before the authorizer has all of its rules, or the others."""
        for listener in self.listeners.values():
            if self.authorization.opens_early(listener.name) is early:
                await listener.start()

    async def _bind(self) -> None:
        config = self.config
        limits = ConnectionLimits(
            request_bytes_max=config.socket_request_max_bytes,
            idle_ms_max=config.connections_max_idle_ms,
            total_max=self.descriptors.connections_max,
            handshake_ms_max=config.barnabas_authentication_timeout_ms,
        )
        broker_handlers = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
        controller_handlers = ControllerHandlers(SERVED_ON_CONTROLLER_LISTENERS, self.policies)
        for endpoint in config.broker_listeners:
            dispatcher = RequestDispatcher(
                server=self.broker,
                handlers=broker_handlers,
                authorizer=self.authorizer,
                stats=self.broker_stats,
                security_protocol=endpoint.security_protocol,
            )
            await self._open(endpoint, dispatcher, limits, self.broker_connections)
        for endpoint in config.controller_listeners:
            if all(endpoint.listener != name for name in self.listeners) and endpoint.port >= 0:
                dispatcher = RequestDispatcher(
                    server=self.controller,
                    handlers=controller_handlers,
                    authorizer=self.authorizer,
                    stats=self.controller_stats,
                    is_privileged=True,
                    security_protocol=endpoint.security_protocol,
                )
                await self._open(endpoint, dispatcher, limits, self.controller_connections)

    async def _open(
        self,
        endpoint: Endpoint,
        dispatcher: RequestDispatcher,
        limits: ConnectionLimits,
        quotas: ConnectionQuotas,
    ) -> None:
        security = listener_security(self.config, endpoint, credentials=self.credentials, clock=self.clock)
        listener = Listener(endpoint.listener, dispatcher, limits, security, quotas)
        try:
            await listener.bind(endpoint.host, endpoint.port, self.config.socket_listen_backlog_size)
        except OSError as error:
            raise OSError(error.errno, f"{endpoint}: {error.strerror or error}") from error
        if security is not None and endpoint in self.config.broker_listeners:
            self.dynamic_settings.add_effect(ListenerEffect(security))
        self.authorization.guard(listener, dispatcher)
        self.dispatchers.append(dispatcher)
        self.listeners[endpoint.listener] = listener

    def _advertised(self) -> list[Endpoint]:
        """What clients are told: a port of 0 becomes the one that the system chose."""
        advertised = []
        for endpoint in self.config.advertised_broker_listeners:
            port = endpoint.port or self.listeners[endpoint.listener].port
            advertised.append(endpoint._replace(host=endpoint.host or _own_name(), port=port))
        return advertised

    def _advertised_controllers(self) -> list[Endpoint]:
        advertised = self.config.advertised_controller_listeners or self.config.controller_listeners
        return [
            endpoint._replace(
                host=endpoint.host or _own_name(), port=endpoint.port or self.listeners[endpoint.listener].port
            )
            for endpoint in advertised
        ]

    def describe_listeners(self) -> str:
        described = [str(endpoint) for endpoint in self._advertised()]
        described += [str(endpoint) for endpoint in self._advertised_controllers()]
        return ", ".join(described)

    async def stop(self) -> None:
        """Leave the cluster and close everything; what was acknowledged is on disk afterwards."""
        if self.audit is not None:
            await self.audit.flush()
        if self.started.is_set() and self.failure is None:
            await self.lifecycle.shut_down(_SHUTDOWN_TIMEOUT_S)
        await self.metrics.stop()
        for listener in self.listeners.values():
            await listener.close()
        if self.audit is not None:
            await self.audit.stop()
        await self.maintenance.stop()
        self.replicas.close()
        self.groups.stop()
        self.controller_service.close()
        self.snapshots.close()
        await self.snapshot_generator.close()
        self.logs.shutdown(now_ms=self.clock.now_ms(), broker_epoch=self.lifecycle.broker_epoch)
        await self.driver.close()
        self.authorization.close()
        if self.policies is not None:
            self.policies.close()

    def _fail(self, fault: BaseException) -> None:
        """The metadata log cannot go on: neither can we."""
        log.critical("the metadata log failed; the node stops", exc_info=fault)
        self.failure = fault
        self.stopping.set()


def _random_uuid() -> Any:
    from uuid import UUID

    return UUID(bytes=os.urandom(16), version=4)


def _own_name() -> str:
    import socket

    return socket.getfqdn()


def run(config: NodeConfig) -> int:
    """Run a node until SIGTERM or SIGINT. The exit status: 0 after a clean stop, 1 when it can't start or failed."""
    configure_logging(config)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    for warning in config.warnings:
        log.warning("%s", warning)
    try:
        return asyncio.run(_main(config))
    except NodeStartError as error:
        log.critical("the node can't start: %s", error)
        return 1
    except StorageError as error:
        log.critical("the node can't start: %s", error)
        return 1


async def _main(config: NodeConfig) -> int:
    began = perf_counter()
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config)
    # What a start reads from disk stays: looking through it for garbage again and again would take half of the time.
    gc.collect()
    gc.disable()
    starting = loop.create_task(node.start())
    stopped = loop.create_task(stop.wait())
    failed = loop.create_task(node.stopping.wait())
    try:
        await asyncio.wait({starting, stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            gc.freeze()
            gc.enable()
            log.info(
                "barnabas node %d is ready in %.2f s: %s; cluster %s; data in %s",
                config.node_id,
                perf_counter() - began,
                node.describe_listeners(),
                node.identity.cluster_id,
                ", ".join(config.log_dirs),
            )
            await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gc.enable()
        for task in (starting, stopped, failed):
            task.cancel()
        await node.stop()
    if node.failure is not None:
        return 1
    log.info("barnabas node %d has stopped", config.node_id)
    return 0
