"""AlterReplicaLogDirs: moves replicas of this broker to other log directories of the same broker (KIP-113).

NONE means that the move has begun; DescribeLogDirs reports its progress. If this broker does not have the replica, the
answer is REPLICA_NOT_AVAILABLE, and the replica will be created in that directory once it is assigned to this broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.broker import Broker


def _error_response(request: AlterReplicaLogDirsRequest, error: ApiException) -> AlterReplicaLogDirsResponse:
    return _response({(topic_partition, error.code) for _, topic_partition in _moves(request)})


@handles(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.ALTER),),
    on_error=_error_response,
)
def handle_alter_replica_log_dirs(
    broker: Broker, request: AlterReplicaLogDirsRequest, access: Access
) -> AlterReplicaLogDirsResponse:
    if not access.allows_on_cluster(AclOperation.ALTER):
        raise access.denied(AclOperation.ALTER, ResourceType.CLUSTER)
    # A replica that is named twice moves to the last of its directories.
    wanted = {topic_partition: path for path, topic_partition in _moves(request)}
    return _response(
        {(topic_partition, _move(broker, topic_partition, path)) for topic_partition, path in wanted.items()}
    )


def _move(broker: Broker, topic_partition: TopicPartition, path: str) -> ErrorCode:
    try:
        broker.replicas.directories.move(topic_partition, path)
    except ApiException as error:
        return error.code
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


def _moves(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[str, TopicPartition]]:
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                yield directory.path, TopicPartition(topic.name, partition)


def _response(outcomes: set[tuple[TopicPartition, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, partition), code in sorted(outcomes):
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
