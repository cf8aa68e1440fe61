"""The time limit of everything before the first record: ``default.api.timeout.ms``, which ``--timeout`` sets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import OperationTimedOut

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig

__all__ = ["within_api_timeout"]


async def within_api_timeout(config: ClientConfig, work: Awaitable[None]) -> None:
    """Await the work. Raise OperationTimedOut after the limit."""
    limit_s = config.values["default.api.timeout.ms"] / 1000
    try:
        async with asyncio.timeout(limit_s):
            await work
    except TimeoutError as error:
        servers = ", ".join(map(str, config.bootstrap))
        raise OperationTimedOut(f"the cluster at {servers} did not answer within {limit_s:g} s") from error
