"""Workers' REST APIs in one process, without sockets: requests pass from one application to the other in memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace

import httpx

from barnabas.connect.rest.api_request import Services
from barnabas.connect.rest.application import ListenerKind, RestApplication, RestRules
from barnabas.connect.rest.forwarding import Forwarder
from barnabas.connect.rest.group_reads import GroupReads
from barnabas.connect.rest.internal_client import InternalClient
from barnabas.connect.rest.internal_request_check import InternalRequestCheck, RequireFreshness
from barnabas.connect.rest.logger_levels import LoggerLevels
from barnabas.connect.rest.request_freshness import FreshnessGuard
from tests.peers.scripted_figures import ScriptedFigures
from tests.peers.scripted_herder import ScriptedCluster, ScriptedHerder, ScriptedPlugins

__all__ = ["START_MS", "RestWorkers", "TestClock"]

START_MS = 1_795_260_000_000


class TestClock:
    """A clock that stands still unless it is advanced."""

    __test__ = False

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class RestWorkers:
    """Workers A, which leads, and B. ``urls`` are the advertised ones."""

    urls: Mapping[str, str] = {"A": "http://127.0.0.1:29511/", "B": "http://127.0.0.1:29512/"}

    def __init__(
        self,
        *,
        rules: RestRules | None = None,
        require_freshness: RequireFreshness = RequireFreshness.AUTO,
        wait_s: float = 5.0,
        kind: ListenerKind | None = None,
    ) -> None:
        self.clock = TestClock()
        self.cluster = ScriptedCluster(self.urls["A"])
        self.cluster.worker_urls = list(self.urls.values())
        self.herders = {name: ScriptedHerder(self.cluster, url) for name, url in self.urls.items()}
        self.applications = {name: RestApplication(rules or RestRules(), self.clock.now_ms) for name in self.urls}
        self._kind = kind or ListenerKind()
        self._client = httpx.AsyncClient(transport=_Between(self), trust_env=False, verify=False)
        self.clients = {name: self._internal_client(name) for name in self.urls}
        self.figures = {name: ScriptedFigures(url, self.clock.now_ms) for name, url in self.urls.items()}
        self.services = {name: self._services(name, require_freshness, wait_s) for name in self.urls}
        self.forwarded: list[httpx.Request] = []
        for name, application in self.applications.items():
            application.open(self.services[name])

    def change(self, name: str, **fields: object) -> None:
        """Replace fields of a worker's services."""
        self.services[name] = replace(self.services[name], **fields)  # type: ignore[arg-type]
        self.applications[name].open(self.services[name])

    async def send(
        self, worker: str, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> httpx.Response:
        url = self.urls[worker].rstrip("/") + path
        async with httpx.AsyncClient(transport=self._transport(worker), trust_env=False, verify=False) as client:
            for default in ("accept", "accept-encoding", "user-agent", "connection"):
                client.headers.pop(default, None)
            return await client.request(method, url, headers=dict(headers or {}), content=body)

    async def close(self) -> None:
        await self._client.aclose()

    def _transport(self, worker: str) -> httpx.ASGITransport:
        return httpx.ASGITransport(self.applications[worker].on_listener(self._kind))

    def _internal_client(self, name: str) -> InternalClient:
        return InternalClient(
            self._client,
            session=self.herders[name].session,
            signature_algorithm="HmacSHA256",
            now_ms=self.clock.now_ms,
            random_bytes=os.urandom,
        )

    def _services(self, name: str, require: RequireFreshness, wait_s: float) -> Services:
        herder = self.herders[name]
        forwarder = Forwarder(herder, self.clients[name], wait_s=wait_s, now_s=lambda: self.clock.monotonic_ms() / 1000)
        return Services(
            herder=herder,
            plugins=ScriptedPlugins(),
            forwarder=forwarder,
            group_reads=GroupReads(herder, forwarder, self.figures[name]),
            internal=InternalRequestCheck(
                herder.session,
                permitted_algorithms=("HmacSHA256",),
                require_freshness=require,
                guard=FreshnessGuard(age_ms_max=60_000, started_ms=START_MS - 1000),
                advertised_url=self.urls[name],
                now_ms=self.clock.now_ms,
            ),
            loggers=self._logger_levels(),
            version="0.1",
            commit="unknown",
            kafka_cluster_id="pnec3ZwFQ2Kg9JGDZs1DQg",
        )

    def _logger_levels(self) -> LoggerLevels:
        """Return levels of separate loggers: those of the tests stay unchanged."""
        root = logging.RootLogger(logging.INFO)
        root.manager = logging.Manager(root)
        levels = LoggerLevels(self.clock.now_ms, root)
        self.cluster.level_followers.append(levels.set_level)
        return levels


class _Between(httpx.AsyncBaseTransport):
    """Routes a request from one worker to another by the port."""

    def __init__(self, workers: RestWorkers) -> None:
        self._workers = workers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._workers.forwarded.append(request)
        for name, url in self._workers.urls.items():
            if url.rstrip("/").endswith(f":{request.url.port}"):
                return await self._workers._transport(name).handle_async_request(request)
        raise httpx.ConnectError("nobody is there", request=request)
