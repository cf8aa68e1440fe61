"""How a listener stops to accept connections without losing track of those that it just accepted."""

from __future__ import annotations

import asyncio

__all__ = ["stop_accepting"]

_TURNS_TO_ACCEPT = 2
"""asyncio accepts in steps: a task makes the transport, and the loop then calls ``connection_made``."""


async def stop_accepting(server: asyncio.Server) -> None:
    """Close the sockets of ``server``. Every accepted connection has reached its protocol when this returns.

    ``Server.close`` alone would leave a connection open, without an owner, that is between two of these steps.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    for _ in range(_TURNS_TO_ACCEPT):
        await asyncio.sleep(0)
    server.close()
