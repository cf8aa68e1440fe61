"""The proxy between nodes identifies the connecting node, and cuts one direction while the other continues."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from barnabas.testing import link_proxy
from barnabas.testing.link_proxy import CLIENT, STANDSTILL_S, LinkProxy
from tests.peers.node_process import free_ports

pytestmark = pytest.mark.interop

ASKER = """
import socket, sys
end = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for line in sys.stdin:
    end.sendall(line.encode())
    try:
        print(end.recv(100).decode() or "closed\\n", end="", flush=True)
    except ConnectionError:
        print("closed", flush=True)
"""


class Answerer(threading.Thread):
    """Echoes what it receives, and sets ``got`` on the first bytes."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.got = threading.Event()
        self._server = socket.create_server(("127.0.0.1", port))

    def run(self) -> None:
        while True:
            try:
                end, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        with end:
            while data := end.recv(100):
                self.got.set()
                end.sendall(data)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


class Asker:
    """A process that sends a line at a time."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-c", ASKER, str(port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("hello\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def network() -> Iterator[tuple[LinkProxy, Answerer, Asker]]:
    proxy = LinkProxy()
    port, target, unused = free_ports(3)
    answerer = Answerer(target)
    answerer.start()
    proxy.add("answerer", port=port, target_port=target)
    proxy.add("asker", port=unused, target_port=unused)
    proxy.node_is_up("answerer", os.getpid())
    asker = Asker(port)
    proxy.node_is_up("asker", asker.process.pid)
    yield proxy, answerer, asker
    asker.close()
    answerer.close()
    proxy.close()


def test_bytes_of_a_cut_direction_wait_until_the_cut_heals(network: tuple[LinkProxy, Answerer, Asker]) -> None:
    proxy, answerer, asker = network
    proxy.cut("asker", "answerer")
    asker.send()
    assert not answerer.got.wait(0.3)
    proxy.heal("asker", "answerer", resets=False)
    assert asker.answer() == "hello\n"


def test_the_other_direction_continues(network: tuple[LinkProxy, Answerer, Asker]) -> None:
    proxy, answerer, asker = network
    proxy.cut("answerer", "asker")
    asker.send()
    assert answerer.got.wait(5), "the request passed; its answer is held up"
    proxy.heal("answerer", "asker", resets=False)
    assert asker.answer() == "hello\n"


def test_other_connections_are_not_cut(network: tuple[LinkProxy, Answerer, Asker]) -> None:
    proxy, _, asker = network
    proxy.cut(CLIENT, "answerer")
    asker.send()
    assert asker.answer() == "hello\n"


def test_a_heal_resets_held_connections_on_request(network: tuple[LinkProxy, Answerer, Asker]) -> None:
    proxy, answerer, asker = network
    proxy.cut("asker", "answerer")
    asker.send()
    assert not answerer.got.wait(0.3)
    proxy.heal("asker", "answerer", resets=True)
    assert asker.answer() == "closed\n"
    assert not answerer.got.is_set()


def test_dropped_bytes_never_arrive_and_their_connection_stays_silent(
    network: tuple[LinkProxy, Answerer, Asker],
) -> None:
    proxy, answerer, asker = network
    proxy.drop("asker", "answerer")
    asker.send()
    assert not answerer.got.wait(0.3)
    proxy.heal("asker", "answerer", resets=False)
    asker.send()
    assert not answerer.got.wait(0.3), "a stream that lost bytes can't go on"


def test_a_heal_resets_connections_that_lost_bytes_on_request(network: tuple[LinkProxy, Answerer, Asker]) -> None:
    proxy, answerer, asker = network
    proxy.drop("answerer", "asker")
    asker.send()
    assert answerer.got.wait(5), "the request passed; its answer vanishes"
    proxy.heal("answerer", "asker", resets=True)
    assert asker.answer() == "closed\n"


def test_one_search_of_open_files_serves_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    look, searches = link_proxy._owners_by_inode, []

    def counted(pids: Mapping[str, int], inodes: set[str]) -> dict[str, str]:
        searches.append(len(inodes))
        return look(pids, inodes)

    monkeypatch.setattr(link_proxy, "_owners_by_inode", counted)
    assert asyncio.run(_owners_of(100)) == ["asker"] * 100
    assert sum(searches) == 100
    assert len(searches) <= 2


def test_a_closed_connection_has_no_owner_and_costs_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_proxy, "_owners_by_inode", lambda pids, inodes: pytest.fail("a search"))
    assert asyncio.run(_owners_of(10, are_closed=True)) == [None] * 10


async def _owners_of(count: int, *, are_closed: bool = False) -> list[str | None]:
    """Return the owners of ``count`` connections of this process, which is the node named asker."""
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ends = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    writers = [await accepted.get() for _ in range(count)]
    for end in ends if are_closed else ():
        end.close()
    owners = link_proxy._Owners({"asker": link_proxy._Node(port=0, target_port=0, pid=os.getpid())})
    found = await asyncio.gather(*(owners.of(writer) for writer in writers))
    for end in ends:
        end.close()
    for writer in writers:
        writer.close()
    server.close()
    return found


def test_the_proxy_reports_when_it_stood_still(network: tuple[LinkProxy, Answerer, Asker]) -> None:
    proxy, _, _ = network
    began_s = time.monotonic()
    os.kill(proxy.pid, signal.SIGSTOP)
    time.sleep(2 * STANDSTILL_S)
    os.kill(proxy.pid, signal.SIGCONT)
    found = proxy.standstills()
    assert any(from_s < began_s + STANDSTILL_S < to_s for from_s, to_s in found), found
