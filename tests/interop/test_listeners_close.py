"""A listener that closes takes along the connections that it accepts in the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from barnabas.common.system_clock import SystemClock
from barnabas.connect.rest.rest_server import RestServer
from barnabas.connect.rest.rest_settings import RestSettings
from barnabas.network.connection import RequestProcessor
from barnabas.network.listener import ConnectionLimits, Listener

pytestmark = [pytest.mark.interop, pytest.mark.anyio]

Open = Callable[[], Awaitable[tuple[int, Callable[[], Awaitable[None]]]]]
"""Opens a listener; returns its port and what closes it."""


async def _open_network_listener() -> tuple[int, Callable[[], Awaitable[None]]]:
    listener = Listener("PLAINTEXT", cast("RequestProcessor", None), ConnectionLimits())
    await listener.bind("127.0.0.1", 0)
    await listener.start()
    return listener.port, listener.close


async def _open_rest_server() -> tuple[int, Callable[[], Awaitable[None]]]:
    settings = RestSettings.read({"listeners": "http://127.0.0.1:0"})
    server = RestServer(settings, clock=SystemClock(), random_bytes=os.urandom)
    await server.start()
    return server.ports[0], server.stop


@pytest.mark.parametrize("open_listener", [_open_network_listener, _open_rest_server])
@pytest.mark.parametrize("turns_before", range(6))
async def test_no_connection_outlives_its_listener(open_listener: Open, turns_before: int) -> None:
    """Accepting takes several turns of the loop. Whichever of them is the last before the end, the client sees it."""
    port, close = await open_listener()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        for _ in range(turns_before):
            await asyncio.sleep(0)
        await close()
        client.settimeout(0)
        with contextlib.suppress(ConnectionResetError):  # The answer to a connection that was not accepted yet.
            assert client.recv(1) == b""
    gc.collect()  # A transport that nothing closed would warn here, and fail the test.
