"""The log directories of brokers, and replicas that move between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.partitions import by_topic
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import RETRIED
from barnabas.clients.admin.routing import Target, broker
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)

__all__ = ["LogDirDescription", "LogDirOperations", "ReplicaInfo", "TopicPartitionReplica"]


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A future replica is one that is being moved to this directory."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """``error`` says why a directory is offline. Bytes are None if not returned (before Kafka 3.3)."""

    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False
    error: AdminError | None = None


@dataclass(frozen=True, slots=True)
class TopicPartitionReplica:
    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker_id}"


class LogDirOperations(Operations):
    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_s: float | None = None,
    ) -> Results[int, dict[str, LogDirDescription]]:
        """Describe the directories of brokers (of all without a list) by path, with the requested replicas."""
        deadline = self._deadline(timeout_s)
        ids = await self._live_brokers(deadline) if brokers is None else list(dict.fromkeys(brokers))
        topics = (
            None
            if partitions is None
            else [
                DescribableLogDirTopic(topic=topic, partitions=[partition.partition for partition in group])
                for topic, group in by_topic(dict.fromkeys(partitions))
            ]
        )

        async def ask(part: Sequence[int], target: Target) -> Results[int, dict[str, LogDirDescription]]:
            response = await self._call(
                DescribeLogDirsRequest(topics=topics), deadline, api=ApiKey.DESCRIBE_LOG_DIRS, target=target
            )
            return Results({part[0]: {result.log_dir: _description(result) for result in response.results}}, {})

        return await self._from_each(ids, ask)

    async def alter_replica_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str], *, timeout_s: float | None = None
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas to another directory of their broker.

        A broker without the replica stores the directory for its creation, and answers REPLICA_NOT_AVAILABLE.
        """
        for replica, path in moves.items():
            refuse_unless(path.startswith("/"), f"{replica}: the path of a directory is absolute, not {path!r}")
        deadline = self._deadline(timeout_s)

        async def ask(part: Sequence[TopicPartitionReplica], target: Target) -> Results[TopicPartitionReplica, None]:
            broker_id = part[0].broker_id
            return await self._items(
                part,
                lambda left: _moves(left, moves),
                lambda response: (
                    (replica, _done(partition, replica))
                    for topic in response.results
                    for partition in topic.partitions
                    for replica in [TopicPartitionReplica(topic.topic_name, partition.partition_index, broker_id)]
                ),
                deadline,
                api=ApiKey.ALTER_REPLICA_LOG_DIRS,
                target=target,
                retried=RETRIED - {ErrorCode.REPLICA_NOT_AVAILABLE},
            )

        values: dict[TopicPartitionReplica, None] = {}
        errors: dict[TopicPartitionReplica, AdminError] = {}
        for broker_id in dict.fromkeys(move.broker_id for move in moves):
            part = [move for move in moves if move.broker_id == broker_id]
            results = await self._ask_node(ask, part, broker(broker_id))
            values |= results.values
            errors |= results.errors
        return Results(values, errors)


def _description(result: DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        {
            TopicPartition(topic.name, partition.partition_index): ReplicaInfo(
                partition.partition_size, partition.offset_lag, partition.is_future_key
            )
            for topic in result.topics
            for partition in topic.partitions
        },
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        result.is_cordoned,
        admin_error(result.error_code, None, result.log_dir) if result.error_code else None,
    )


def _moves(
    replicas: Sequence[TopicPartitionReplica], moves: Mapping[TopicPartitionReplica, str]
) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica in replicas:
        by_path.setdefault(moves[replica], []).append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=topic, partitions=[replica.partition for replica in group])
                    for topic, group in by_topic(partitions)
                ],
            )
            for path, partitions in by_path.items()
        ]
    )


def _done(result: AlterReplicaLogDirPartitionResult, replica: TopicPartitionReplica) -> AdminError | None:
    return admin_error(result.error_code, None, replica) if result.error_code else None
