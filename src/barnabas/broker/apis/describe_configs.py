"""DescribeConfigs: the settings of resources with the levels that they come from (KIP-133, KIP-226).

Topics, groups, client metrics, this broker, its log levels, the default of all brokers; no broker for another.

- A resource that is named twice is answered once, with the keys of both.
- What the caller may not see comes last, and looks the same whether it exists or not.
- Secrets, and settings of unknown meaning, come back as null.
- Keys that don't exist are left out; no keys, or an empty list, mean all.
- A resource of an unknown type fails alone (Kafka fails all of the request; clients take both).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config_alteration import own_broker_problem
from barnabas.broker.log_levels import log_levels
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.common.topic_name import topic_name_problem
from barnabas.metadata.config_resolution import (
    BrokerLevels,
    ConfigEntry,
    ConfigSource,
    TopicDescriber,
    describe_broker_configs,
    describe_client_metrics_configs,
    describe_default_broker_configs,
    describe_group_configs,
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
    from collections.abc import Callable, Iterable

    from barnabas.broker.broker import Broker

_PROTECTED_BY = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
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
    describer = _ResourceDescriber(broker)
    answered: list[DescribeConfigsResult] = []
    denied: list[DescribeConfigsResult] = []
    for resource in _each_once(request.resources):
        try:
            protected_by = _protected_by(resource)
            name = CLUSTER_NAME if protected_by is ResourceType.CLUSTER else resource.resource_name
            if not access.allows(protected_by, AclOperation.DESCRIBE_CONFIGS, name):
                denied.append(_failed(resource, access.denied(AclOperation.DESCRIBE_CONFIGS, protected_by, name)))
                continue
            entries = describer.describe(resource)
        except ApiException as error:
            answered.append(_failed(resource, error))
            continue
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        result.configs = [_described(entry, with_synonyms=request.include_synonyms) for entry in entries]
        if request.include_documentation:
            _document(result)
        answered.append(result)
    return DescribeConfigsResponse(results=answered + denied)


def _each_once(resources: Iterable[DescribeConfigsResource]) -> list[DescribeConfigsResource]:
    merged: dict[tuple[int, str], DescribeConfigsResource] = {}
    for resource in resources:
        first = merged.setdefault((resource.resource_type, resource.resource_name), resource)
        if first is resource:
            continue
        if not first.configuration_keys or not resource.configuration_keys:
            first.configuration_keys = None
        else:
            first.configuration_keys = first.configuration_keys + resource.configuration_keys
    return list(merged.values())


def _protected_by(resource: DescribeConfigsResource) -> ResourceType:
    try:
        return _PROTECTED_BY[ConfigResourceType(resource.resource_type)]
    except (KeyError, ValueError):
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.resource_type}") from None


class _ResourceDescriber:
    """Describes the resources of one request, all from the same image."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._configs = broker.metadata.image.configs
        self._levels = BrokerLevels(
            broker.static_configs, self._configs.of_all_brokers(), self._configs.of_broker(broker.broker_id)
        )
        self._topics: TopicDescriber | None = None

    def describe(self, resource: DescribeConfigsResource) -> list[ConfigEntry]:
        name, names = resource.resource_name, resource.configuration_keys
        if resource.resource_type == ConfigResourceType.TOPIC:
            return self._topic(name, names)
        if resource.resource_type == ConfigResourceType.BROKER:
            return self._broker_itself(name, names)
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            return self._loggers(name, names)
        if not name:
            kind = "Group name" if resource.resource_type == ConfigResourceType.GROUP else "Subscription name"
            raise ApiException(ErrorCode.INVALID_REQUEST, f"{kind} must not be empty")
        overrides = self._configs.of(ConfigResource(resource.resource_type, name))
        if resource.resource_type == ConfigResourceType.GROUP:
            return describe_group_configs(overrides, self._levels, names=names)
        return describe_client_metrics_configs(overrides, names=names)

    def _topic(self, name: str, names: Iterable[str] | None) -> list[ConfigEntry]:
        problem = topic_name_problem(name)
        if problem is not None:
            raise ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if self._broker.metadata.topic(name) is None:
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        if self._topics is None:
            self._topics = TopicDescriber(self._levels)
        return self._topics.describe(self._configs.of_topic(name), names)

    def _broker_itself(self, name: str, names: Iterable[str] | None) -> list[ConfigEntry]:
        if not name:
            return describe_default_broker_configs(self._levels, names=names)
        problem = own_broker_problem(self._broker, ConfigResource(int(ConfigResourceType.BROKER), name))
        if problem is not None:
            raise problem
        return describe_broker_configs(self._levels, names=names)

    def _loggers(self, name: str, names: Iterable[str] | None) -> list[ConfigEntry]:
        problem = own_broker_problem(self._broker, ConfigResource(int(ConfigResourceType.BROKER_LOGGER), name))
        if problem is not None:
            raise problem
        source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
        return [ConfigEntry(logger, level, source, 0, False, False, []) for logger, level in log_levels(names)]


def _described(entry: ConfigEntry, *, with_synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int(synonym.source))
            for synonym in (entry.synonyms if with_synonyms else ())
        ],
        config_type=entry.type,
        documentation=None,
    )


def _document(result: DescribeConfigsResult) -> None:
    """The texts are only loaded when somebody asks for them."""
    from barnabas.common.broker_config_docs import broker_config_doc
    from barnabas.common.topic_config_docs import CLIENT_METRICS_CONFIG_DOCS, GROUP_CONFIG_DOCS, TOPIC_CONFIG_DOCS

    by_type: dict[int, Callable[[str], str | None]] = {
        ConfigResourceType.TOPIC: TOPIC_CONFIG_DOCS.get,
        ConfigResourceType.GROUP: GROUP_CONFIG_DOCS.get,
        ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIG_DOCS.get,
        ConfigResourceType.BROKER: broker_config_doc,
    }
    doc_of = by_type.get(result.resource_type)
    if doc_of is None:
        return
    for config in result.configs:
        config.documentation = doc_of(config.name)


def _failed(resource: DescribeConfigsResource, error: ApiException) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=int(error.code),
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
