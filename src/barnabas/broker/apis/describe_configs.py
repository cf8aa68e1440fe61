"""DescribeConfigs: the settings of resources with their sources (KIP-133, KIP-226).

With ``barnabas.describe.configs.of.others`` a broker requests from another broker the settings and log levels that only
that broker knows. The caller needs the permission on this broker, and this broker needs it on the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.metadata.config_descriptions import ResourceDescriber, describe_resources, failed_description
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from barnabas.broker.broker import Broker
    from barnabas.broker.ports import OtherBrokers

_OF_A_NODE = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


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
def handle_describe_configs(
    broker: Broker, request: DescribeConfigsRequest, access: Access
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    def denial(resource_type: ResourceType, name: str) -> ApiException | None:
        if access.allows(resource_type, AclOperation.DESCRIBE_CONFIGS, name):
            return None
        return access.denied(AclOperation.DESCRIBE_CONFIGS, resource_type, name)

    elsewhere = {} if broker.other_brokers is None else _known_elsewhere(broker, request)
    if elsewhere and not access.allows_on_cluster(AclOperation.DESCRIBE_CONFIGS):
        elsewhere = {}
    asked = [resource for resources in elsewhere.values() for resource in resources]
    request.resources = [resource for resource in request.resources if resource not in asked]
    describer = ResourceDescriber(broker.metadata.image, broker.broker_id, broker.static_configs)
    response = describe_resources(describer, request, denial)
    if broker.other_brokers is None or not elsewhere:
        return response
    return _with_others(response, broker.other_brokers, request, elsewhere)


def _known_elsewhere(broker: Broker, request: DescribeConfigsRequest) -> Mapping[int, list[DescribeConfigsResource]]:
    """Group by broker the resources that only that broker can describe."""
    found: dict[int, list[DescribeConfigsResource]] = {}
    for resource in request.resources:
        name = resource.resource_name
        if resource.resource_type in _OF_A_NODE and name.isdecimal() and name.isascii():
            broker_id = int(name)
            if broker_id != broker.broker_id and broker.metadata.image.cluster.broker(broker_id) is not None:
                found.setdefault(broker_id, []).append(resource)
    return found


async def _with_others(
    response: DescribeConfigsResponse,
    others: OtherBrokers,
    request: DescribeConfigsRequest,
    elsewhere: Mapping[int, list[DescribeConfigsResource]],
) -> DescribeConfigsResponse:
    async def ask(broker_id: int, resources: list[DescribeConfigsResource]) -> list[DescribeConfigsResult]:
        question = DescribeConfigsRequest(
            resources=resources,
            include_synonyms=request.include_synonyms,
            include_documentation=request.include_documentation,
        )
        try:
            return (await others.ask(broker_id, question)).results
        except ApiException as error:
            return [failed_description(resource, error) for resource in resources]

    for results in await asyncio.gather(*(ask(*item) for item in elsewhere.items())):
        response.results.extend(results)
    return response
