"""DescribeLogDirs: the directories of this broker with the size of each replica in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.broker import Broker

_TOP_LEVEL_ERROR_SINCE = 3


def _error_response(request: DescribeLogDirsRequest, error: ApiException) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error.code)


@handles(
    ApiKey.DESCRIBE_LOG_DIRS,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),),
    on_error=_error_response,
)
def handle_describe_log_dirs(
    broker: Broker, request: DescribeLogDirsRequest, access: Access
) -> DescribeLogDirsResponse:
    if not access.allows_on_cluster(AclOperation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeLogDirsResponse(error_code=code if access.context.api_version >= _TOP_LEVEL_ERROR_SINCE else 0)
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=usage.path,
                topics=_topics(broker, usage.partition_bytes, wanted),
                total_bytes=usage.total_bytes,
                usable_bytes=usage.usable_bytes,
            )
            for usage in broker.replicas.logs.usage()
        ]
    )


def _topics(
    broker: Broker, sizes: Mapping[TopicPartition, int], wanted: set[TopicPartition] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic_partition, size in sizes.items():
        if wanted is not None and topic_partition not in wanted:
            continue
        topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(name=topic_partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=topic_partition.partition, partition_size=size, offset_lag=0)
        )
    return list(topics.values())
