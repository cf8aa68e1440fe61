"""The admin client, for asyncio and, by ``sync``, for code without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.clients.admin.async_client import AsyncAdminClient
from barnabas.clients.admin.sync_client import SyncAdminClient
from barnabas.clients.client_config import ClientConfig

__all__ = ["AdminClient"]


class AdminClient(AsyncAdminClient):
    """Use it as ``async with AdminClient("host:9092") as admin``, or close it; it connects on the first request.

    Settings are Kafka's client properties; ``bootstrap.controllers`` instead of servers talks to the controllers. An
    operation ends after ``timeout_s``, else after ``default.api.timeout.ms``.
    """

    @staticmethod
    def sync(
        bootstrap_servers: str | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        config: ClientConfig | None = None,
    ) -> SyncAdminClient:
        """The same client for code without asyncio."""
        return SyncAdminClient(bootstrap_servers, properties, config=config)
