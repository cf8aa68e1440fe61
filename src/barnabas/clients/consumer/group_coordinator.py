"""Requests to the coordinator of a group, and the offsets that the group has committed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.coordinator_connection import CoordinatorConnection, CoordinatorKind
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.protocol.schema import Message, Request

__all__ = ["COORDINATOR_MOVED", "Committer", "GroupCoordinator"]

R = TypeVar("R", bound="Message")

COORDINATOR_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_AGAIN = COORDINATOR_MOVED | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
_GROUPS_VERSION = 8
"""The first version of OffsetFetch for several groups: Kafka 3.0."""
_BY_NAME_VERSION = 9
"""The last version of OffsetCommit and OffsetFetch that names topics."""


@dataclass(frozen=True, slots=True)
class Committer:
    """Who reads or commits offsets. ``epoch`` is the generation, or the member's epoch in the consumer protocol."""

    member_id: str
    epoch: int
    instance_id: str | None = None


class GroupCoordinator:
    """``timeout_s`` limits the repetitions of a request."""

    def __init__(self, network: NetworkClient, group_id: str, *, timeout_s: float = 60.0) -> None:
        self.group_id = group_id
        self.backoff_s = float(network.config.values["retry.backoff.ms"]) / 1000
        self.backoff_max_s = float(network.config.values["retry.backoff.max.ms"]) / 1000
        self._timeout_s = timeout_s
        self._connection = CoordinatorConnection(network, group_id, CoordinatorKind.GROUP)

    async def connected(self) -> NodeConnection:
        """Return the connection, as soon as the cluster has a coordinator."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        while True:
            try:
                return await self._connection.connected()
            except AdminError as error:
                if error.code not in COORDINATOR_MOVED or asyncio.get_running_loop().time() >= deadline:
                    raise
            await asyncio.sleep(self.backoff_s)

    async def request(
        self, message: Request[R], *, version_max: int | None = None, timeout_s: float | None = None
    ) -> R:
        """Send a request once, and return the answer, whatever its error is. Raise AdminError, ClientError."""
        await self.connected()
        return await self._connection.request(message, version_max=version_max, timeout_s=timeout_s)

    async def committed(
        self, partitions: Iterable[TopicPartition], member: Committer | None = None
    ) -> dict[TopicPartition, int]:
        """Return the committed offsets; partitions without one are left out. Raise AdminError, ClientError."""
        wanted = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[partition.partition for partition in of_topic])
            for topic, of_topic in groupby(sorted(partitions), lambda partition: partition.topic)
        ]
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=wanted)
        if member is not None:
            group.member_id, group.member_epoch = member.member_id, member.epoch
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        found: dict[TopicPartition, int] = {}

        async def ask() -> int:
            connection = await self.connected()
            if connection.version_of(request.API_KEY) < _GROUPS_VERSION:
                raise UnsupportedVersion(f"the node at {connection.address} is older than Kafka 3.0")
            (answered,) = (await self.request(request, version_max=_BY_NAME_VERSION)).groups
            code = int(answered.error_code)
            for topic in answered.topics:
                for part in topic.partitions:
                    found[TopicPartition(topic.name, part.partition_index)] = part.committed_offset
                    code = code or part.error_code
            return code

        await self._until_answered(ask)
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    async def commit(self, offsets: Mapping[TopicPartition, int], member: Committer) -> None:
        """Commit the next offset to read of each partition. Raise AdminError, ClientError."""
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=member.epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition.partition,
                            committed_offset=offsets[partition],
                            committed_metadata="",
                        )
                        for partition in of_topic
                    ],
                )
                for topic, of_topic in groupby(sorted(offsets), lambda partition: partition.topic)
            ],
        )

        async def ask() -> int:
            response = await self.request(request, version_max=_BY_NAME_VERSION)
            codes = (part.error_code for answer in response.topics for part in answer.partitions)
            return next(filter(None, codes), 0)

        await self._until_answered(ask)

    async def drop_connection(self) -> None:
        """Look up the coordinator again at the next request."""
        await self._connection.drop()

    async def _until_answered(self, ask: Callable[[], Coroutine[object, object, int]]) -> None:
        """Repeat a request while the coordinator moves or loads. ``ask`` returns the error code."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while True:
            error: AdminError | ClientError
            try:
                code = await ask()
                if not code:
                    return
                error = admin_error(code, None, self.group_id)
                may_repeat = error.code in _AGAIN
            except ClientError as failure:
                error, may_repeat = failure, isinstance(failure, Transient)
            if not may_repeat or loop.time() >= deadline:
                raise error
            await self.drop_connection()
            await asyncio.sleep(self.backoff_s)
