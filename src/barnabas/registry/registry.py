"""A registry with its settings: ``running = await start_registry(config)``, then ``await running.stop()``.

Start: the listeners open and answer 503, the topic is read to its end, the registry joins its group, the API opens.
Stop: it leaves the group, so that another registry leads immediately, and the listeners close last. Only this module
connects the parts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
from contextlib import AsyncExitStack
from time import monotonic

import httpx

from barnabas import __version__
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import Terminal
from barnabas.common.system_clock import SystemClock
from barnabas.connect.rest.authentication_setup import Authentication, set_up_authentication
from barnabas.connect.rest.host_names import HostNames
from barnabas.connect.rest.http_listener import HttpListener, bind
from barnabas.connect.rest.loop_sharing import LoopSharing
from barnabas.connect.rest.request_body import BodyLimits, BodyMemory
from barnabas.connect.rest.tls_setup import http_client, listener_tls
from barnabas.connect.settings.listener_urls import Listener
from barnabas.registry.decide.changes import ChangeRules, Changes
from barnabas.registry.decide.election import Identity
from barnabas.registry.decide.formats.avro_format import AvroFormat
from barnabas.registry.decide.formats.json_format import JsonFormat
from barnabas.registry.decide.formats.parsing import Parsing
from barnabas.registry.decide.formats.protobuf_format import ProtobufFormat
from barnabas.registry.decide.levels import level_named
from barnabas.registry.decide.schema import AVRO, JSON, PROTOBUF
from barnabas.registry.rest.api_request import Services
from barnabas.registry.rest.application import RegistryApplication, RegistryParts, RegistryRules
from barnabas.registry.rest.forwarding import Forwarder
from barnabas.registry.run.acl_rules import AclRules, AllowAll
from barnabas.registry.run.leadership import Leadership
from barnabas.registry.run.protobuf_compiler import compile_protobuf
from barnabas.registry.run.registry_metrics import RegistryMetrics
from barnabas.registry.run.schema_operations import SchemaOperations
from barnabas.registry.run.schema_store import SchemaStore
from barnabas.registry.settings.registry_config import RegistryConfig

__all__ = ["RegistryFailed", "RunningRegistry", "run_registry", "start_registry"]

log = logging.getLogger(__name__)

_ATTEMPT_S = 5.0
_FORWARD_TIMEOUT_S = 60.0
_TLS_LOOK_S = 5.0
_MEMORY_FACTOR = 16
_EVERYWHERE = ("", "0.0.0.0", "::")


class RegistryFailed(Terminal, Exception):
    """The registry can't start. The text says what to change."""


class RunningRegistry:
    """``url`` is the one for the other registries of the group, without a slash at the end."""

    def __init__(self, url: str, ports: tuple[int, ...], leadership: Leadership, parts: AsyncExitStack) -> None:
        self.url = url
        self.ports = ports
        self.leadership = leadership
        self._parts = parts

    async def stop(self) -> None:
        log.info("the registry stops")
        await self._parts.aclose()


async def start_registry(config: RegistryConfig) -> RunningRegistry:
    """Start. After an error or a cancellation everything is closed.

    Raise RegistryFailed, UnusableRestSetting, ConnectError, ClientError, AdminError, OSError.
    """
    parts = AsyncExitStack()
    try:
        return await _Start(config, parts).run()
    except BaseException:
        await parts.aclose()
        raise


class _Start:
    """One start. ``parts`` closes what exists already."""

    def __init__(self, config: RegistryConfig, parts: AsyncExitStack) -> None:
        self._config = config
        self._parts = parts
        self._clock = SystemClock()
        self._listeners: list[HttpListener] = []

    async def run(self) -> RunningRegistry:
        config = self._config
        application, authentication = self._application()
        await self._listen(application, is_open=authentication.authenticator is None)
        authentication.start()
        admin = AdminClient(config=client_config(config.client_properties, source="the registry's settings"))
        self._parts.push_async_callback(admin.close)
        cluster_id = await self._cluster_id(admin)
        store = SchemaStore(config, admin)
        self._parts.push_async_callback(store.close)
        await store.start()
        identity = self._identity()
        leadership = await self._leadership(identity, store)
        changes = Changes(
            store.state, ChangeRules(level_named(config.schema_compatibility_level), config.mode_mutability)
        )
        schemas = SchemaOperations(store, changes, _parsing())
        self._parts.callback(schemas.close)
        metrics = RegistryMetrics(store, schemas, leadership, application.counts)
        group_id = config.schema_registry_group_id
        services = Services(store, changes, schemas, cluster_id, group_id, __version__, metrics.exposition)
        use_acls = config.barnabas_registry_authorization == "acls"
        rights = AclRules(admin, config, monotonic) if use_acls else AllowAll()
        leadership.start()
        application.open(RegistryParts(services, rights, self._forwarder(leadership)))
        ports = tuple(listener.port for listener in self._listeners)
        log.info("registry of group %s is listening on %s", group_id, identity.url)
        return RunningRegistry(identity.url, ports, leadership, self._parts)

    def _application(self) -> tuple[RegistryApplication, Authentication]:
        config = self._config
        authentication = set_up_authentication(
            config.authentication, clock=self._clock, random_bytes=secrets.token_bytes
        )
        self._parts.callback(authentication.close)
        bytes_max = config.barnabas_registry_request_max_bytes
        memory = BodyMemory(BodyLimits(bytes_max, bytes_max, bytes_max * _MEMORY_FACTOR))
        rules = RegistryRules(
            authentication.authenticator, config.forwarding_secret, bytes_max, memory, self._clock.now_ms
        )
        return RegistryApplication(rules), authentication

    async def _listen(self, application: RegistryApplication, *, is_open: bool) -> None:
        sharing = LoopSharing()
        for listener in self._config.listeners_:
            tls = listener_tls(listener, self._config.tls)
            app = application.on_listener(self._host_names(listener) if is_open else None)
            listening = HttpListener(listener, bind(listener), app, tls, sharing)
            self._listeners.append(listening)
            self._parts.push_async_callback(listening.close)
        for listening in self._listeners:
            await listening.open()
        if any(listening.tls is not None for listening in self._listeners):
            watch = asyncio.create_task(self._follow_tls(), name="registry-tls")
            self._parts.callback(watch.cancel)

    def _host_names(self, listener: Listener) -> HostNames | None:
        if not listener.is_loopback:
            return None
        names = {listener.host, self._config.host_name or ""} - {""}
        return HostNames(frozenset(name.lower() for name in names))

    async def _follow_tls(self) -> None:
        while True:
            await asyncio.sleep(_TLS_LOOK_S)
            for listening in self._listeners:
                await listening.reload_tls_if_changed()

    async def _cluster_id(self, admin: AdminClient) -> str:
        """Return the id of the cluster, and wait for it if necessary."""
        servers = ",".join(self._config.list_of("kafkastore.bootstrap.servers"))
        deadline_s = monotonic() + self._config.kafkastore_init_timeout_ms / 1000
        while True:
            try:
                return (await admin.describe_cluster(timeout_s=_ATTEMPT_S)).cluster_id or ""
            except (ClientError, AdminError, TimeoutError) as error:
                if isinstance(error, Terminal) or monotonic() >= deadline_s:
                    raise RegistryFailed(
                        f"no broker of kafkastore.bootstrap.servers={servers} can be reached: {error}. Start the "
                        "cluster, or change the addresses"
                    ) from error
                log.warning("waiting for a broker of kafkastore.bootstrap.servers=%s: %s", servers, error)
                await asyncio.sleep(0.5)

    def _identity(self) -> Identity:
        config = self._config
        listener = config.advertised
        listening = next(found for found in self._listeners if found.listener is listener)
        host = config.host_name or listener.host
        if host in _EVERYWHERE:
            host = socket.getfqdn()
        return Identity(listener.scheme, host, listening.port, config.leader_eligibility)

    async def _leadership(self, identity: Identity, store: SchemaStore) -> Leadership:
        source = "the registry's settings"
        network = NetworkClient(client_config(self._config.client_properties, source=source))
        self._parts.push_async_callback(network.close)
        leadership = Leadership(network, self._config.schema_registry_group_id, identity, store)
        store.follow_lease(lambda: leadership.has_lease)
        self._parts.push_async_callback(leadership.close)
        return leadership

    def _forwarder(self, leadership: Leadership) -> Forwarder:
        client = http_client(self._config.tls, httpx.Timeout(_FORWARD_TIMEOUT_S))
        self._parts.push_async_callback(client.aclose)
        return Forwarder(leadership, client, self._config.forwarding_secret, self._clock.now_ms)


def _parsing() -> Parsing:
    return Parsing({AVRO: AvroFormat(), JSON: JsonFormat(), PROTOBUF: ProtobufFormat(compile_protobuf)})


async def run_registry(config: RegistryConfig) -> None:
    """Run until SIGTERM or SIGINT. Raise the errors of ``start_registry``."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    starting = asyncio.create_task(start_registry(config))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    running = await starting
    await stopped
    await running.stop()
