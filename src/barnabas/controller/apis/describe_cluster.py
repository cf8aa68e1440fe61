"""DescribeCluster on the controller: the controllers (endpoint type 2), for callers with ALTER on the cluster.

Callers with DESCRIBE also receive their authorized operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.coordinator.deferred import Deferred
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (
    AclRule(ResourceType.CLUSTER, AclOperation.ALTER),
    AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),
)

_BROKERS, _CONTROLLERS = 1, 2


def handle(
    controller: QuorumController, context: RequestContext, request: DescribeClusterRequest, authorizer: Authorizer
) -> Deferred[DescribeClusterResponse]:
    try:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        _check_endpoint_type(request.endpoint_type, context.api_version)
    except ApiException as error:
        return Deferred.completed(DescribeClusterResponse(error_code=error.code, error_message=error.message))
    controllers = []
    for registration in controller.committed_image.cluster.controllers.values():
        endpoint = registration.listeners.get(context.listener_name)
        if endpoint is not None:
            controllers.append(DescribeClusterBroker(broker_id=registration.id, host=endpoint.host, port=endpoint.port))
    response = DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=controller.config.cluster_id,
        controller_id=controller.leader_id,
        brokers=controllers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = 0
        if authorizer.authorize(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            operations = authorizer.authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            response.cluster_authorized_operations = operations
    return Deferred.completed(response)


def _check_endpoint_type(endpoint_type: int, api_version: int) -> None:
    """Version 0 has no endpoint type, and does not know the errors of versions that have it."""
    if endpoint_type == _BROKERS:
        raise ApiException(
            ErrorCode.INVALID_REQUEST if api_version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
        )
    if endpoint_type != _CONTROLLERS:
        raise ApiException(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}")
