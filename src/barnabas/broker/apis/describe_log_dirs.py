"""DescribeLogDirs: this broker's log directories and the sizes of their replicas, also of those being moved there.

An offline directory has only an error.
"""

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
from barnabas.storage.log_dir_usage import LogDirUsage, log_dir_usage

if TYPE_CHECKING:
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
    return DescribeLogDirsResponse(results=[_result(usage, wanted) for usage in log_dir_usage(broker.replicas.logs)])


def _result(usage: LogDirUsage, wanted: set[TopicPartition] | None) -> DescribeLogDirsResult:
    if usage.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=usage.path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for replica in usage.replicas:
        name, index = replica.topic_partition
        if wanted is None or replica.topic_partition in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=replica.size_bytes,
                    offset_lag=replica.lag,
                    is_future_key=replica.is_future,
                )
            )
    return DescribeLogDirsResult(
        log_dir=usage.path,
        topics=list(topics.values()),
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
        is_cordoned=usage.is_cordoned,
    )
