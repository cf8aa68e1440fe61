"""IncrementalAlterConfigs: configs of topics, decided by the controller (KIP-133, KIP-339).

Resources of other types are refused by name here until changing them takes effect in a running node. Who may not
alter them is told just that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.broker.forwarding import forward_to_controller
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from barnabas.broker.broker import Broker

_NAMES = {
    ConfigResourceType.BROKER: "brokers",
    ConfigResourceType.BROKER_LOGGER: "broker loggers",
    ConfigResourceType.CLIENT_METRICS: "client metrics",
    ConfigResourceType.GROUP: "groups",
}


def _error_response(request: IncrementalAlterConfigsRequest, error: ApiException) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_failed(resource, error) for resource in request.resources])


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.ALTER_CONFIGS),
        AclRule(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS),
    ),
    on_error=_error_response,
)
def handle_incremental_alter_configs(
    broker: Broker, request: IncrementalAlterConfigsRequest, access: Access
) -> IncrementalAlterConfigsResponse | Awaitable[IncrementalAlterConfigsResponse]:
    refused = [resource for resource in request.resources if resource.resource_type in _NAMES]
    if not refused:
        return cast("Awaitable[IncrementalAlterConfigsResponse]", forward_to_controller(broker, request, access))
    request.resources = [resource for resource in request.resources if resource.resource_type not in _NAMES]
    return _forward_rest(broker, request, refused, access)


async def _forward_rest(
    broker: Broker, request: IncrementalAlterConfigsRequest, refused: Iterable[AlterConfigsResource], access: Access
) -> IncrementalAlterConfigsResponse:
    response = IncrementalAlterConfigsResponse()
    if request.resources:
        response = cast("IncrementalAlterConfigsResponse", await forward_to_controller(broker, request, access))
    response.responses += [_failed(resource, _refusal(resource, access)) for resource in refused]
    return response


def _refusal(resource: AlterConfigsResource, access: Access) -> ApiException:
    kind = ConfigResourceType(resource.resource_type)
    protected, name = ResourceType.CLUSTER, CLUSTER_NAME
    if kind is ConfigResourceType.GROUP:
        protected, name = ResourceType.GROUP, resource.resource_name
    if not access.allows(protected, AclOperation.ALTER_CONFIGS, name):
        return access.denied(AclOperation.ALTER_CONFIGS, protected, name)
    return ApiException(
        ErrorCode.INVALID_REQUEST,
        f"Configs of {_NAMES[kind]} cannot be changed on this broker yet; configs of topics can.",
    )


def _failed(resource: AlterConfigsResource, error: ApiException) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
