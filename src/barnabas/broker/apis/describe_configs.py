"""DescribeConfigs: the settings of resources with the levels that they come from (KIP-133, KIP-226)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.metadata.described_resources import ResourceDescriber, describe_resources, failed_description
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException


def _error_response(request: DescribeConfigsRequest, error: ApiException) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[failed_description(resource, error) for resource in request.resources])


@handles(
    ApiKey.DESCRIBE_CONFIGS,
    acl=(
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS),
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS),
        AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS),
    ),
    on_error=_error_response,
)
def handle_describe_configs(broker: Broker, request: DescribeConfigsRequest, access: Access) -> DescribeConfigsResponse:
    def denial(resource_type: ResourceType, name: str) -> ApiException | None:
        if access.allows(resource_type, AclOperation.DESCRIBE_CONFIGS, name):
            return None
        return access.denied(AclOperation.DESCRIBE_CONFIGS, resource_type, name)

    describer = ResourceDescriber(broker.metadata.image, broker.broker_id, broker.static_configs)
    return describe_resources(describer, request, denial)
