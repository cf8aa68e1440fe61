"""The topics of the cluster: their names, partitions and offsets, through the admin client, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.arguments import cluster_options
from barnabas.cli.output.advice import nearest, problem_of
from barnabas.cli.sql.read_points import EARLIEST, LATEST, ReadPoint, bounds
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, TopicDescription, TopicListing
    from barnabas.clients.client_config import ClientConfig

__all__ = ["ClusterTopics", "Offsets", "TopicOffsets"]

T = TypeVar("T")
Offsets = Mapping[TopicPartition, int]

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """The offsets of a topic's partitions: those to read from, and to read up to."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def records(self) -> int:
        return sum(self.ends.values()) - sum(self.starts.values())


class ClusterTopics:
    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self.known: tuple[str, ...] = ()
        """The names of the topics when they were last listed."""

    def listing(self) -> list[TopicListing]:
        """Return the topics without internal ones. Raise StatementError."""

        async def listed(admin: AdminClient) -> list[TopicListing]:
            return [topic async for topic in admin.list_topics(include_internal=False)]

        topics = self._ask(listed)
        self.known = tuple(topic.name for topic in topics)
        return topics

    def existing(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Return the topics among the names. Raise StatementError."""

        async def described(admin: AdminClient) -> dict[str, TopicDescription]:
            found = await admin.describe_topics(names)
            for error in found.errors.values():
                if error.code not in _UNKNOWN:
                    raise error
            return {str(name): topic for name, topic in found.values.items()}

        return self._ask(described) if names else {}

    def nearest_topics(self, name: str) -> str:
        return nearest(name, [topic.name for topic in self.listing()])

    def offsets(self, topic: str, start: ReadPoint, end: ReadPoint) -> TopicOffsets:
        """Return the offsets between two points, as the topic is now. Records of open transactions are left out.

        Raise StatementError.
        """

        async def found(admin: AdminClient) -> TopicOffsets:
            described = (await admin.describe_topics([topic])).raise_for_errors()
            partitions = [TopicPartition(topic, info.partition) for info in described[topic].partitions]
            asked = (EARLIEST, LATEST, _timestamp(start), _timestamp(end))
            offsets = {
                timestamp: {} if timestamp is None else await _listed(admin, partitions, timestamp)
                for timestamp in dict.fromkeys(asked)
            }
            first, last, since, until = (offsets[timestamp] for timestamp in asked)
            return TopicOffsets(*bounds(start, end, first, last, since, until))

        return self._ask(found)

    def _ask(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        from barnabas.clients.admin.errors import AdminError
        from barnabas.clients.errors import ClientError

        async def run() -> T:
            async with await cluster_options.open_admin(self._config) as admin:
                return await work(admin)

        try:
            return asyncio.run(run())
        except (AdminError, ClientError, ExceptionGroup) as error:
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error  # Several partitions failed.
            problem = problem_of(first, right="DESCRIBE on Topic:{item}")
            raise StatementError(problem.lines()[0], advice=problem.advice) from error


def _timestamp(point: ReadPoint) -> int | None:
    return point.timestamp if point.needs_request else None


async def _listed(admin: AdminClient, partitions: Sequence[TopicPartition], timestamp: int) -> dict[int, int]:
    from barnabas.clients.admin import IsolationLevel, OffsetSpec

    specs = dict.fromkeys(partitions, OffsetSpec(timestamp))
    found = await admin.list_offsets(specs, isolation_level=IsolationLevel.READ_COMMITTED)
    return {partition.partition: listed.offset for partition, listed in found.raise_for_errors().items()}
