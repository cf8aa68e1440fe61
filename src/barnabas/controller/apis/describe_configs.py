"""DescribeConfigs on the controller: as a broker answers for itself, from the committed image; same permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.config_descriptions import ResourceDescriber, describe_resources, failed_description
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.security.authorizer.denial import denial_error

if TYPE_CHECKING:
    from barnabas.common.errors import ApiException
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (
    AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS),
    AclRule(ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS),
    AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS),
)


def handle(
    controller: QuorumController, context: RequestContext, request: DescribeConfigsRequest, authorizer: Authorizer
) -> Deferred[DescribeConfigsResponse]:
    def denial(resource_type: ResourceType, name: str) -> ApiException | None:
        if authorizer.authorize(context, AclOperation.DESCRIBE_CONFIGS, resource_type, name):
            return None
        return denial_error(context, AclOperation.DESCRIBE_CONFIGS, resource_type, name)

    config = controller.config
    describer = ResourceDescriber(controller.committed_image, config.node_id, config.static_configs)
    return Deferred.completed(describe_resources(describer, request, denial))


def error_response(request: DescribeConfigsRequest, error: ApiException) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[failed_description(resource, error) for resource in request.resources])
