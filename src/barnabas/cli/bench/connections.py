"""``barnabas bench connections`` and ``bench api-versions``: measure the cost of a connection and of a round trip."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from barnabas import __version__
from barnabas.cli.bench.clients import RequestLatencies, measure_requests
from barnabas.cli.bench.measurements import LATENCY_COLUMNS, latency_cells, number, one_row, rate
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.protocol.messages.api_versions import ApiVersionsRequest

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.node_connection import NodeConnection

__all__ = ["measure_api_versions", "measure_connections"]


async def measure_connections(config: ClientConfig, count: int, at_once: int, stop: asyncio.Event) -> Answer:
    """Open and close connections: TCP, TLS if configured, ApiVersions, and authentication if configured."""

    async def open_one(network: NetworkClient, index: int) -> int:
        connection = await network.connect()
        await connection.close()
        return 1

    async with AsyncExitStack() as stack:
        networks = [await stack.enter_async_context(NetworkClient(config)) for _ in range(at_once)]
        figures = await measure_requests("connections", count, networks, open_one, stop)
    return _answer(figures, "connections", {"security_protocol": config.security_protocol, "at_once": at_once})


async def measure_api_versions(config: ClientConfig, count: int, connections: int, stop: asyncio.Event) -> Answer:
    """Measure round trips of ApiVersions. Raise ClientError if no node responds."""
    request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)

    async def send(connection: NodeConnection, index: int) -> int:
        await connection.request(request)
        return 1

    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(connections):
            network = NetworkClient(config)
            stack.push_async_callback(network.close)
            opened.append(await network.connect())
        figures = await measure_requests("api-versions", count, opened, send, stop)
    return _answer(figures, "requests", {"connections": connections})


def _answer(figures: RequestLatencies, unit: str, more: dict[str, object]) -> Answer:
    cells = [f"{figures.requests:,}", number(rate(figures.requests, figures.elapsed_s))]
    sheet = one_row((unit, f"{unit}/s", *LATENCY_COLUMNS), [*cells, *latency_cells(figures.latencies)])
    found = figures.document()
    document = {
        unit: figures.requests,
        "elapsed_s": found["elapsed_s"],
        f"{unit}_per_s": found["requests_per_s"],
        "latency_ms": found["latency_ms"],
        **more,
    }
    problems = []
    if figures.failure is not None:
        if not isinstance(figures.failure, ClientError):
            raise figures.failure
        problems.append(problem_of(figures.failure))
    return Answer(document, [sheet] if figures.requests else [], problems=problems)
