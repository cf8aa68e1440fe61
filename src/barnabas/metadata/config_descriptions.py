"""Describes the settings of resources with their sources, as DescribeConfigs returns them (KIP-133, KIP-226).

Topics, groups, client metrics, this node, its log levels and the default of all brokers. A node does not describe
another node.

- A resource that is named twice is answered once, with the keys of both.
- Resources that the caller may not describe are last, and look the same whether they exist or not.
- Secrets, and settings of unknown meaning, are returned as null.
- Keys that don't exist are omitted; null or an empty list of keys means all.
- A resource of an unknown type fails alone (Kafka fails all of the request; clients take both).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.common.broker_config import broker_config_doc
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.common.topic_config import TOPIC_CONFIG_DEF
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
from barnabas.metadata.log_levels import log_levels
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from barnabas.metadata.image.metadata_image import MetadataImage

__all__ = ["ResourceDescriber", "describe_resources", "failed_description", "other_node_problem"]

_PROTECTED_BY = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
}


def describe_resources(
    describer: ResourceDescriber,
    request: DescribeConfigsRequest,
    denial: Callable[[ResourceType, str], ApiException | None],
) -> DescribeConfigsResponse:
    """``denial`` returns why the caller may not see the configs of a resource; None if it may."""
    answered: list[DescribeConfigsResult] = []
    denied: list[DescribeConfigsResult] = []
    described = _Described(with_synonyms=request.include_synonyms)
    for resource in _each_once(request.resources):
        try:
            protected_by = _protected_by(resource)
            name = CLUSTER_NAME if protected_by is ResourceType.CLUSTER else resource.resource_name
            refusal = denial(protected_by, name)
            if refusal is not None:
                denied.append(failed_description(resource, refusal))
                continue
            entries = describer.describe(resource)
        except ApiException as error:
            answered.append(failed_description(resource, error))
            continue
        result = DescribeConfigsResult(
            error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        result.configs = described.results(entries)
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


class ResourceDescriber:
    """Describes resources as one node sees them in an image; created for each request."""

    def __init__(self, image: MetadataImage, node_id: int, static_configs: Mapping[str, str]) -> None:
        self._image = image
        self._node_id = node_id
        self._levels = BrokerLevels(static_configs, image.configs.of_all_brokers(), image.configs.of_broker(node_id))
        self._topics: TopicDescriber | None = None

    def describe(self, resource: DescribeConfigsResource) -> list[ConfigEntry]:
        """Raises ApiException if the resource can't be described."""
        kind, name, names = resource.resource_type, resource.resource_name, resource.configuration_keys
        if kind == ConfigResourceType.TOPIC:
            return self._topic(name, names)
        if kind == ConfigResourceType.BROKER and not name:
            return describe_default_broker_configs(self._levels, names=names)
        if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
            problem = other_node_problem(self._node_id, ConfigResource(kind, name))
            if problem is not None:
                raise problem
            if kind == ConfigResourceType.BROKER:
                return describe_broker_configs(self._levels, names=names)
            source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
            return [ConfigEntry(logger, level, source, 0, False, False, []) for logger, level in log_levels(names)]
        if not name:
            what = "Group name" if kind == ConfigResourceType.GROUP else "Subscription name"
            raise ApiException(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")
        overrides = self._image.configs.of(ConfigResource(kind, name))
        if kind == ConfigResourceType.GROUP:
            return describe_group_configs(overrides, self._levels, names=names)
        return describe_client_metrics_configs(overrides, names=names)

    def _topic(self, name: str, names: Iterable[str] | None) -> list[ConfigEntry]:
        problem = topic_name_problem(name)
        if problem is not None:
            raise ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if self._image.topics.get(name) is None:
            raise ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        if self._topics is None:
            self._topics = TopicDescriber(self._levels)
        return self._topics.describe(self._image.configs.of_topic(name), names)


def other_node_problem(own_id: int, resource: ConfigResource) -> ApiException | None:
    """Check that the name is this node's or, except for loggers, the default of all brokers (the empty name)."""
    name = resource.name
    is_logger = resource.type == ConfigResourceType.BROKER_LOGGER
    if not name:
        return ApiException(ErrorCode.INVALID_REQUEST, "Broker id must not be empty") if is_logger else None
    try:
        broker_id = int(name)
    except ValueError:
        return ApiException(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if broker_id == own_id:
        return None
    expected = f"{own_id}" if is_logger else f"{own_id} or empty string"
    return ApiException(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {name}")


class _Described:
    """Results of inherited entries, which all topics share."""

    def __init__(self, *, with_synonyms: bool) -> None:
        self._with_synonyms = with_synonyms
        self._by_id: dict[int, DescribeConfigsResourceResult] = {}
        self._kept: list[ConfigEntry] = []
        """Keep the object: an id may be reused when its object has been freed."""

    def results(self, entries: Iterable[ConfigEntry]) -> list[DescribeConfigsResourceResult]:
        by_id = self._by_id
        return [by_id.get(id(entry)) or self._add(entry) for entry in entries]

    def _add(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        result = DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=int(entry.source),
            is_sensitive=entry.sensitive,
            synonyms=[
                DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int(synonym.source))
                for synonym in (entry.synonyms if self._with_synonyms else ())
            ],
            config_type=entry.type,
            documentation=None,
        )
        self._by_id[id(entry)] = result
        self._kept.append(entry)
        return result


def _document(result: DescribeConfigsResult) -> None:
    by_type: dict[int, Callable[[str], str | None]] = {
        ConfigResourceType.TOPIC: TOPIC_CONFIG_DEF.doc,
        ConfigResourceType.GROUP: GROUP_CONFIG_DEF.doc,
        ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIG_DEF.doc,
        ConfigResourceType.BROKER: broker_config_doc,
    }
    doc_of = by_type.get(result.resource_type)
    if doc_of is None:
        return
    for config in result.configs:
        config.documentation = doc_of(config.name)


def failed_description(resource: DescribeConfigsResource, error: ApiException) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=int(error.code),
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
