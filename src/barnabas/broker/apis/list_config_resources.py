"""ListConfigResources: the resources whose configs can be described (KIP-714, KIP-1142).

The list contains all topics, and the groups and client-metrics subscriptions with configs of their own. Each registered
broker, fenced or not, appears twice: for its settings and for its loggers. Version 0 lists only client-metrics
subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.broker.broker import Broker

_TYPES = tuple(
    int(resource_type) for resource_type in ConfigResourceType if resource_type is not ConfigResourceType.UNKNOWN
)
_OF_BROKERS = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


@handles(
    ApiKey.LIST_CONFIG_RESOURCES,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE_CONFIGS),),
)
def handle_list_config_resources(
    broker: Broker, request: ListConfigResourcesRequest, access: Access
) -> ListConfigResourcesResponse:
    access.require_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    if access.context.api_version == 0:
        types: Iterable[int] = (int(ConfigResourceType.CLIENT_METRICS),)
    else:
        types = dict.fromkeys(request.resource_types or _TYPES)
    unknown = [resource_type for resource_type in types if resource_type not in _TYPES]
    if unknown:
        raise ApiException(ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in types
            for name in _names(broker, resource_type)
        ]
    )


def _names(broker: Broker, resource_type: int) -> Sequence[str]:
    if resource_type == ConfigResourceType.TOPIC:
        return broker.metadata.sorted_topic_names
    image = broker.metadata.image
    if resource_type in _OF_BROKERS:
        return [str(broker_id) for broker_id in sorted(image.cluster.brokers)]
    return sorted(image.configs.names(resource_type))
