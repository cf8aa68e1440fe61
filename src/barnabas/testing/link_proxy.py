"""A TCP proxy between the processes of a cluster: it delays or drops the bytes from one node to another, by direction.

Every node's address leads through it, so that nodes and clients connect as usual. The connecting node is found by the
process that owns the other end of the connection, not by the bytes. While a direction is cut, its bytes are kept: a
connection stays open and is silent, as over a network that loses packets. Healing sends the kept bytes late, or resets
the affected connections. While a direction drops, its bytes and connection ends vanish. A connection that lost bytes
stays silent in that direction after healing, like one whose retransmissions are minutes apart; new connections work.

The proxy monitors itself: it repeatedly opens a connection through itself. While that takes longer than a second, every
node seems to hang, and the proxy is the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["CLIENT", "STANDSTILL_S", "LinkProxy"]

CLIENT = "client"
"""The name for a peer that is not a node."""
_WATCH = "the proxy itself"

_NEXT_PORT = "\n"
"""Separates the name of a node from the number of a further port of it."""
_CHUNK = 1 << 16
_BACKLOG = 1024
_WATCH_EVERY_S = 0.5
_START_S = 1.0
_TRY_AGAIN_S = 0.02
STANDSTILL_S = 1.0
"""The limit for a connection of the proxy itself: the connection timeout of nodes is two seconds."""

# linux/netlink.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_INODE_AT = 16 + 4 + 48 + 16


@dataclass(slots=True)
class _Node:
    port: int
    target_port: int
    pid: int | None = None
    server: asyncio.Server | None = None
    has_served: bool = False
    """Whether its process has accepted a connection since its start."""


@dataclass(slots=True)
class _Link:
    """The direction from one node to another, over all their connections."""

    is_open: asyncio.Event
    keeps: asyncio.Event
    """Cleared while sent bytes vanish."""
    writers: set[asyncio.StreamWriter] = field(default_factory=set)


class LinkProxy:
    """A separate process, so that its traffic does not wait for its user's threads. Every method may be called from any
    thread, and returns on completion.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut: set[tuple[str, str]] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C in a terminal must not end it before the nodes.
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def add(self, name: str, *, port: int, target_port: int) -> None:
        """Make ``port`` lead to ``target_port`` while the node is up. A node may have several ports."""
        self._call("add", name, port, target_port)

    def node_is_up(self, name: str, pid: int) -> None:
        self._call("node_is_up", name, pid)

    def node_is_down(self, name: str) -> None:
        """Make the node's ports refuse connections, as those of a dead process do."""
        self._call("node_is_down", name)

    def cut(self, source: str, destination: str) -> None:
        """Delay everything that ``source`` sends to ``destination`` from now on."""
        self._cut.add((source, destination))
        self._call("cut", source, destination)

    def drop(self, source: str, destination: str) -> None:
        """Drop everything that ``source`` sends to ``destination`` from now on, without a reset."""
        self._cut.add((source, destination))
        self._call("drop", source, destination)

    def heal(self, source: str, destination: str, *, resets: bool) -> None:
        """End a cut or a drop. Delayed bytes arrive now; with ``resets`` they never arrive, and their connections are
        closed.

        Dropped bytes never arrive: a connection that lost bytes stays silent, unless this ``resets`` it.
        """
        self._cut.discard((source, destination))
        self._call("heal", source, destination, resets)

    def cuts_of(self, name: str) -> int:
        """Return how many directions from and to the node are cut."""
        return sum(name in pair for pair in self._cut)

    def heal_all(self) -> None:
        for source, destination in list(self._cut):
            self.heal(source, destination, resets=False)

    def standstills(self) -> list[tuple[float, float]]:
        """Return when the proxy itself took longer than ``STANDSTILL_S`` for a connection, by the monotonic clock."""
        return [(from_s, to_s) for from_s, to_s in self._call("standstills")]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _call(self, command: str, *arguments: str | int | bool) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"the proxy could not do {command} {arguments}")
        return json.loads(answer)


class _Proxy:
    """The side in the separate process. Commands are methods."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._links: dict[tuple[str, str], _Link] = defaultdict(_new_link)
        self._tasks: set[asyncio.Task[None]] = set()
        self._owners = _Owners(self._nodes)
        self._watch = _Watch()

    async def obey(self) -> None:
        """Serve until the commands end."""
        loop = asyncio.get_running_loop()
        await self._watch_itself()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *arguments = json.loads(line)
            print(json.dumps(await getattr(self, command)(*arguments)), flush=True)

    async def standstills(self) -> list[tuple[float, float]]:
        return self._watch.standstills()

    async def _watch_itself(self) -> None:
        """Measure with a separate path that has all parts of other connections."""
        target_port = await self._watch.serve()
        listening = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._nodes[_WATCH] = _Node(listening.getsockname()[1], target_port)
        await self._listen(_WATCH, listening)
        self._keep(self._watch.run(self._nodes[_WATCH].port))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, name: str, listening: socket.socket) -> None:
        accept = self._accepted(name)
        self._nodes[name].server = await asyncio.start_server(accept, sock=listening, backlog=_BACKLOG)

    async def add(self, name: str, port: int, target_port: int) -> None:
        key = name if name not in self._nodes else f"{name}{_NEXT_PORT}{port}"
        self._nodes[key] = _Node(port, target_port)

    async def node_is_up(self, name: str, pid: int) -> None:
        for key, node in self._ports_of(name):
            node.pid = pid
            node.has_served = False
            if node.server is None:
                await self._listen(key, socket.create_server(("127.0.0.1", node.port), backlog=_BACKLOG))

    async def node_is_down(self, name: str) -> None:
        for _, node in self._ports_of(name):
            if node.server is not None:
                node.server.close()
                node.server = None

    def _ports_of(self, name: str) -> list[tuple[str, _Node]]:
        return [(key, node) for key, node in self._nodes.items() if _node_name(key) == name]

    async def cut(self, source: str, destination: str) -> None:
        self._links[source, destination].is_open.clear()

    async def drop(self, source: str, destination: str) -> None:
        self._links[source, destination].keeps.clear()

    async def heal(self, source: str, destination: str, resets: bool) -> None:
        link = self._links[source, destination]
        if resets and not (link.is_open.is_set() and link.keeps.is_set()):
            for writer in list(link.writers):
                writer.transport.abort()
        link.is_open.set()
        link.keeps.set()

    def _accepted(self, name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(self._serve(name, reader, writer))

        return accept

    async def _serve(self, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owner = await self._owners.of(writer)
        if owner is None:
            writer.transport.abort()
            return
        try:
            their_reader, their_writer = await _connected(self._nodes[key])
        except OSError:
            writer.transport.abort()
            return
        source, name = _node_name(owner), _node_name(key)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, their_writer, self._links[source, name]))
                both.create_task(self._pump(their_reader, writer, self._links[name, source]))
        except* OSError:
            pass
        finally:
            writer.transport.abort()
            their_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link) -> None:
        link.writers.add(writer)
        lost_bytes = False
        try:
            while data := await reader.read(_CHUNK):
                await link.is_open.wait()
                lost_bytes = lost_bytes or not link.keeps.is_set()
                if not lost_bytes:
                    writer.write(data)
                    await writer.drain()
            await link.is_open.wait()  # The end of a connection is a packet too.
            await link.keeps.wait()
            if lost_bytes:
                writer.transport.abort()  # The sender no longer knows this connection, and resets it.
            else:
                writer.write_eof()
        finally:
            link.writers.discard(writer)


class _Owners:
    """Finds the owners of the other ends of accepted connections.

    One search of the open files of all nodes, on a thread, serves all waiting connections: a search of thousands of
    files takes many milliseconds. A search for each connection made the proxy so slow under many connections that
    clients gave up and reconnected, and for minutes it served only connections that were already closed.
    """

    def __init__(self, nodes: Mapping[str, _Node]) -> None:
        self._nodes = nodes
        self._pending: dict[str, asyncio.Future[str]] = {}
        self._search: asyncio.Task[None] | None = None

    async def of(self, writer: asyncio.StreamWriter) -> str | None:
        """Return the name of a node, or CLIENT, or None if no process owns the other end any longer."""
        try:
            inode = _socket_inode(writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1])
        except (OSError, TypeError):
            return None
        if inode is None:
            return None
        loop = asyncio.get_running_loop()
        answer = self._pending.setdefault(inode, loop.create_future())
        if self._search is None or self._search.done():
            self._search = loop.create_task(self._answer())
        return await answer

    async def _answer(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, {}
            pids = {name: node.pid for name, node in self._nodes.items() if node.pid is not None}
            found = await asyncio.to_thread(_owners_by_inode, pids, set(pending))
            for inode, answer in pending.items():
                if not answer.done():
                    answer.set_result(found.get(inode, CLIENT))


class _Watch:
    """Measures how long a connection through the proxy takes. A pending answer counts too."""

    def __init__(self) -> None:
        self._found: list[tuple[float, float]] = []
        self._due_s: float | None = None
        self._server: asyncio.Server | None = None

    async def serve(self) -> int:
        """The port that sends each connection a byte and closes it."""
        self._server = await asyncio.start_server(_say_hello, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def run(self, port: int) -> None:
        """A probe counts from the time at which it was due: the proxy may also stand still before it connects."""
        self._due_s = due_s = time.monotonic()
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await reader.read()
                writer.transport.abort()
            now_s = time.monotonic()
            if now_s - due_s > STANDSTILL_S:
                self._found.append((due_s, now_s))
            self._due_s = due_s = now_s + _WATCH_EVERY_S
            await asyncio.sleep(_WATCH_EVERY_S)

    def standstills(self) -> list[tuple[float, float]]:
        now_s = time.monotonic()
        if self._due_s is not None and now_s - self._due_s > STANDSTILL_S:
            return [*self._found, (self._due_s, now_s)]
        return list(self._found)


async def _say_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.write(b"!")
        await writer.drain()
    writer.close()


async def _connected(node: _Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the node. Wait for a process that does not listen yet, instead of closing the connections of others.

    Raise OSError if it refuses.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _START_S
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", node.target_port)
        except ConnectionRefusedError:
            if node.has_served or node.server is None or loop.time() > until:
                raise
            await asyncio.sleep(_TRY_AGAIN_S)
        else:
            node.has_served = True
            return reader, writer


def _node_name(key: str) -> str:
    """Return the name of the node to which a port belongs."""
    return key.partition(_NEXT_PORT)[0]


def _new_link() -> _Link:
    link = _Link(asyncio.Event(), asyncio.Event())
    link.is_open.set()
    link.keeps.set()
    return link


def _socket_inode(local_port: int, remote_port: int) -> str | None:
    """Return the inode of the connection's end at ``local_port``. The query is for this end alone, because the table of
    all may be long. Return None if no process owns it: it was closed, and its inode is 0.
    """
    here = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    ends = struct.pack(">HH", local_port, remote_port) + here + here
    query = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE) + ends + _ANY_INTERFACE_AND_COOKIE
    header = struct.pack("=IHHII", 16 + len(query), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as diagnostics:
        diagnostics.send(header + query)
        answer = diagnostics.recv(4096)
    if struct.unpack_from("=H", answer, 4) != (_SOCK_DIAG_BY_FAMILY,):
        return None
    (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
    return str(inode) if inode else None


def _owners_by_inode(pids: Mapping[str, int], inodes: Iterable[str]) -> dict[str, str]:
    """Return the owning process names by socket inode."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[str, str] = {}
    for name, pid in pids.items():
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError):
            for number in os.listdir(folder):
                with contextlib.suppress(OSError):
                    inode = wanted.get(os.readlink(f"{folder}/{number}"))
                    if inode is not None:
                        found[inode] = name
    return found


if __name__ == "__main__":
    asyncio.run(_Proxy().obey())
