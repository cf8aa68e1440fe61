"""WriteTxnMarkers: ends transactions in the partitions that this broker leads, for their coordinators. Versions 1 to 2.

The answer waits until all replicas in sync have the markers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def _error_response(request: WriteTxnMarkersRequest, error: ApiException) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


@handles(
    ApiKey.WRITE_TXN_MARKERS,
    acl=(
        AclRule(ResourceType.CLUSTER, AclOperation.ALTER),
        AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),
    ),
    on_error=_error_response,
)
async def handle_write_txn_markers(
    broker: Broker, request: WriteTxnMarkersRequest, access: Access
) -> WriteTxnMarkersResponse:
    if not access.allows_on_cluster(AclOperation.ALTER, log_if_denied=False) and not access.allows_on_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        raise access.denied(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    return WriteTxnMarkersResponse(
        markers=await asyncio.gather(*(_write(broker, marker) for marker in request.markers))
    )


async def _write(broker: Broker, writable: WritableTxnMarker) -> WritableTxnMarkerResult:
    marker = TransactionMarker(
        writable.producer_id, writable.producer_epoch, writable.transaction_result, writable.coordinator_epoch
    )
    writer, version = broker.transactions.marker_writer, writable.transaction_version
    partitions = [TopicPartition(topic.name, index) for topic in writable.topics for index in topic.partition_indexes]
    codes = await asyncio.gather(*(writer.write(marker, partition, version) for partition in partitions))
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in zip(partitions, codes, strict=True):
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return WritableTxnMarkerResult(
        producer_id=writable.producer_id,
        topics=[WritableTxnMarkerTopicResult(name=name, partitions=found) for name, found in topics.items()],
    )
