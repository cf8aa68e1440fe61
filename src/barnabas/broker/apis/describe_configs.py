"""DescribeConfigs: the settings of resources with the levels that they come from (KIP-133, KIP-226).

Topics, groups, client metrics and this broker's own settings. Sensitive values and those of unknown meaning come
back as null. A broker answers for itself and for the default of all brokers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.common.topic_name import topic_name_problem
from barnabas.metadata.config_resolution import (
    BrokerLevels,
    ConfigEntry,
    describe_broker_configs,
    describe_client_metrics_configs,
    describe_default_broker_configs,
    describe_group_configs,
    describe_topic_configs,
)
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker import Broker

_DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


def _error_response(request: DescribeConfigsRequest, error: ApiException) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_failed(resource, error) for resource in request.resources])


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
    response = DescribeConfigsResponse()
    for resource in request.resources:
        try:
            protected_by, describe = _describer(broker, resource)
            name = CLUSTER_NAME if protected_by is ResourceType.CLUSTER else resource.resource_name
            if not access.allows(protected_by, AclOperation.DESCRIBE_CONFIGS, name):
                raise ApiException(_DENIED[protected_by])
            response.results.append(
                DescribeConfigsResult(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[
                        _entry(entry, resource.resource_type, request.include_synonyms, request.include_documentation)
                        for entry in describe()
                    ],
                )
            )
        except ApiException as error:
            response.results.append(_failed(resource, error))
    return response


def _describer(
    broker: Broker, resource: DescribeConfigsResource
) -> tuple[ResourceType, Callable[[], list[ConfigEntry]]]:
    """Which resource protects this one, and the function that describes it."""
    configs = broker.metadata.image.configs
    levels = BrokerLevels(broker.static_configs, configs.of_all_brokers(), configs.of_broker(broker.broker_id))
    name, names = resource.resource_name, resource.configuration_keys or None
    if resource.resource_type == ConfigResourceType.TOPIC:
        return ResourceType.TOPIC, lambda: _topic(broker, name, levels, names)
    if resource.resource_type == ConfigResourceType.GROUP:
        overrides = configs.of(ConfigResource(ConfigResourceType.GROUP, name))
        return ResourceType.GROUP, lambda: _group(name, describe_group_configs(overrides, levels, names=names))
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        overrides = configs.of(ConfigResource(ConfigResourceType.CLIENT_METRICS, name))
        return ResourceType.CLUSTER, lambda: describe_client_metrics_configs(overrides, names=names)
    if resource.resource_type == ConfigResourceType.BROKER:
        return ResourceType.CLUSTER, lambda: _broker(broker, name, levels, names)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        raise ApiException(ErrorCode.INVALID_REQUEST, "Log levels are not served as configs by this broker yet.")
    raise ApiException(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _topic(broker: Broker, name: str, levels: BrokerLevels, names: list[str] | None) -> list[ConfigEntry]:
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if broker.metadata.topic(name) is None:
        raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return describe_topic_configs(broker.metadata.image.configs.of_topic(name), levels, names=names)


def _group(name: str, entries: list[ConfigEntry]) -> list[ConfigEntry]:
    if not name:
        raise ApiException(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return entries


def _broker(broker: Broker, name: str, levels: BrokerLevels, names: list[str] | None) -> list[ConfigEntry]:
    if not name:
        return describe_default_broker_configs(levels, names=names)
    try:
        broker_id = int(name)
    except ValueError:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != broker.broker_id:
        raise ApiException(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.broker_id} or empty string, but received {name}",
        )
    return describe_broker_configs(levels, names=names)


def _entry(
    entry: ConfigEntry, resource_type: int, with_synonyms: bool, with_documentation: bool
) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if with_synonyms else ())
        ],
        config_type=entry.type,
        documentation=_documentation(resource_type, entry.name) if with_documentation else None,
    )


def _documentation(resource_type: int, name: str) -> str | None:
    from barnabas.common.broker_config_docs import broker_config_doc
    from barnabas.common.topic_config_docs import CLIENT_METRICS_CONFIG_DOCS, GROUP_CONFIG_DOCS, TOPIC_CONFIG_DOCS

    if resource_type == ConfigResourceType.BROKER:
        return broker_config_doc(name)
    docs = {
        int(ConfigResourceType.TOPIC): TOPIC_CONFIG_DOCS,
        int(ConfigResourceType.GROUP): GROUP_CONFIG_DOCS,
        int(ConfigResourceType.CLIENT_METRICS): CLIENT_METRICS_CONFIG_DOCS,
    }
    return docs[resource_type].get(name)


def _failed(resource: DescribeConfigsResource, error: ApiException) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
