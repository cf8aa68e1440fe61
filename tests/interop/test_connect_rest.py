"""The REST server on real sockets: TLS, client certificates, and a certificate that changes while the server runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from barnabas.connect.rest.http_listener import bind
from barnabas.connect.rest.rest_server import RestServer
from barnabas.connect.rest.rest_settings import RestSettings, UnusableRestSetting
from barnabas.connect.settings.listener_urls import Listener
from tests.peers.certificates import PASSWORD, Authority
from tests.peers.scripted_herder import ScriptedCluster, ScriptedHerder, ScriptedPlugins

pytestmark = pytest.mark.interop


class _Clock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


async def _certificate_of(server: RestServer) -> str:
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", server.ports[0]), timeout=10)


@contextlib.asynccontextmanager
async def worker(cluster: ScriptedCluster, **properties: str) -> AsyncIterator[tuple[RestServer, ScriptedHerder]]:
    given = {name.replace("__", "."): value for name, value in properties.items()}
    settings = RestSettings.read({"listeners": "http://127.0.0.1:0", **given})
    server = RestServer(settings, clock=_Clock(), random_bytes=os.urandom)
    await server.start()
    try:
        herder = ScriptedHerder(cluster, server.advertised_url)
        client = server.client(herder.session)
        server.open(herder, client, ScriptedPlugins(), kafka_cluster_id="c1", version="1", commit="c")
        yield server, herder
    finally:
        await server.stop()


@pytest.mark.anyio
async def test_a_follower_forwards_over_sockets_and_404_pages_take_precedence() -> None:
    cluster = ScriptedCluster("")
    settings = RestSettings.read({"listeners": "http://localhost:0"})
    starting = RestServer(settings, clock=_Clock(), random_bytes=os.urandom)
    await starting.start()
    async with worker(cluster) as (leader, _), worker(cluster) as (follower, herder), httpx.AsyncClient() as client:
        assert (await client.get(starting.advertised_url + "health")).status_code == 404
        cluster.leader_url = leader.advertised_url
        config = {"connector.class": "FileStreamSource", "topic": "t"}
        made = await client.post(follower.advertised_url + "connectors", json={"name": "a/b", "config": config})
        assert (made.status_code, made.headers["location"]) == (201, follower.advertised_url + "connectors/a%2Fb")
        assert "date" in made.headers
        assert "server" not in made.headers
        await follower._clients[0].put_fence(leader.advertised_url, "a/b")
        assert cluster.fenced == ["a/b"]
        assert (await client.head(leader.advertised_url + "connectors")).text == ""
        assert herder.url != leader.advertised_url
    await starting.stop()


@pytest.mark.anyio
async def test_https_with_certificates_of_clients_and_between_workers(tmp_path: Path) -> None:
    authority = Authority()
    store = authority.issue("worker").write_pkcs12(tmp_path / "worker.p12")
    authority.write_pem(tmp_path / "ca.pem")
    secure = {
        "listeners": "https://127.0.0.1:0",
        "barnabas__connect__authentication": "mtls",
        "barnabas__connect__mtls__principal__mapping__rules": "RULE:^CN=([^,]*).*$/$1/",
        "barnabas__connect__roles__admin": "carol",
        "listeners__https__ssl__client__auth": "requested",
        "listeners__https__ssl__keystore__type": "PKCS12",
        "listeners__https__ssl__keystore__location": str(store),
        "listeners__https__ssl__keystore__password": PASSWORD,
        "listeners__https__ssl__truststore__type": "PEM",
        "listeners__https__ssl__truststore__location": str(tmp_path / "ca.pem"),
    }
    carol = authority.issue("carol").write_pem(tmp_path / "carol.pem")
    cluster = ScriptedCluster("")
    async with worker(cluster, **secure) as (leader, _), worker(cluster, **secure) as (follower, _):
        cluster.leader_url = leader.advertised_url
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        async with httpx.AsyncClient(verify=context) as stranger:
            assert (await stranger.get(follower.advertised_url + "connectors")).status_code == 401
        known = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        known.load_cert_chain(carol)
        async with httpx.AsyncClient(verify=known) as client:
            config = {"connector.class": "FileStreamSource", "topic": "t"}
            made = await client.put(follower.advertised_url + "connectors/c/config", json=config)
            assert made.status_code == 201, made.text
            assert made.headers["location"] == follower.advertised_url + "connectors/c"
            # New connections receive a renewed certificate; the worker runs on meanwhile.
            (listening,) = leader._http_listeners
            before = await _certificate_of(leader)
            authority.issue("worker").write_pkcs12(store)
            assert await listening.reload_tls_if_changed()
            await leader._renew_clients()
            assert await _certificate_of(leader) != before
            stopped = await client.put(follower.advertised_url + "connectors/c/stop")
            assert stopped.status_code == 204, stopped.text


@pytest.mark.anyio
async def test_a_used_port_and_an_invalid_keystore_are_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UnusableRestSetting, match=listener):
            async with worker(ScriptedCluster(), listeners=listener):
                pass
    with pytest.raises(UnusableRestSetting, match="ssl.keystore"):
        async with worker(ScriptedCluster(), listeners="https://127.0.0.1:0"):
            pass


@pytest.mark.anyio
async def test_requests_that_are_not_http_close_the_connection() -> None:
    async with worker(ScriptedCluster()) as (server, _):
        for data in (
            b"\x00\x01\x02\r\n\r\n",
            b"GET / HTTP/9\r\n\r\n",
            b"GET " + b"x" * 100_000,
            b"POST / HTTP/1.1\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
            writer.write(data)
            async with asyncio.timeout(10):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 4"), data[:20]
            writer.close()
            await writer.wait_closed()
        async with httpx.AsyncClient() as client:
            assert (await client.get(server.advertised_url)).status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize("whole", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
async def test_an_endless_request_head_closes_the_connection(monkeypatch: pytest.MonkeyPatch, whole: bytes) -> None:
    monkeypatch.setattr("barnabas.connect.rest.http_connection.IDLE_S", 0.3)
    async with worker(ScriptedCluster()) as (server, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[0])
        writer.write(whole)

        async def drip() -> None:
            for letter in b"GET / HTTP/1.1\r\nX: " + b"x" * 1000:
                writer.write(bytes((letter,)))
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200") == bool(whole)
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_answers_do_not_wait_for_the_acknowledgement_of_their_first_segment(host: str) -> None:
    with (
        bind(Listener("http", host, 0)) as listening,
        socket.create_connection(("127.0.0.1", listening.getsockname()[1])),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
