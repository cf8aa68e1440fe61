"""Damaged handshakes: for any input the TLS layer ends the connection or continues, and no error escapes it."""

from __future__ import annotations

import asyncio
import random
import ssl

import pytest

from barnabas.security.tls import ServerTls
from tests.unit.network.test_tls_layer import ALICE, World, client_settings, server_settings

pytestmark = pytest.mark.simulation

ROUNDS = 150


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_handshakes_and_records(seed: int) -> None:
    asyncio.run(_damage(random.Random(seed)))


async def _damage(generator: random.Random) -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    tls = ServerTls("SSL", server_settings("required"))
    ready = 0
    for _ in range(ROUNDS):
        version = generator.choice(("TLSv1.2", "TLSv1.3"))
        world = World(tls.settings, client_settings(ALICE, enabled_protocols=(version,)))
        for _ in range(8):
            try:
                world.client.do_handshake()
                world.client.write(b"\0\0\0\1x")
            except ssl.SSLError:
                pass
            sent = _damaged(generator, world._outgoing.read())
            step = 1 + generator.randrange(2000)
            for start in range(0, len(sent), step):
                world.feed(sent[start : start + step])
            world._incoming.write(b"".join(world.transport.writes))
            world.transport.writes.clear()
        ready += bool(world.owner.certificates)
        assert len(world.owner.reasons) <= 1
        assert not (world.owner.reasons and not world.transport.is_closed)
        world.layer.connection_lost(None)
        assert world.owner.closed_count == 1
    await asyncio.sleep(0)
    assert not errors
    assert 0 < ready < ROUNDS


def _damaged(generator: random.Random, data: bytes) -> bytes:
    if not data or generator.random() < 0.6:
        return data
    damaged = bytearray(data)
    kind = generator.randrange(4)
    if kind == 0:
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
    elif kind == 1:
        del damaged[generator.randrange(len(damaged)) :]
    elif kind == 2:
        position = generator.randrange(len(damaged))
        damaged[position:position] = generator.randbytes(generator.randrange(1, 3000))
    else:
        damaged += bytes(damaged)
    return bytes(damaged)
