"""The REST server of a worker: listeners that answer 404 from the start, and the API once the herder exists.

    server = RestServer(settings, clock=clock, random_bytes=secrets.token_bytes)
    await server.start()                       # refuses insecure settings; binds; every path is 404
    client = server.client(herder.session)     # for requests to other workers
    server.open(herder, client, registry, kafka_cluster_id="...", version="...", commit="...")
    await server.stop()

``advertised_url`` is known after ``start``: the URL for other workers and the group.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.session_key import SessionView
from barnabas.connect.rest.api_request import DeadLetterSource, Services
from barnabas.connect.rest.application import ListenerKind, Mount, RestApplication, RestRules
from barnabas.connect.rest.authentication_setup import Authentication, set_up_authentication
from barnabas.connect.rest.exposure import check_exposure, exposure_warnings
from barnabas.connect.rest.forwarding import Forwarder
from barnabas.connect.rest.group_reads import GroupReads, OwnFigures
from barnabas.connect.rest.host_names import HostNames
from barnabas.connect.rest.http_listener import HttpListener, bind
from barnabas.connect.rest.internal_client import REQUEST_TIMEOUT_S, InternalClient
from barnabas.connect.rest.internal_request_check import InternalRequestCheck
from barnabas.connect.rest.logger_levels import LoggerLevels
from barnabas.connect.rest.loop_sharing import LoopSharing
from barnabas.connect.rest.recent_log import RecentLog
from barnabas.connect.rest.request_freshness import FreshnessGuard
from barnabas.connect.rest.rest_settings import RestSettings, UnusableRestSetting
from barnabas.connect.rest.tls_setup import http_client, listener_tls
from barnabas.connect.settings.listener_urls import Listener, worker_url

if TYPE_CHECKING:
    from barnabas.common.clock import Clock

__all__ = ["RestServer"]

log = logging.getLogger(__name__)

_TLS_LOOK_S = 5.0
_EVERYWHERE = ("", "0.0.0.0", "::")


class RestServer:
    def __init__(self, settings: RestSettings, *, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        """Raise UnusableRestSetting for invalid settings."""
        check_exposure(settings)
        self._settings = settings
        self._clock = clock
        self._random_bytes = random_bytes
        self._authentication: Authentication = set_up_authentication(
            settings.authentication, clock=clock, random_bytes=random_bytes
        )
        rules = RestRules(
            self._authentication.authenticator,
            settings.cross_origin,
            settings.header_rules,
            body_limits=settings.body_limits,
        )
        self._application = RestApplication(rules, clock.now_ms)
        self.loggers = LoggerLevels(clock.now_ms)
        """Levels of loggers. It also receives the levels from the config topic."""
        self.recent_log = RecentLog()
        """The handler for loggers whose lines can be requested."""
        self._http_listeners: list[HttpListener] = []
        self._loop_sharing = LoopSharing()
        self._clients: list[InternalClient] = []
        self._guard = FreshnessGuard(age_ms_max=settings.freshness_age_ms_max, started_ms=clock.now_ms())
        self._watch: asyncio.Task[None] | None = None
        self._advertised_url = ""

    @property
    def advertised_url(self) -> str:
        """The URL with a slash at the end."""
        return self._advertised_url

    @property
    def worker_id(self) -> str:
        """``host:port`` as in statuses."""
        return self._advertised_url.partition("://")[2].rstrip("/")

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of the listeners, in their order, then those for /admin."""
        return tuple(listener.port for listener in self._http_listeners)

    @property
    def shows_log(self) -> bool:
        """Whether listeners of the API serve /admin, so that their pages may show the log, too."""
        return self._settings.admin_listeners is None

    def mount(self, mount: Mount) -> None:
        """Serve pages beside the API."""
        self._application.mount(mount)

    async def start(self) -> None:
        """Start to listen. Raise UnusableRestSetting."""
        for warning in exposure_warnings(self._settings):
            log.warning("%s", warning)
        try:
            for listener in self._settings.listeners:
                self._listen(listener, ListenerKind(has_admin=self._settings.admin_listeners is None), is_admin=False)
            for listener in self._settings.admin_listeners or ():
                self._listen(listener, ListenerKind(has_api=False), is_admin=True)
            self._advertised_url = await asyncio.to_thread(self._determine_advertised_url)
            for listening in self._http_listeners:
                await listening.open()
        except BaseException:
            await self.stop()
            raise
        self._authentication.start()
        if any(listener.tls is not None for listener in self._http_listeners):
            self._watch = asyncio.create_task(self._follow_tls(), name="rest-tls")

    def client(self, session: Callable[[], SessionView]) -> InternalClient:
        """Return a client. Raise UnusableRestSetting."""
        client = InternalClient(
            self._http_client(),
            session=session,
            signature_algorithm=self._settings.signature_algorithm,
            now_ms=self._clock.now_ms,
            random_bytes=self._random_bytes,
        )
        self._clients.append(client)
        return client

    def open(
        self,
        herder: Herder,
        client: InternalClient,
        plugins: PluginRegistry,
        *,
        kafka_cluster_id: str,
        version: str,
        commit: str,
        dead_letters: DeadLetterSource | None = None,
        own_figures: OwnFigures | None = None,
    ) -> GroupReads | None:
        """Serve the API. Call it after ``start``. Return what reads ``own_figures`` of all workers."""
        settings = self._settings
        forwarder = Forwarder(
            herder, client, wait_s=settings.request_wait_s, now_s=lambda: self._clock.monotonic_ms() / 1000
        )
        group_reads = None if own_figures is None else GroupReads(herder, forwarder, own_figures)
        self._application.open(
            Services(
                herder=herder,
                plugins=plugins,
                forwarder=forwarder,
                internal=InternalRequestCheck(
                    herder.session,
                    permitted_algorithms=settings.verification_algorithms,
                    require_freshness=settings.require_freshness,
                    guard=self._guard,
                    advertised_url=self._advertised_url,
                    now_ms=self._clock.now_ms,
                ),
                loggers=self.loggers,
                version=version,
                commit=commit,
                kafka_cluster_id=kafka_cluster_id,
                is_topic_tracking_enabled=settings.is_topic_tracking_enabled,
                may_topic_tracking_be_reset=settings.may_topic_tracking_be_reset,
                recent_log=self.recent_log,
                dead_letters=dead_letters,
                group_reads=group_reads,
            )
        )
        return group_reads

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await asyncio.gather(*(listener.close() for listener in self._http_listeners))
        for client in self._clients:
            await client.close()
        self._http_listeners, self._clients = [], []
        self._authentication.close()

    def _listen(self, listener: Listener, kind: ListenerKind, *, is_admin: bool) -> None:
        settings = self._settings
        tls = listener_tls(listener, settings.admin_tls if is_admin else settings.tls)
        if self._authentication.authenticator is None and listener.is_loopback:
            names = {listener.host, settings.advertised_host or ""} - {""}
            kind = ListenerKind(kind.has_api, kind.has_admin, HostNames(frozenset(name.lower() for name in names)))
        app = self._application.on_listener(kind)
        self._http_listeners.append(HttpListener(listener, bind(listener), app, tls, self._loop_sharing))

    def _determine_advertised_url(self) -> str:
        settings = self._settings
        listener = settings.advertised
        listening = next(candidate for candidate in self._http_listeners if candidate.listener is listener)
        host = settings.advertised_host or listener.host
        if host in _EVERYWHERE:
            host = socket.getfqdn()
        return worker_url(listener.scheme, host, settings.advertised_port or listening.port)

    def _http_client(self) -> httpx.AsyncClient:
        return http_client(self._settings.tls, httpx.Timeout(REQUEST_TIMEOUT_S, connect=10.0))

    async def _follow_tls(self) -> None:
        while True:
            await asyncio.sleep(_TLS_LOOK_S)
            changed = [await listener.reload_tls_if_changed() for listener in self._http_listeners]
            if any(changed):
                await self._renew_clients()

    async def _renew_clients(self) -> None:
        for client in self._clients:
            try:
                before = client.replace(self._http_client())
            except UnusableRestSetting as error:
                log.error("requests to other workers continue with the previous certificates: %s", error)
                return
            asyncio.get_running_loop().call_later(REQUEST_TIMEOUT_S, _close_later, before)


_closing: set[asyncio.Task[None]] = set()


def _close_later(client: httpx.AsyncClient) -> None:
    """Close it later, when all its requests are over."""
    task = asyncio.ensure_future(client.aclose())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
