"""Commits of offsets by members of classic and consumer groups: one at a time, and several sent before an answer.

Each member commits the offset of one of its partitions, on its own connection, for some seconds.
"""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import NamedTuple

from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bench.groups_client import Connection, run_load
from bench.groups_members import KINDS, GroupOfMembers
from bench.groups_node import Figures, GroupsNode

__all__ = ["CommitSizes", "measure_commits"]

_TOPIC = "committed"
_PARTITIONS = 100
_VERSION = 9
_WARM_UP_S = 2.0
_NUMBERS = count()


class CommitSizes(NamedTuple):
    members: tuple[int, ...] = (1, 100)
    pipelined: int = 20
    """Requests of a member that wait for their answers."""
    seconds: float = 4.0


def measure_commits(node: GroupsNode, sizes: CommitSizes) -> Figures:
    topic_id = node.create(_TOPIC, _PARTITIONS)
    figures: Figures = {}
    for kind in ("classic", "consumer"):
        for members in sizes.members:
            name = f"{kind}-commits-{next(_NUMBERS)}"
            group = GroupOfMembers(name, KINDS[kind], _TOPIC, topic_id, _PARTITIONS, node.port)
            figures |= run_load(_commit(node, group, kind, members, sizes))
    return figures


async def _commit(node: GroupsNode, group: GroupOfMembers, kind: str, members: int, sizes: CommitSizes) -> Figures:
    await group.open()
    await group.join(members)
    connections = [await Connection.open(node.port) for _ in range(members)]
    requests = [_request(group, member.member_id, member.epoch, member.number) for member in group.members]
    figures: Figures = {}
    for way, depth in (("one at a time", 1), (f"{sizes.pipelined} pipelined", sizes.pipelined)):
        name = f"commits, {kind}, {members} member{'s' if members > 1 else ''}, {way}"
        committing = [(connection, request) for connection, request in zip(connections, requests, strict=True)] * depth
        await _commit_for(_WARM_UP_S, committing)
        before, own_s = node.cpu_s, time.process_time()
        answered, elapsed_s = await _commit_for(sizes.seconds, committing)
        figures[f"{name}, requests/s"] = answered / elapsed_s
        figures[f"{name}: CPU of a commit, us"] = (node.cpu_s - before) / answered * 1e6
        figures[f"{name}: CPU of the load, % of a core"] = (time.process_time() - own_s) / elapsed_s * 100
    await group.disband()
    for connection in connections:
        connection.close()
    return figures


def _request(group: GroupOfMembers, member_id: str, epoch: int, partition: int) -> OffsetCommitRequest:
    offsets = [OffsetCommitRequestPartition(partition_index=partition % _PARTITIONS, committed_offset=1)]
    return OffsetCommitRequest(
        group_id=group.name,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=_TOPIC, partitions=offsets)],
    )


async def _commit_for(seconds: float, committing: list[tuple[Connection, OffsetCommitRequest]]) -> tuple[int, float]:
    """Return the number of commits that were answered, and in how many seconds."""
    began = time.perf_counter()
    end = began + seconds
    counts = await asyncio.gather(*(_commit_until(end, connection, request) for connection, request in committing))
    return sum(counts), time.perf_counter() - began


async def _commit_until(end: float, connection: Connection, request: OffsetCommitRequest) -> int:
    answered = 0
    while time.perf_counter() < end:
        response = await connection.call(request, _VERSION)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response
        answered += 1
    return answered
