"""DescribeCluster: cluster id and brokers. Endpoint type 2 (controllers) is answered by controllers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.encoded_topic_metadata import NO_OPERATIONS
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_BROKERS, _CONTROLLERS = 1, 2
_NO_CONTROLLER = -1


@handles(ApiKey.DESCRIBE_CLUSTER, acl=(AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),))
def handle_describe_cluster(broker: Broker, request: DescribeClusterRequest, access: Access) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        raise ApiException(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        raise ApiException(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    operations = NO_OPERATIONS
    if request.include_cluster_authorized_operations:
        may_describe = access.allows_on_cluster(AclOperation.DESCRIBE)
        operations = access.operations_on(ResourceType.CLUSTER, CLUSTER_NAME) if may_describe else 0
    brokers = []
    for registration in broker.metadata.image.cluster.brokers.values():
        endpoint = registration.listeners.get(access.context.listener_name)
        if endpoint is None or (registration.fenced and not request.include_fenced_brokers):
            continue
        brokers.append(
            DescribeClusterBroker(
                broker_id=registration.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=registration.rack,
                is_fenced=registration.fenced,
            )
        )
    controller_id = broker.metadata.controller_for_clients()
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=controller_id
        if any(broker_entry.broker_id == controller_id for broker_entry in brokers)
        else _NO_CONTROLLER,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )
