"""Settings of topics, brokers, their loggers, groups and client-metrics subscriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from barnabas.clients.admin.config_entries import (
    AlterConfigOp,
    AlterConfigOpType,
    Config,
    ConfigResource,
    ConfigResourceType,
    config_entry,
    config_resource,
    is_shown,
)
from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, chunks, refuse_unless
from barnabas.clients.admin.protocol_codes import known
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target, broker
from barnabas.clients.errors import UnsupportedVersion
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import Request

__all__ = ["ConfigOperations"]

_AlterConfigsResponse: TypeAlias = incremental.IncrementalAlterConfigsResponse | legacy.AlterConfigsResponse

_DESCRIBED_PER_REQUEST = 250
_ALTERED_PER_REQUEST = 1000


class ConfigOperations(Operations):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ConfigResource, Config]:
        """Describe the settings of resources, or only ``keys``. A broker answers for its own settings."""
        batches = self.stream_configs(
            resources,
            keys=keys,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
            timeout_s=timeout_s,
        )
        parts = [part async for part in batches]
        return Results(
            {key: value for part in parts for key, value in part.values.items()},
            {key: error for part in parts for key, error in part.errors.items()},
        )

    async def stream_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Results[ConfigResource, Config]]:
        """Describe settings in batches of some hundred resources, for listings too large to hold."""
        wanted = list(dict.fromkeys(resources))
        names = None if keys is None else list(keys)
        deadline = self._deadline(timeout_s)
        for target, part in _by_target(wanted, _DESCRIBED_PER_REQUEST):

            async def describe(left: Sequence[ConfigResource], target: Target) -> Results[ConfigResource, Config]:
                return await self._describe(left, names, include_synonyms, include_documentation, target, deadline)

            yield await self._ask_node(describe, part, target)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Change some settings, keep the others. With ``wait`` every live broker returns the new values."""
        wanted = {resource: tuple(ops) for resource, ops in changes.items()}
        for resource, ops in wanted.items():
            _refuse_bad_ops(resource, ops)

        def build(left: Sequence[ConfigResource]) -> incremental.IncrementalAlterConfigsRequest:
            return incremental.IncrementalAlterConfigsRequest(
                resources=[
                    incremental.AlterConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configs=[
                            incremental.AlterableConfig(name=op.name, config_operation=op.op, value=op.value)
                            for op in wanted[resource]
                        ],
                    )
                    for resource in left
                ],
                validate_only=validate_only,
            )

        deadline = self._deadline(timeout_s)
        results = await self._alter(wanted, build, ApiKey.INCREMENTAL_ALTER_CONFIGS, deadline)
        if wait and not validate_only and results.values:
            await self._until_configs_show({resource: wanted[resource] for resource in results.values}, deadline)
        return results

    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Use the legacy API: these settings replace ALL that were set on the resource. Prefer the incremental one.

        ``wait`` waits until every live broker returns these settings; replaced ones are not checked.
        """

        def build(left: Sequence[ConfigResource]) -> legacy.AlterConfigsRequest:
            return legacy.AlterConfigsRequest(
                resources=[
                    legacy.AlterConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configs=[
                            legacy.AlterableConfig(name=name, value=value) for name, value in configs[resource].items()
                        ],
                    )
                    for resource in left
                ],
                validate_only=validate_only,
            )

        deadline = self._deadline(timeout_s)
        results = await self._alter(configs, build, ApiKey.ALTER_CONFIGS, deadline)
        if wait and not validate_only and results.values:
            changes = {
                resource: [
                    AlterConfigOp.set(name, value) for name, value in configs[resource].items() if value is not None
                ]
                for resource in results.values
            }
            await self._until_configs_show(changes, deadline)
        return results

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout_s: float | None = None
    ) -> list[ConfigResource]:
        """List the resources that have or may have settings, of these types or of all that the node knows.

        Before Kafka 4.1 topics and brokers are taken from the metadata, and groups can't be listed: a request for all
        types omits them, a request for groups raises UnsupportedVersion.
        """
        asked = list(dict.fromkeys(types))
        deadline = self._deadline(timeout_s)

        def build(version: int) -> ListConfigResourcesRequest:
            return ListConfigResourcesRequest(resource_types=[int(resource_type) for resource_type in asked])

        try:
            response = await self._call(build, deadline, api=ApiKey.LIST_CONFIG_RESOURCES, at_least=1)
        except UnsupportedVersion:
            if ConfigResourceType.GROUP in asked:
                raise
            found = await self._resources_of_an_old_node(asked, deadline)
        else:
            found = [
                ConfigResource(
                    known(ConfigResourceType, listed.resource_type, ConfigResourceType.UNKNOWN), listed.resource_name
                )
                for listed in response.config_resources
            ]
        return sorted(found, key=lambda resource: (resource.type, resource.name))

    async def _resources_of_an_old_node(
        self, asked: Sequence[ConfigResourceType], deadline: Deadline
    ) -> list[ConfigResource]:
        def is_asked(*types: ConfigResourceType) -> bool:
            return not asked or any(resource_type in asked for resource_type in types)

        found: list[ConfigResource] = []
        if is_asked(ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
            response = await self._call(MetadataRequest(topics=None), deadline, api=ApiKey.METADATA, at_least=1)
            found += [ConfigResource.topic(topic.name) for topic in response.topics if topic.name is not None]
            found += [ConfigResource.broker(node.node_id) for node in response.brokers]
            found += [ConfigResource.broker_logger(node.node_id) for node in response.brokers]
        if is_asked(ConfigResourceType.CLIENT_METRICS):
            with suppress(*(() if asked else (UnsupportedVersion,))):  # Kafka 3.7 was the first to support them.
                listed = await self._call(ListConfigResourcesRequest(), deadline, api=ApiKey.LIST_CONFIG_RESOURCES)
                found += [ConfigResource.client_metrics(resource.resource_name) for resource in listed.config_resources]
        return [resource for resource in found if is_asked(resource.type)]

    async def _describe(
        self,
        resources: Sequence[ConfigResource],
        keys: list[str] | None,
        synonyms: bool,
        documentation: bool,
        target: Target,
        deadline: Deadline,
    ) -> Results[ConfigResource, Config]:
        def build(version: int) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type, resource_name=resource.name, configuration_keys=keys
                    )
                    for resource in resources
                ],
                include_synonyms=synonyms,
                include_documentation=documentation and version >= 3,
            )

        return await self._items(
            resources,
            lambda left: build,
            lambda response: ((config_resource(result), _config(result)) for result in response.results),
            deadline,
            api=ApiKey.DESCRIBE_CONFIGS,
            target=target,
        )

    async def _alter(
        self,
        wanted: Mapping[ConfigResource, object],
        build: Callable[[Sequence[ConfigResource]], Request[_AlterConfigsResponse]],
        api: ApiKey,
        deadline: Deadline,
    ) -> Results[ConfigResource, None]:
        values: dict[ConfigResource, None] = {}
        errors: dict[ConfigResource, AdminError] = {}

        async def alter(part: Sequence[ConfigResource], target: Target) -> Results[ConfigResource, None]:
            return await self._items(
                part,
                build,
                lambda response: ((config_resource(result), _done(result)) for result in response.responses),
                deadline,
                api=api,
                target=target,
            )

        for target, part in _by_target(list(wanted), _ALTERED_PER_REQUEST):
            results = await self._ask_node(alter, part, target)
            values |= results.values
            errors |= results.errors
        return Results(values, errors)

    async def _until_configs_show(
        self, changes: Mapping[ConfigResource, Sequence[AlterConfigOp]], deadline: Deadline
    ) -> None:
        async def shows(target: Target) -> bool:
            here = [
                resource for resource in changes if not resource.answers_itself or broker(int(resource.name)) == target
            ]
            for part in chunks(here, _DESCRIBED_PER_REQUEST):
                found = await self._describe(part, None, False, False, target, deadline)
                if any(
                    resource not in found.values
                    or not all(is_shown(op, found.values[resource]) for op in changes[resource])
                    for resource in part
                ):
                    return False
            return True

        await self._until_each_broker(shows, deadline, "changing configs")


def _by_target(resources: list[ConfigResource], size: int) -> Iterable[tuple[Target, Sequence[ConfigResource]]]:
    """Group resources by node. Any node receives a non-numeric broker id, and refuses it with its own message."""
    by_target: dict[Target, list[ConfigResource]] = {}
    for resource in resources:
        target = broker(int(resource.name)) if resource.answers_itself and resource.name.isdecimal() else ANY
        by_target.setdefault(target, []).append(resource)
    for target, group in by_target.items():
        for part in chunks(group, size):
            yield target, part


def _refuse_bad_ops(resource: ConfigResource, ops: Sequence[AlterConfigOp]) -> None:
    names = [op.name for op in ops]
    refuse_unless(len(set(names)) == len(names), f"{resource}: a setting is changed twice")
    for op in ops:
        refuse_unless(op.name, f"{resource}: a setting needs a name")
        refuse_unless(
            op.value is not None or op.op == AlterConfigOpType.DELETE,
            f"{resource}: {op.op.name} {op.name} needs a value",
        )


def _done(result: incremental.AlterConfigsResourceResponse | legacy.AlterConfigsResourceResponse) -> AdminError | None:
    return admin_error(result.error_code, result.error_message, config_resource(result)) if result.error_code else None


def _config(result: DescribeConfigsResult) -> Config | AdminError:
    if result.error_code:
        return admin_error(result.error_code, result.error_message, config_resource(result))
    return Config(config_resource(result), {entry.name: config_entry(entry) for entry in result.configs})
