"""Rebalances of groups of each kind: all members join, one leaves, one joins; then nothing happens for some seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from itertools import count
from statistics import median
from typing import NamedTuple

from bench.groups_client import run_load
from bench.groups_members import KINDS, GroupOfMembers
from bench.groups_node import Figures, GroupsNode

__all__ = ["HEARTBEATS_PER_S", "RebalanceSizes", "measure_rebalances"]

_PARTITIONS_OF_A_MEMBER = 2
HEARTBEATS_PER_S = 2_000
"""Of all members together: a member waits for its next heartbeat, which must not be most of what is measured."""
_NUMBERS = count()
_PAUSE_S = 1.5
"""Between two changes, so that the second need not wait until a target may be computed again."""


class RebalanceSizes(NamedTuple):
    members: tuple[int, ...] = (100, 1_000)
    groups: int = 2
    """So many groups of each size and kind, after one that is not counted."""
    idle_s: float = 3.0


def measure_rebalances(node: GroupsNode, sizes: RebalanceSizes, kinds: tuple[str, ...] = tuple(KINDS)) -> Figures:
    figures: Figures = {}
    topics = {members: node.create(f"of-{members}", members * _PARTITIONS_OF_A_MEMBER) for members in sizes.members}
    for kind in kinds:
        for members, topic_id in topics.items():
            found = []
            for _ in range(sizes.groups + 1):
                partitions = members * _PARTITIONS_OF_A_MEMBER
                name = f"{kind}-{next(_NUMBERS)}"
                group = GroupOfMembers(name, KINDS[kind], f"of-{members}", topic_id, partitions, node.port)
                group.interval_s = members / HEARTBEATS_PER_S
                found.append(run_load(_live(node, group, members, sizes.idle_s)))
            for name in found[0]:
                figures[f"{kind}, {members:,} members: {name}"] = median(each[name] for each in found[1:])
    return figures


async def _live(node: GroupsNode, group: GroupOfMembers, members: int, idle_s: float) -> Figures:
    await group.open()
    figures: Figures = {}
    figures |= await _measured(node, "all join", group.join(members))
    await asyncio.sleep(_PAUSE_S)
    figures |= await _measured(node, "one leaves", group.leave())
    await asyncio.sleep(_PAUSE_S)
    figures |= await _measured(node, "one joins", group.join(1))
    before, began = node.cpu_s, time.perf_counter()
    await asyncio.sleep(idle_s)
    figures["heartbeats, % of a core"] = (node.cpu_s - before) / (time.perf_counter() - began) * 100
    await group.disband()
    return figures


async def _measured(node: GroupsNode, what: str, change: Awaitable[None]) -> Figures:
    cpu_s, own_s, began = node.cpu_s, time.process_time(), time.perf_counter()
    await change
    elapsed_s = time.perf_counter() - began
    return {
        f"{what}, s": elapsed_s,
        f"{what}: CPU, s": node.cpu_s - cpu_s,
        f"{what}: CPU of the load, s": time.process_time() - own_s,
    }
