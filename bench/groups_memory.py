"""The memory of a group's member on the node: groups of 1,000 members that joined, received partitions, and stay.

A first group isn't counted, nor are many connections that come and go, as those of classic members do: they make the
node load and allocate what it keeps. Our node's memory is the resident memory of its
process. Kafka's is what is live in the heap of its JVM after a collection (``jcmd GC.class_histogram``), without the
heap's free space: how much of that a JVM keeps depends on its settings. The growth of its process is a figure too.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from bench.groups_client import Connection, run_load
from bench.groups_members import KINDS, GroupOfMembers
from bench.groups_node import Figures, GroupsNode, running_node
from bench.sides import usage_of

__all__ = ["MemorySizes", "measure_memory"]

_TOPIC = "remembered"
_NUMBERS = count()
_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
_KIB = 1024
_WAVES = 10
"""After so many, new connections use the memory of earlier ones, on both sides."""


class MemorySizes(NamedTuple):
    members: int = 1_000
    """Of a group."""
    groups: tuple[int, ...] = (1, 5)
    """How many groups there are when the memory is read."""


def measure_memory(side: str, sizes: MemorySizes) -> Figures:
    """Each kind has a node of its own."""
    figures: Figures = {}
    for kind in KINDS:
        with running_node(side) as node:
            node_figures = _measure_kind(node, kind, _live_kib if side == "kafka" else _resident_kib, sizes)
        figures |= node_figures
    return figures


def _measure_kind(node: GroupsNode, kind: str, memory_kib: Callable[[int], float], sizes: MemorySizes) -> Figures:
    topic_id = node.create(_TOPIC, sizes.members)

    def fill() -> None:
        name = f"{kind}-{next(_NUMBERS)}"
        group = GroupOfMembers(name, KINDS[kind], _TOPIC, topic_id, sizes.members, node.port)
        run_load(_fill(group, sizes.members))

    fill()
    for _ in range(_WAVES if kind == "classic" else 0):
        run_load(_connect(node.port, sizes.members))
    before, resident_before = memory_kib(node.pid), _resident_kib(node.pid)
    figures: Figures = {}
    made = 0
    for groups in sizes.groups:
        while made < groups:
            fill()
            made += 1
        members = made * sizes.members
        resident = (_resident_kib(node.pid) - resident_before) / members
        figures[f"memory of a {kind} member, {members:,} members, KiB"] = (memory_kib(node.pid) - before) / members
        figures[f"growth of the process by a {kind} member, {members:,} members, KiB"] = resident
    return figures


async def _fill(group: GroupOfMembers, members: int) -> None:
    await group.open()
    await group.join(members)
    group.abandon()


async def _connect(port: int, count: int) -> None:
    connections = [await Connection.open(port) for _ in range(count)]
    for connection in connections:
        await connection.call(HeartbeatRequest(group_id=_TOPIC), 4)
        connection.close()


def _resident_kib(pid: int) -> float:
    return usage_of(pid).resident_mib * _KIB


def _live_kib(pid: int) -> float:
    """Collect garbage in the JVM, and return how much is left in its heap."""
    command = ["jcmd", str(pid), "GC.class_histogram"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = _TOTAL.search(printed)
    assert found is not None, printed[-1000:]
    return int(found[1]) / _KIB
