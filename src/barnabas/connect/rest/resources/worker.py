"""The worker itself: its identity and its health (KIP-1017)."""

from __future__ import annotations

import asyncio

from barnabas.connect.entities import ServerInfo, WorkerHealth
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.route import Access, Route

__all__ = ["ROUTES", "health", "server_info"]

_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


async def server_info(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, ServerInfo(services.version, services.commit, services.kafka_cluster_id))


async def health(services: Services, request: ApiRequest) -> Reply:
    """Send a no-op through the queue of requests. The worker is unhealthy if it does not return."""
    try:
        async with asyncio.timeout(services.health_timeout_s):
            await services.herder.health()
    except TimeoutError:
        status, code, text = (
            ("unhealthy", 500, _UNHEALTHY) if services.herder.is_ready else ("starting", 503, _STARTING)
        )
        stage = services.herder.stage()
        return Reply(code, WorkerHealth(status, f"{text} {stage}" if stage else text))
    return Reply(200, WorkerHealth("healthy", _HEALTHY))


ROUTES = (
    Route("GET", "/", Access.READ, server_info, "Version and cluster", {200: ServerInfo}),
    Route("GET", "/health", Access.OPEN, health, "The health of the worker", {200: WorkerHealth}),
)
