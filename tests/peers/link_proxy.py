"""A TCP proxy between the processes of a cluster: it holds up or drops what one node sends to another, by direction.

Every node's address leads through it, so that nodes and clients connect to each other as always. Who connected is
found by the process that owns the other end of the connection, not by anything in the bytes. While a direction
is cut its bytes are kept: a connection stays open and is silent, as over a network that loses packets. Healing sends
what was kept, late, or resets the connections that were touched.

While a direction drops, its bytes vanish and so does the end of a connection. A connection that lost bytes stays silent
in that direction after healing too, as one whose retransmissions are minutes apart; new connections work.
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
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CLIENT", "LinkProxy"]

CLIENT = "client"
"""Who connects and is no node."""

_CHUNK = 1 << 16

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


@dataclass(slots=True)
class _Link:
    """From one node to another, over any connection of theirs."""

    is_open: asyncio.Event
    keeps: asyncio.Event
    """Cleared while what is sent vanishes."""
    writers: set[asyncio.StreamWriter] = field(default_factory=set)


class LinkProxy:
    """A process of its own, so that what goes through it does not wait for its user's threads.

    Every method may be called from any thread, and returns when it is done.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut: set[tuple[str, str]] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def add(self, name: str, *, port: int, target_port: int) -> None:
        """``port`` will lead to ``target_port`` while the node is up."""
        self._call("add", name, port, target_port)

    def node_is_up(self, name: str, pid: int) -> None:
        self._call("node_is_up", name, pid)

    def node_is_down(self, name: str) -> None:
        """Its port refuses connections, as that of a dead process does."""
        self._call("node_is_down", name)

    def cut(self, source: str, destination: str) -> None:
        """What ``source`` sends to ``destination`` is held up from now on."""
        self._cut.add((source, destination))
        self._call("cut", source, destination)

    def drop(self, source: str, destination: str) -> None:
        """What ``source`` sends to ``destination`` vanishes from now on, without a reset."""
        self._cut.add((source, destination))
        self._call("drop", source, destination)

    def heal(self, source: str, destination: str, *, resets: bool) -> None:
        """What was held up arrives now, or, if it ``resets``, never, and its connections are closed.

        What was dropped never arrives: a connection that lost bytes stays silent, unless this ``resets`` it.
        """
        self._cut.discard((source, destination))
        self._call("heal", source, destination, resets)

    def heal_all(self) -> None:
        for source, destination in list(self._cut):
            self.heal(source, destination, resets=False)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _call(self, command: str, *arguments: str | int | bool) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
            self._process.stdin.flush()
            if self._process.stdout.readline() != b"done\n":
                raise AssertionError(f"the proxy could not do {command} {arguments}")


class _Proxy:
    """The other side: in the process of its own. Commands are methods."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._links: dict[tuple[str, str], _Link] = defaultdict(_new_link)
        self._tasks: set[asyncio.Task[None]] = set()

    async def obey(self) -> None:
        """Until the commands end."""
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *arguments = json.loads(line)
            await getattr(self, command)(*arguments)
            print("done", flush=True)

    async def add(self, name: str, port: int, target_port: int) -> None:
        self._nodes[name] = _Node(port, target_port)

    async def node_is_up(self, name: str, pid: int) -> None:
        node = self._nodes[name]
        node.pid = pid
        if node.server is None:
            listening = socket.create_server(("127.0.0.1", node.port), backlog=1024)
            node.server = await asyncio.start_server(self._accepted(name), sock=listening)

    async def node_is_down(self, name: str) -> None:
        node = self._nodes[name]
        if node.server is not None:
            node.server.close()
            node.server = None

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
            task = asyncio.get_running_loop().create_task(self._serve(name, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accept

    async def _serve(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = self._owner(writer)
        try:
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._nodes[name].target_port)
        except OSError:
            writer.transport.abort()
            return
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
            await link.is_open.wait()  # An end is a packet too.
            await link.keeps.wait()
            if lost_bytes:
                writer.transport.abort()  # The sender has forgotten this connection, and resets it.
            else:
                writer.write_eof()
        finally:
            link.writers.discard(writer)

    def _owner(self, writer: asyncio.StreamWriter) -> str:
        """Which node has the other end of a connection that was accepted."""
        inode = _socket_inode(writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1])
        if inode is not None:
            for name, node in self._nodes.items():
                if node.pid is not None and _has_open(node.pid, inode):
                    return name
        return CLIENT


def _new_link() -> _Link:
    link = _Link(asyncio.Event(), asyncio.Event())
    link.is_open.set()
    link.keeps.set()
    return link


def _socket_inode(local_port: int, remote_port: int) -> str | None:
    """Of the connection's end at ``local_port``; the kernel is asked for this one, for the table of all may be long."""
    here = socket.inet_aton("127.0.0.1").ljust(16, b"\0")
    ends = struct.pack(">HH", local_port, remote_port) + here + here
    asked = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE) + ends + _ANY_INTERFACE_AND_COOKIE
    header = struct.pack("=IHHII", 16 + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as diagnostics:
        diagnostics.send(header + asked)
        answer = diagnostics.recv(4096)
    if struct.unpack_from("=H", answer, 4) != (_SOCK_DIAG_BY_FAMILY,):
        return None
    (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
    return str(inode)


def _has_open(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{name}") == wanted:
                    return True
    return False


if __name__ == "__main__":
    asyncio.run(_Proxy().obey())
